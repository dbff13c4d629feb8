"""From result files made anywhere to cells: whose variant, which context, how many at once. Pure."""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from hostdoctor.facts.runs import RunResult
from hostdoctor.measure.matrix.commands import METADATA
from hostdoctor.measure.matrix.experiment import Cut
from hostdoctor.measure.matrix.grid import CLOSED_LOOP, Cell, Series

CONTEXT_TOLERANCE = 0.05  # lengths that random prompts differ by from seed to seed
_SWEEP = re.compile(r"SERVE-(.*?)-BENCH-")
_REPEAT = re.compile(r"(?:[-_.](?:run|repeat|rep|r|seed)?[=-]?\d{1,4})+$", re.IGNORECASE)
_CUTS: dict[str, Cut] = {"grid": "grid", "mix": "mix", "prefix": "prefix"}


class Found(NamedTuple):
    """A result, the cell that it belongs to, and the file's name below what was given."""

    cell: Cell
    run: RunResult
    name: str


class Gathered(NamedTuple):
    """The results that say where they belong, and why others do not."""

    found: tuple[Found, ...]
    left_out: tuple[str, ...]


class _Placed(NamedTuple):
    run: RunResult
    name: str
    tokens: float
    many: int


def gather(results: Iterable[tuple[RunResult, str]]) -> Gathered:
    """Return the cells of results, each given with its file's name below the folder that was named.

    A copy of a run counts once. What the caller noted in the file decides (``--metadata variant=A context=8192``); else
    the lengths and the concurrency limit that it tells, and the folder that it is in.
    """
    placed, left_out = [], []
    seen: dict[tuple[object, ...], str] = {}
    for run, name in results:
        twin = _identity(run)
        if twin in seen:
            left_out.append(f"{name}: the same run as {seen[twin]}")
            continue
        seen[twin] = name
        tokens, many = _tokens(run), _many(run)
        if tokens is None or many is None:
            what = "how long its prompts are" if tokens is None else "how many requests at once"
            left_out.append(f"{name}: does not tell {what} (--metadata hostdoctor_context=…, hostdoctor_concurrency=…)")
        else:
            placed.append(_Placed(run, name, tokens, many))
    contexts = _contexts([one.tokens for one in placed])
    found = [Found(_cell(one, contexts[one.tokens]), one.run, one.name) for one in placed]
    found.sort(key=lambda one: (one.run.date or "", one.name))
    return Gathered(tuple(found), tuple(left_out))


def _identity(run: RunResult) -> tuple[object, ...]:
    latencies = tuple((name, x.samples_ms, tuple(x.quantiles_ms.items())) for name, x in run.latencies.items())
    labels = tuple(sorted(run.labels.items()))
    return run.date, run.duration_s, run.max_concurrency, run.input_tokens, labels, latencies


def _label(run: RunResult, name: str) -> str | None:
    return run.labels.get(f"{METADATA}{name}") or run.labels.get(name)


def _number(text: str | None) -> int | None:
    is_count = text is not None and text.isascii() and text.isdecimal() and len(text) < 10
    return (int(text) or None) if is_count and text is not None else None


def _tokens(run: RunResult) -> float | None:
    told = _number(_label(run, "context"))
    if told is not None:
        return float(told)
    if not run.completed or run.input_tokens is None or run.output_tokens is None:
        return None
    return (run.input_tokens + run.output_tokens) / run.completed


def _many(run: RunResult) -> int | None:
    """Return how many requests there were at once; without a limit and a rate, all of them."""
    told = _number(_label(run, "concurrency"))
    if told is not None:
        return told
    if run.max_concurrency is not None:
        return max(1, round(run.max_concurrency))
    return (run.prompts or run.completed) if run.request_rate == "inf" else None


def _contexts(tokens: Sequence[float]) -> dict[float, int]:
    """Return the context that each mean length stands for: lengths close to each other are one."""
    found: dict[float, int] = {}
    group: list[float] = []
    for one in [*sorted(set(tokens)), float("inf")]:
        if group and one > group[0] * (1 + CONTEXT_TOLERANCE):
            middle = round(group[len(group) // 2])
            found |= dict.fromkeys(group, middle)
            group = []
        group.append(one)
    return found


def _cell(one: _Placed, context: int) -> Cell:
    run = one.run
    rate = CLOSED_LOOP if run.request_rate in (None, "inf") else f"{run.request_rate:g}"
    cut = _CUTS.get(_label(run, "cut") or "grid", "grid")
    series = Series(
        variant=_name(_variant(run, one.name)),
        kv_cache_dtype=_name(_label(run, "kv_cache_dtype") or "auto"),
        request_rate=rate if cut == "grid" else CLOSED_LOOP,
    )
    return Cell(series=series, cut=cut, context=context, concurrency=one.many)


def _name(text: str) -> str:
    """Return what a file calls something, fit for one line: no control characters, 40 at most."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:40] or "?"


def _variant(run: RunResult, name: str) -> str:
    """Return the variant that a file tells, else that its folder or name does."""
    told = _label(run, "variant") or run.labels.get("label")
    if told is not None:
        return told
    parts = PurePath(name).parts
    for part in reversed(parts[:-1]):
        sweep = _SWEEP.search(part)
        if sweep is not None:
            return sweep[1] or part
    if len(parts) > 1:
        return parts[0]
    return _REPEAT.sub("", PurePath(name).stem) or "results"
