"""``fio --output-format=json+``: the read side of its one job (fio's HOWTO, "Interpreting the output")."""

from typing import Any

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact

_MOST = 1 << 53  # ns are a hundred days
_PERCENTILES = {"p50_ns": "50.000000", "p99_ns": "99.000000", "p999_ns": "99.900000"}


class FioReads(Fact, frozen=True, kw_only=True):
    """What fio says of the reads that it made: completion latency in ns; ``raw`` is its JSON as it printed it."""

    version: str | None = None
    samples: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    mean_ns: float | None = None
    iops: float | None = None
    bytes_per_s: int | None = None
    runtime_ms: int | None = None
    raw: bytes


class _Latency(msgspec.Struct):
    mean: float | None = None
    N: int | None = None
    percentile: dict[str, int] = {}


class _Read(msgspec.Struct):
    clat_ns: _Latency | None = None
    total_ios: int = 0
    iops: float | None = None
    bw_bytes: int | None = None
    runtime: int | None = None


class _Job(msgspec.Struct):
    read: _Read
    error: int = 0


class _Printed(msgspec.Struct):
    jobs: list[_Job]
    version: str | None = msgspec.field(default=None, name="fio version")


def parse_fio(text: str, source: str) -> FioReads:
    """Return the figures of a run of one job that read something; what stands before and after the JSON is passed over.

    Raises ParseError for anything else: no JSON, no job or several, an error, no reads, figures that cannot be.
    """
    start = 0 if text.startswith("{") else text.find("\n{") + 1
    end = text.rfind("\n}", start)
    body = text[start : end + 2 if end > 0 else None].rstrip()
    if not body.startswith("{"):
        raise ParseError(source, 1, text.strip().partition("\n")[0], "no JSON of fio")
    try:
        raw = body.encode("utf-8", "replace")
        printed = msgspec.json.decode(raw, type=_Printed)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParseError(source, 1, body.partition("\n")[0], f"no JSON of fio: {error}") from None
    if printed.jobs and printed.jobs[0].read.clat_ns is None:
        raise ParseError(source, 1, f"{printed.version}", "no times in nanoseconds: fio 3 or newer is needed")
    if len(printed.jobs) != 1 or printed.jobs[0].error:
        what = f"error {printed.jobs[0].error}" if printed.jobs else "no job"
        raise ParseError(source, 1, body.partition("\n")[0], what if len(printed.jobs) < 2 else "several jobs")
    return _reads(printed, raw, source)


def _reads(printed: _Printed, raw: bytes, source: str) -> FioReads:
    read = printed.jobs[0].read
    latency = read.clat_ns or _Latency()
    told: dict[str, Any] = {name: latency.percentile.get(key) for name, key in _PERCENTILES.items()}
    samples = latency.N if latency.N is not None else read.total_ios
    if not samples or None in told.values():
        raise ParseError(source, 1, "", "no reads, or not the percentiles 50, 99 and 99.9")
    beside = [value for value in (latency.mean, read.iops, read.bw_bytes, read.runtime) if value is not None]
    times = list(told.values())
    if min([0, samples, *beside]) < 0 or times != sorted(times) or times[0] <= 0 or max(samples, *times) > _MOST:
        raise ParseError(source, 1, f"{samples} reads, {times} ns", "figures that cannot be")
    return FioReads(
        version=printed.version,
        samples=samples,
        mean_ns=latency.mean,
        iops=read.iops,
        bytes_per_s=read.bw_bytes,
        runtime_ms=read.runtime,
        raw=raw,
        **told,
    )
