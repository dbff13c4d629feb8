"""The experiment of ``hostdoctor measure nvme``: fio from one CPU node after the other, kernel counters beside it."""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor.errors import MeasureError, ParseError
from hostdoctor.facts import BlockDevice, Host, Sample
from hostdoctor.measure.documents import NO_RAW, Circumstances, DiskMeans, NvmeDocument, NvmeRun, ReadLatency
from hostdoctor.measure.nvme_plan import Reading, Target, fio_command
from hostdoctor.measure.nvme_verdict import RunTimes, compare_runs_of
from hostdoctor.measure.quantiles import samples_needed
from hostdoctor.measure.watch import disk_means
from hostdoctor.parsers.fio import FioReads, parse_fio
from hostdoctor.sources.base import Source
from hostdoctor.sources.commands import Running
from hostdoctor.survey.samples import read_counters

SETTLE_S = 30.0  # for fio to set up and report, beyond its running time
LOOK_S = 0.5  # how often a running fio is looked at
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)$", re.MULTILINE)
_BOUND = re.compile(r"^\S+ (bind:\S+)", re.MULTILINE)
MAX_TASKS = 16
MAX_FAILURES = 4  # in a row
READ_SHARE = 0.5  # of what fio read the drive is to have been asked for at least
SECTOR_BYTES = 512  # of /sys/block/DISK/stat, whatever the disk's own are


class _Seen:
    """What the kernel showed of the thread of a running fio that reads: the one whose memory is bound."""

    def __init__(self) -> None:
        self.cpus: str | None = None
        self.policy: str | None = None

    def look(self, source: Source, pid: int) -> None:
        """Look for that thread; once it was found nothing is read any more, so that fio is left alone."""
        tasks = () if self.policy else source.listdir(f"/proc/{pid}/task")[-MAX_TASKS:]
        for folder in (f"/proc/{pid}/task/{task}" for task in reversed(tasks)):
            bound = _BOUND.search(source.read(f"{folder}/numa_maps") or "")
            allowed = _ALLOWED.search(source.read(f"{folder}/status") or "")
            if bound and allowed:
                self.policy, self.cpus = bound[1], allowed[1]
                return


class NvmeExperiment:
    """The experiment, run by run; :meth:`document` tells what was measured so far."""

    def __init__(
        self, source: Source, target: Target, readings: Sequence[Reading], seconds: int, notes: Sequence[str] = ()
    ) -> None:
        self._source, self._target, self._readings, self._seconds_each = source, target, readings, seconds
        self._notes = (*target.notes, *notes)
        self._runs: list[NvmeRun] = []
        self._version: str | None = None
        self._hung = False
        self._elsewhere: list[tuple[int, int]] = []  # bytes: what fio read, and what the disk was asked for
        self._stopped: str | None = None

    @property
    def seconds(self) -> float:
        """About how long all runs take together."""
        return len(self._readings) * (self._seconds_each + 1.0)

    def steps(self) -> Iterator[float]:
        """Make the runs; yield after each part of one about how many seconds it took.

        Raises MeasureError when fio is not there, or its first run fails. A run that does not end, or MAX_FAILURES in
        a row, ends it, and what came before is kept.
        """
        for reading in self._readings:
            yield from self._run(reading)
            failed = self._runs[-1].failed
            if failed is not None and len(self._runs) == 1:
                raise MeasureError(failed)
            last = [run.failed for run in self._runs[-MAX_FAILURES:]]
            if self._hung or (len(last) == MAX_FAILURES and None not in last):
                self._stopped = failed
                return

    def document(self, circumstances: Circumstances) -> NvmeDocument:
        """Return what was measured so far."""
        return NvmeDocument(
            circumstances=circumstances,
            drive=self._target.drive,
            path=self._target.path,
            drive_node=self._target.node,
            fio=self._version,
            runs=tuple(self._runs),
            comparisons=() if self._target.node is None else compare_runs_of([_times(run) for run in self._runs]),
            stopped=self._stopped,
            notes=(*self._notes, *elsewhere_notes(self._elsewhere, len(self._runs))),
        )

    def _run(self, reading: Reading) -> Iterator[float]:
        command = fio_command(self._target, reading, self._seconds_each)
        before = self._counters()
        deadline = time.monotonic() + self._seconds_each + SETTLE_S
        running = Running(command, deadline, os.environ, dies_with_us=True)
        seen, told = _Seen(), 0.0
        try:
            while not running.ended_within(LOOK_S):
                if running.pid is not None:
                    seen.look(self._source, running.pid)
                step = min(LOOK_S, self._seconds_each + 1.0 - told)
                told += step
                yield step
        finally:
            running.stop()
        yield self._seconds_each + 1.0 - told
        after, completed = self._counters(), running.wait()
        if completed.reason is not None:
            self._hung = completed.kind == "timeout"
            self._runs.append(_run_of(reading, command, failed=_why(completed.reason, completed.kind)))
            return
        try:
            reads = parse_fio(completed.text, "fio")
        except ParseError as error:
            self._runs.append(_run_of(reading, command, failed=str(error)))
            return
        self._version = reads.version
        asked = asked_bytes(self._target.disk, before, after)
        if asked is not None and asked < READ_SHARE * reads.samples * reading.block_bytes:
            self._elsewhere.append((reads.samples * reading.block_bytes, asked))
        self._runs.append(_run_of(reading, command, reads=reads, disk=self._means(before, after, reads), seen=seen))

    def _counters(self) -> dict[str, int]:
        disk = self._target.disk
        if disk is None:
            return {}
        return read_counters(self._source, Host(block_devices=(BlockDevice(name=disk),)))

    def _means(self, before: dict[str, int], after: dict[str, int], reads: FioReads) -> DiskMeans | None:
        """Return the block layer's means over the time in which fio read."""
        if self._target.disk is None or not reads.runtime_ms:
            return None
        return disk_means(self._target.disk, Sample(seconds=reads.runtime_ms / 1000, before=before, after=after))


