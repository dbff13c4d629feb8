"""``hostdoctor compare``: the same workload from the near and from the far node."""

import contextlib
import math
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostdoctor.cli.common import emit, terminal_style
from hostdoctor.errors import UsageError

if TYPE_CHECKING:
    from hostdoctor.facts.runs import RunResult
    from hostdoctor.measure.compare import Key

QUIET_BYTES = 20 << 20  # about two seconds of reading

app = typer.Typer(add_completion=False)


@app.command(
    help="Compare results of one workload, run by turns near and far: which is faster, at the median and at p99."
)
def compare(
    near: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Results from near; in the order given, one of each pair.")
    ] = None,
    far: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Results from far, in the same order.")] = None,
    control: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Second near results: near against near must not differ.")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="The primary one: ttft, tpot, itl, e2el or wall; its median, or ttft.p99."),
    ] = "itl",
    margin: Annotated[
        float, typer.Option(min=0.0, max=10.0, metavar="SHARE", help="How much worse p99 may get: 0.1 is 10 %.")
    ] = 0.1,
    force: Annotated[bool, typer.Option("--force", help="Compare also runs of different workloads.")] = False,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")] = "text",
) -> None:
    """Print the comparison. Exits 0 whatever its verdict, 3 where the runs are not one workload."""
    from hostdoctor.measure.compare import compare_runs

    if not near or not far:
        raise UsageError("compare: give results from both nodes: --near FILE … --far FILE …")
    key, margin = _primary(metric), _share(margin)
    with _progress([*near, *far, *(control or [])]) as names:
        read = {name: _runs(name) for name in names}
    arms = [[run for name in names for run in read[name]] for names in (near, far, control or [])]
    result = compare_runs(arms[0], arms[1], control=arms[2], primary=key, margin=margin, force=force)
    if format_ == "json":
        from hostdoctor.outputs.report_json import render_json

        emit(render_json(result))
    else:
        from hostdoctor.outputs.comparison_text import render_comparison

        emit(render_comparison(result, terminal_style()))


@contextlib.contextmanager
def _progress(names: list[str]) -> Iterator[Iterable[str]]:
    """Give the names, each once; on a terminal with a bar where reading them takes a while."""
    distinct = list(dict.fromkeys(names))
    if not sys.stderr.isatty() or sum(map(_size_bytes, distinct)) < QUIET_BYTES:
        yield distinct
        return
    with typer.progressbar(distinct, label="Reading results", file=sys.stderr) as bar:
        yield bar


def _size_bytes(name: str) -> int:
    try:
        return os.stat(name).st_size  # noqa: PTH116  any name, also one that no path can have
    except (OSError, ValueError):
        return 0


def _runs(name: str) -> "tuple[RunResult, ...]":
    from pathlib import Path

    from hostdoctor.parsers.run_results import parse_run_results
    from hostdoctor.sources.texts import read_text_file
    from hostdoctor.sources.tree import decoded

    return parse_run_results(read_text_file(Path(name)), decoded(name))


def _share(margin: float) -> float:
    if math.isnan(margin):  # no range excludes it
        raise UsageError("--margin: not a share")
    return margin


def _primary(text: str) -> "Key":
    from hostdoctor.measure.arms import SHARES
    from hostdoctor.measure.compare import METRICS

    name, _, quantile = text.lower().partition(".")
    for known in SHARES:
        if name in (*METRICS, "wall") and quantile in (known, "" if known == "p50" else known):
            return name, known
    raise UsageError(f"--metric: {text[:60]!r} is none of {', '.join(METRICS)}, wall, alone or with .p50 or .p99")
