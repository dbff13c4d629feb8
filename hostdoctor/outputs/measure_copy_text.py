"""What ``measure copy`` found, as text: one table for each kind of copy, and the verdicts below it."""

from collections.abc import Iterable, Iterator, Sequence

from hostdoctor.measure.copies_model import Arm, Comparison, CopyDocument, Place, Result, Setting
from hostdoctor.measure.quantiles import Quantile
from hostdoctor.outputs.measure_text import table
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import plural, printable

KIB, MIB = 1 << 10, 1 << 20
ARROWS = {"to-gpu": "host to GPU", "from-gpu": "GPU to host"}
VERDICT_PAINT = {"near-faster": "warning", "far-faster": "warning", "unstable": "critical", "insufficient": "dim"}


def render_copies(document: CopyDocument, style: Style) -> str:
    """Return what was measured of copies, the verdicts of near against far first."""
    lines = [*_head(document), "", *_verdicts(document.results, style), *_places(document.places)]
    lines += [*_links(document), ""]
    for result in document.results:
        lines += [*_result(result, style), ""]
    lines += [f"note: {note}" for note in document.notes]
    return "\n".join(printable(line) if "\x1b" not in line else line for line in lines) + "\n"


def _head(document: CopyDocument) -> Iterator[str]:
    gpu, settings = document.gpu, document.settings
    label = f"GPU{gpu.index}" if gpu.index is not None else gpu.bdf
    far = f", far node {gpu.far_node}" if gpu.far_node is not None else ""
    distance = f" (distance {gpu.distance})" if gpu.distance is not None else ""
    assumed = " as you said" if gpu.assumed_node else ""
    yield f"{label} {gpu.name or ''} {gpu.bdf}: near node {gpu.near_node}{assumed}{far}{distance}"
    versions = f"driver {document.nvidia_driver or 'not told'}, CUDA {document.cuda_version or 'not told'}"
    yield (
        f"{versions}; {plural(settings.pairs, 'visit')} of {settings.copies_per_run} copies to each cell, buffers of"
        f" {settings.buffer_bytes // MIB} MiB"
    )
    if document.clock is not None:
        yield (
            f"clock: {document.clock.reading_ns:.0f} ns a reading, {document.clock.call_ns:.0f} ns a call:"
            " in every time below"
        )
    for copier in document.copiers:
        pinned = copier.after.get("RssShmem", 0) - copier.before.get("RssShmem", 0)
        yield (
            f"CPUs of node {copier.cpu_node}: copied from CPU {copier.cpus_seen}; shared memory grew by"
            f" {pinned // MIB} MiB, locked memory is {copier.after.get('VmLck', 0) // MIB} MiB"
        )


def _verdicts(results: Iterable[Result], style: Style) -> Iterator[str]:
    """Say of each setting what near against far came to."""
    for result in results:
        told = [
            f"{comparison.statistic} {_painted(comparison, style)}"
            for comparison in result.comparisons
            if comparison.cell == "far"
        ]
        if told:
            yield f"{_title(result)}: {'; '.join(told)}"
    yield ""


def _places(places: Iterable[Place]) -> Iterator[str]:
    for place in places:
        share = place.share if place.share_after is None else min(place.share, place.share_after)
        yield (
            f"{place.memory} memory of node {place.memory_node} for CPUs of node {place.cpu_node}: {share:.0%} of"
            f" {place.pages_asked} pages asked about are there ({place.source}; {place.way})"
        )


def _links(document: CopyDocument) -> Iterator[str]:
    for link in document.links:
        seen = [f"{value} GT/s {times}" for value, times in link.speeds_gts.items()]
        seen += [f"x{value} {times}" for value, times in link.widths_lanes.items()]
        yield f"link of {link.bdf} while copying: {', '.join(seen)} of {plural(link.readings, 'reading')}"


def _result(result: Result, style: Style) -> Iterator[str]:
    yield style.paint(_title(result), "bold")
    rows: list[Sequence[str]] = [_columns(result.setting)]
    rows += [_row(result.setting, arm) for arm in result.arms]
    yield from table(rows)
    for comparison in result.comparisons:
        yield f"  {comparison.statistic} {_against(comparison)}: {_painted(comparison, style)}"


def _title(result: Result) -> str:
    setting = result.setting
    load = "" if setting.load == "idle" else ", beside other copies and memory load"
    every = f", one every {result.interval_us:.1f} µs" if result.interval_us is not None else ""
    loop = {"closed": "one after another", "open": "on a schedule", "bandwidth": "large"}[setting.loop]
    return f"{_size(setting.size_bytes)} {ARROWS[setting.direction]}, {setting.memory}, {loop}{every}{load}"


def _columns(setting: Setting) -> Sequence[str]:
    if setting.loop == "bandwidth":
        return ("CPU node, memory node", "GB/s least", "median", "most")
    return ("CPU node, memory node", "p50 µs", "p99 µs", "p99.9 µs", "copies", *(("late",) * (setting.loop == "open")))


def _row(setting: Setting, arm: Arm) -> Sequence[str]:
    again = " again" if arm.cell.role == "near-again" else ""
    where = f"{arm.cell.cpu_node}, {arm.cell.memory_node} {arm.cell.role.removesuffix('-again')}{again}"
    if setting.loop == "bandwidth":
        rates = sorted(arm.bandwidth_gbs)
        return (where, *(f"{rate:.2f}" for rate in (rates[0], rates[len(rates) // 2], rates[-1])))
    late = (f"{arm.late_share:.0%}",) if arm.late_share is not None else ()
    return (where, *(_quantile(q) for q in (arm.p50_us, arm.p99_us, arm.p999_us)), str(arm.copies), *late)


def _quantile(quantile: Quantile | None) -> str:
    """Return a quantile with its interval; an open end is ``?``."""
    if quantile is None or quantile.value is None:
        return "n/a (N too small)"
    low, high = (("?" if end is None else f"{end:.1f}") for end in (quantile.low, quantile.high))
    few = " (few bursts)" if quantile.state == "too-few-clusters" else ""
    return f"{quantile.value:.1f} [{low}, {high}]{few}"


def _against(comparison: Comparison) -> str:
    return {
        "far": "near against far",
        "far-memory": "near against far memory",
        "far-cpu": "near against far CPU",
        "near-again": "near against near",
    }[comparison.cell]


def _painted(comparison: Comparison, style: Style) -> str:
    paint = VERDICT_PAINT.get(comparison.verdict)
    return style.paint(comparison.words, paint) if paint else comparison.words


def _size(size_bytes: int) -> str:
    return f"{size_bytes // MIB} MiB" if size_bytes >= MIB else f"{size_bytes // KIB} KiB"