def asked_bytes(disk: str | None, before: Mapping[str, int], after: Mapping[str, int]) -> int | None:
    """Return how many bytes a disk was asked to read, by anybody, between two readings; None: not counted."""
    name = f"block.{disk}.read_sectors"
    return (after[name] - before[name]) * SECTOR_BYTES if name in before and name in after else None


def elsewhere_notes(runs: Sequence[tuple[int, int]], made: int) -> tuple[str, ...]:
    """Return what to say of runs whose reads the drive did not see (bytes that fio read, and of the disk)."""
    if not runs:
        return ()
    read, asked = max(runs, key=lambda run: run[0] - run[1])
    return (
        f"runs whose reads the drive mostly did not see: {len(runs)} of {made}"
        f" (at worst {asked >> 20} of {read >> 20} MiB): blocks that were never written (fallocate), a cache before"
        " it, or a kernel that does not count them; times of what it did not read are not the drive's",
    )


def _times(run: NvmeRun) -> RunTimes:
    told = run.latency
    return RunTimes(
        kind=(run.block_bytes, run.queue_depth),
        cpu_node=run.cpu_node,
        near=run.near is True,
        p50_ns=told.p50_ns if told is not None and told.samples >= samples_needed(0.5) else None,
        p99_ns=told.p99_ns if told is not None and told.samples >= samples_needed(0.99) else None,
    )


def _why(reason: str, kind: str) -> str:
    if kind == "missing":
        return "fio is not installed (Debian, Ubuntu, Fedora: package fio)"
    return f"fio: {reason.removeprefix('fio: ')}"


def _run_of(
    reading: Reading,
    command: tuple[str, ...],
    *,
    reads: FioReads | None = None,
    disk: DiskMeans | None = None,
    seen: _Seen | None = None,
    failed: str | None = None,
) -> NvmeRun:
    return NvmeRun(
        cpu_node=reading.arm.cpu_node,
        near=reading.arm.near,
        block_bytes=reading.block_bytes,
        queue_depth=reading.queue_depth,
        repeat=reading.repeat,
        command=command,
        latency=None if reads is None else _latency(reads),
        disk=disk,
        cpus_seen=None if seen is None else seen.cpus,
        policy_seen=None if seen is None else seen.policy,
        failed=failed,
        raw=NO_RAW if reads is None else msgspec.Raw(reads.raw),
    )


def _latency(reads: FioReads) -> ReadLatency:
    return ReadLatency(
        samples=reads.samples,
        p50_ns=reads.p50_ns,
        p99_ns=reads.p99_ns,
        p999_ns=reads.p999_ns,
        mean_ns=reads.mean_ns,
        iops=reads.iops,
        bytes_per_s=reads.bytes_per_s,
        runtime_ms=reads.runtime_ms,
    )
