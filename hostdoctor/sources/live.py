"""The live host: the machine that this process runs on, now."""

import os
import threading
import time
from collections.abc import Iterable, Iterator

import msgspec

from hostdoctor.facts import GapKind, Sample
from hostdoctor.sources.base import Command, NvmlOutput, Output, Space
from hostdoctor.sources.commands import Completed, Running
from hostdoctor.sources.nvml import nvml_output, nvml_sample, start_nvml, start_nvml_sample
from hostdoctor.sources.tree import DiskTree, decoded


class LiveSource:
    """Evidence from the running host: its files, its commands, its driver; everything before one deadline."""

    is_live = True
    label = "this host"

    def __init__(self, timeout_s: float) -> None:
        self._tree = DiskTree("/")
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._running: dict[Command, Running] = {}
        self._nvml = start_nvml(timeout_s)

    def read(self, path: str) -> str | None:
        """Return a file's text, or None."""
        return self._tree.read(path)

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, or None."""
        return self._tree.read_bytes(path)

    def read_lines(self, path: str) -> Iterator[str] | None:
        """Return a file's lines one by one, None when it cannot be opened; the deadline begins anew for each file."""
        from hostdoctor.sources.lines import open_lines

        return open_lines(path, self._timeout_s)

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Say why :meth:`read` gave None."""
        return self._tree.why_unreadable(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names, sorted."""
        return self._tree.listdir(path)

    def readlink(self, path: str) -> str | None:
        """Return a link's target as an absolute path, or None."""
        return self._tree.readlink(path)

    def statvfs(self, path: str) -> Space | None:
        """Return the room of the file system that holds a path; a server that never answers costs the deadline."""
        found: list[Space] = []
        thread = threading.Thread(target=_statvfs, args=(path, found), daemon=True)
        thread.start()
        thread.join(max(0.0, self._deadline - time.monotonic()))
        return found[0] if found else None

    def prefetch(self, commands: Iterable[Command]) -> None:
        """Start the commands side by side."""
        for command in commands:
            if command not in self._running:
                self._running[command] = Running(command.argv, self._deadline, os.environ)

    def run(self, command: Command) -> tuple[Output, ...]:
        """Return the command's output, or why there is none."""
        self.prefetch((command,))
        completed = self._completed(self._running[command])
        if completed.reason is None:
            return (Output(source=command.label, text=completed.text),)
        return (Output(source=command.label, reason=completed.reason, kind=completed.kind),)

    def environ(self, name: str) -> str | None:
        """Return an environment variable of this process."""
        value = os.environ.get(name)
        return None if value is None else decoded(value)

    def nvml(self) -> NvmlOutput:
        """Return what NVML says."""
        return nvml_output(self._completed(self._nvml))

    def nvml_sample(self, seconds: float) -> Sample | None:
        """Return NVML's counters read twice, this far apart; a driver that does not answer costs its deadline."""
        return nvml_sample(start_nvml_sample(seconds, self._timeout_s).wait())

    def probe(self, question: str) -> str | None:
        """Try whether a system call is permitted; a child does, as a filter may kill who calls it."""
        from hostdoctor.sources.probes import probe

        return probe(question, self._timeout_s)

    def _completed(self, running: Running) -> Completed:
        completed = running.wait()
        if completed.kind == "timeout":
            return msgspec.structs.replace(completed, reason=f"did not answer within {self._timeout_s:g} s")
        return completed


def _statvfs(path: str, found: list[Space]) -> None:
    try:
        told = os.statvfs(path)
    except OSError:
        return
    unit = told.f_frsize
    found.append(
        Space(size_bytes=told.f_blocks * unit, free_bytes=told.f_bfree * unit, available_bytes=told.f_bavail * unit)
    )
