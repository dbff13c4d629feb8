"""What follows from a boundary, in words: serve up to here, a pool or a queue beyond, a limit, or not at all. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hostdoctor.budget.remedies import ORDER
from hostdoctor.measure.matrix.boundary import Boundary, Row
from hostdoctor.measure.matrix.experiment import Kind
from hostdoctor.measure.matrix.grid import Cell, Series
from hostdoctor.measure.matrix.judge import Judged
from hostdoctor.measure.matrix.model import Remedy

_LOWER = ("fp8", "int8", "int4", "nvfp4")


class Told(NamedTuple):
    """One series with its boundary and what its other cuts say."""

    series: Series
    kind: Kind
    boundary: Boundary
    others: Mapping[Cell, Judged]  # mix and prefix


def decisions(told: Told, concurrency: Sequence[int]) -> tuple[str, ...]:
    """Return what follows for one series, the most important first."""
    state = told.boundary.state
    if state == "never-holds":
        return tuple(_refused(told))
    if state == "not-told":
        return tuple(_not_told(told.boundary))
    found = [*_served(told.boundary)]
    if state == "none-inside":
        found.append("No boundary inside the grid: everything that can be run holds. A larger grid would tell it.")
    else:
        found += [*_beyond(told.boundary.rows, max(concurrency)), *_limit(told.boundary.rows)]
    return (*found, *_cuts(told))


def _served(boundary: Boundary) -> Iterator[str]:
    rows = [row for row in boundary.rows if row.holds_to is not None]
    steps = [f"{row.context:,} tokens up to {row.holds_to} at once" for row in rows]
    yield f"Serve interactively: {', '.join(steps)}."


def _beyond(rows: Sequence[Row], most: int) -> Iterator[str]:
    capped = [row for row in rows if row.holds_to is not None and row.holds_to < most and row.struck_from is None]
    if capped:
        steps = ", ".join(f"{row.holds_to} at {row.context:,} tokens" for row in capped)
        yield f"Beyond, a separate pool or a queue of its own, capped: {steps}."


def _limit(rows: Sequence[Row]) -> Iterator[str]:
    """Say up to which context a session may grow where longer ones hold at no concurrency."""
    holding = [row.context for row in rows if row.holds_to is not None]
    longer = [row for row in rows if row.context > max(holding, default=0)]
    sure = [row for row in longer if row.breaks_at is not None or row.struck_from is not None or row.failed]
    if holding and sure and len(sure) == len(longer):
        yield f"Limit a session's context to {max(holding):,} tokens: longer ones hold at no concurrency."


def _refused(told: Told) -> Iterator[str]:
    prefix = [cell for cell, judged in told.others.items() if cell.cut == "prefix" and judged.state == "holds"]
    if told.kind == "nvme" and prefix:
        cell = prefix[-1]
        yield (
            "NVMe as a prefix cache only: prompts that begin alike hold the SLO"
            f" ({cell.context:,} tokens × {cell.concurrency}), others do not."
        )
        return
    yield "Refuse it for interactive use: not even the smallest cell holds the SLO."
    if told.kind == "nvme":
        yield "NVMe, if at all, for batch and sessions that may come back late; not in the way of an answer."


def _not_told(boundary: Boundary) -> Iterator[str]:
    open_ = [f"{row.context:,} × {many}" for row in boundary.rows for many in row.neither]
    failed = [f"{row.context:,} × {many}" for row in boundary.rows for many in row.failed]
    if open_:
        yield f"Not told: neither holds nor breaks for certain at {', '.join(open_[:4])}: more repeats or requests."
    if failed:
        yield f"Not told: failed at {', '.join(failed[:4])}."
    if not open_ and not failed:
        yield "Not told: too few cells were measured."


def _cuts(told: Told) -> Iterator[str]:
    """Say what the mix and the prefix cut tell beside the grid."""
    for cell, judged in told.others.items():
        where = f"{cell.context:,} tokens × {cell.concurrency}"
        if cell.cut == "mix" and judged.state == "breaks":
            yield f"Long requests need a pool of their own: beside a small share of them {where} leaves the SLO."
        if cell.cut == "mix" and judged.state == "holds":
            yield f"A small share of long requests may stay: beside them {where} holds."
        if cell.cut == "prefix" and told.kind == "nvme" and judged.state == "breaks":
            yield f"NVMe not even as a prefix cache: prompts that begin alike ({where}) leave the SLO."


def compared(told: Told, base: Told) -> tuple[str, ...]:
    """Return how a series stands against the one that keeps all in VRAM."""
    mine = {row.context: row.holds_to or 0 for row in told.boundary.rows}
    theirs = {row.context: row.holds_to or 0 for row in base.boundary.rows}
    if "not-told" in (told.boundary.state, base.boundary.state):
        return ()
    more = [context for context in mine if mine[context] > theirs.get(context, 0)]
    less = [context for context in mine if mine[context] < theirs.get(context, 0)]
    name = base.series.label
    found = [f"Holds more than {name} at {_tokens(more)}." if more else ""]
    found += [f"Costs against {name} at {_tokens(less)}." if less else ""]
    if not more and not less:
        found.append(f"Holds as much as {name}.")
    if told.kind == "nvme" and not more and any(judged.state == "holds" for judged in told.others.values()):
        found.append("NVMe as a prefix cache only: beyond returning prefixes it holds nothing that VRAM does not.")
    return tuple(text for text in found if text)


def _tokens(contexts: Sequence[int]) -> str:
    return f"{', '.join(f'{context:,}' for context in contexts)} tokens"


# --- remedies, in their order ---


def remedies(told: Sequence[Told], base: Told, concurrency: Sequence[int]) -> tuple[Remedy, ...]:
    """Return what to try where not everything holds, the cheapest first, each with what was measured of it."""
    if base.boundary.state == "none-inside" and all(row.struck_from is None for row in base.boundary.rows):
        return ()
    made = {
        "trim-history": _trim(base.boundary.rows, max(concurrency)),
        "prefix-caching": _prefix(base),
        "kv-precision": _precision(told, base),
        "cap-long-sessions": _cap(base.boundary),
        "kv-to-ram": _to_ram(told, base),
    }
    return tuple(Remedy(name=name, text=made[name][0], measured=made[name][1]) for name in ORDER)


def _trim(rows: Sequence[Row], most: int) -> tuple[str, bool]:
    held = [row.context for row in rows if row.holds_to == most]
    if held:
        return f"Trim histories to {max(held):,} tokens: {most} at once hold there.", True
    if any(row.breaks_at is None and row.struck_from is None for row in rows):
        return f"Trim histories: not told whether {most} at once hold at a shorter context.", False
    return f"Trim histories: alone not enough, {most} at once hold at no context of the grid.", True


def _prefix(base: Told) -> tuple[str, bool]:
    found = [(cell, judged) for cell, judged in base.others.items() if cell.cut == "prefix"]
    if not found:
        return "Share what prompts begin with: prefix caching, if they repeat (not measured).", False
    cell, judged = found[-1]
    where = f"{cell.context:,} tokens × {cell.concurrency}"
    said = {"holds": "holds", "breaks": "breaks all the same", "neither": "is neither sure to hold nor to break"}
    how = said.get(judged.state, "failed")
    return f"Share what prompts begin with: prefix caching; with most of each prompt shared {where} {how}.", True


def _precision(told: Sequence[Told], base: Told) -> tuple[str, bool]:
    lower = [one for one in told if _is_lower(one.series, base.series)]
    if not lower:
        return "Keep KV in 8 bits (fp8), checked on long-context tasks (not measured).", False
    best = max(lower, key=lambda one: _held(one.boundary.rows))
    dtype = best.series.kv_cache_dtype
    return f"Keep KV in {dtype}, checked on long-context tasks: {_against(best, base)}.", _is_told(best, base)


def _is_lower(series: Series, base: Series) -> bool:
    same = (series.variant, series.request_rate) == (base.variant, base.request_rate)
    return same and series.kv_cache_dtype.startswith(_LOWER) and series.kv_cache_dtype != base.kv_cache_dtype


def _cap(boundary: Boundary) -> tuple[str, bool]:
    if boundary.state == "not-told":
        return "Cap how many long sessions run at once: not told how many hold.", False
    held = [row for row in boundary.rows if row.holds_to is not None]
    if not held:
        return "Cap how many long sessions run at once: no context of the grid holds.", True
    return f"Cap sessions of {held[-1].context:,} tokens at {held[-1].holds_to} at once.", True


def _to_ram(told: Sequence[Told], base: Told) -> tuple[str, bool]:
    found = [one for one in told if one.kind == "kv-ram" and one.series.kv_cache_dtype == base.series.kv_cache_dtype]
    if not found:
        return "Only then KV to RAM (not measured).", False
    return f"Only then KV to RAM: {_against(found[0], base)}.", _is_told(found[0], base)


def _is_told(one: Told, base: Told) -> bool:
    return "not-told" not in (one.boundary.state, base.boundary.state)


def _against(one: Told, base: Told) -> str:
    if not _is_told(one, base):
        return f"not told whether it holds more than {base.series.label}"
    mine = {row.context: row.holds_to or 0 for row in one.boundary.rows}
    theirs = {row.context: row.holds_to or 0 for row in base.boundary.rows}
    gains = [f"{mine[c]} instead of {theirs[c]} at {c:,} tokens" for c in mine if mine[c] > theirs.get(c, 0)]
    return ", ".join(gains) if gains else f"holds no more than {base.series.label}"


def _held(rows: Sequence[Row]) -> int:
    return sum(row.context * (row.holds_to or 0) for row in rows)
