"""``hostdoctor matrix boundary``: up to where each variant holds the SLO, from result files made anywhere."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostdoctor.errors import HostdoctorError, MeasureError, ParseError, SourceError, UsageError
from hostdoctor.sources.tree import decoded

if TYPE_CHECKING:
    from hostdoctor.facts.runs import RunResult
    from hostdoctor.measure.matrix.experiment import Experiment, Slo
    from hostdoctor.measure.matrix.gather import Gathered
    from hostdoctor.measure.matrix.model import MatrixDocument

app = typer.Typer(add_completion=False)

ENDINGS = (".json", ".jsonl", ".txt", ".log")
OWN = ("plan.json", "host.json", "run.json", "matrix.json", "summary.json", "comparison.json")
MAX_FILES = 20_000


@app.command(
    help="For every variant the largest context × concurrency whose p99 holds the SLO, where it breaks, what moved"
    " with it, what follows. PATH: a folder of matrix run, or results of vllm bench serve, SGLang, GuideLLM, AIPerf."
)
def boundary(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Folders or files.")],
    ttft_p99_ms: Annotated[
        float | None, typer.Option(min=0.001, max=1e9, metavar="MS", help="SLO: time to first token.")
    ] = None,
    itl_p99_ms: Annotated[
        float | None, typer.Option(min=0.001, max=1e9, metavar="MS", help="SLO: between two tokens.")
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="The experiment that the files are of.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also of different models, tokenizers or answers.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Every cell with its figures.")] = False,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.json", help="Keep the document: report --measured.")
    ] = None,
) -> None:
    """Print the boundary. Exits 0 whatever it is, 3 where the files are not one matrix."""
    from hostdoctor.cli.matrix_running import print_document

    if output is not None:
        from hostdoctor.sources.whole_file import refuse_bad_target

        refuse_bad_target(output, force=force)
    document = _document(paths, experiment, ttft_p99_ms, itl_p99_ms, force=force)
    print_document(document, format_, show_all=show_all)
    if output is not None:
        from hostdoctor.outputs.report_json import render_json
        from hostdoctor.sources.whole_file import permitted, whole_file

        with whole_file(output, force=force, mode=permitted(0o666)) as stream:
            stream.write(render_json(document).encode())


def _document(
    paths: list[Path], file: Path | None, ttft: float | None, itl: float | None, *, force: bool
) -> "MatrixDocument":
    from hostdoctor.measure.matrix.document import Kept, make_document, shape_found, shape_of

    own = _own(paths)
    if own is not None and file is None:
        document = _of_own(own, ttft, itl)
        if document is not None:
            return document
    experiment = _experiment(file, own)
    slo = _slo(experiment, ttft, itl)
    told = _gathered(paths)
    kept = [Kept(one.cell, one.run) for one in told.found]
    if not kept:
        why = f": {told.left_out[0]}" if told.left_out else ""
        raise MeasureError(f"no result that says which cell it is of{why}")
    shape = shape_found(kept)
    if experiment is not None:
        planned = shape_of(experiment)
        unplanned = [one.name for one in told.found if one.cell.series not in planned.series]
        if unplanned:
            raise MeasureError(f"{unplanned[0]}: of no variant of the experiment (and {len(unplanned) - 1} more files)")
        shape = planned
    document = make_document(slo, shape, kept, force=force)
    return _with_left_out(document, told.left_out)


def _with_left_out(document: "MatrixDocument", left_out: tuple[str, ...]) -> "MatrixDocument":
    from msgspec.structs import replace

    more = (f"{len(left_out) - 5} more files are left out",) if len(left_out) > 5 else ()
    shown = tuple(f"left out: {text}" for text in left_out[:5])
    return replace(document, warnings=(*document.warnings, *shown, *more))


def _own(paths: list[Path]) -> Path | None:
    """Return the one folder that ``matrix run`` made, None where other things are named."""
    return paths[0] if len(paths) == 1 and (paths[0] / "plan.json").is_file() else None


def _of_own(path: Path, ttft: float | None, itl: float | None) -> "MatrixDocument | None":
    """Return the document of the runs in a folder, None where it holds none: its jobs ran elsewhere."""
    from msgspec.structs import replace

    from hostdoctor.cli.matrix_running import document_of
    from hostdoctor.measure.matrix.folder import Folder

    folder = Folder(path)
    plan = folder.plan()
    if not folder.records():
        return None
    slo = _slo(plan.experiment, ttft, itl)
    return document_of(replace(plan, experiment=replace(plan.experiment, slo=slo)), folder)


def _experiment(file: Path | None, own: Path | None) -> "Experiment | None":
    from hostdoctor.measure.matrix.experiment import read_experiment
    from hostdoctor.measure.matrix.folder import Folder

    if file is not None:
        return read_experiment(file)
    return Folder(own).plan().experiment if own is not None else None


def _slo(experiment: "Experiment | None", ttft: float | None, itl: float | None) -> "Slo":
    from hostdoctor.measure.matrix.experiment import Slo

    if any(math.isnan(limit) for limit in (ttft, itl) if limit is not None):  # no range excludes it
        raise UsageError("--ttft-p99-ms, --itl-p99-ms: not a number of milliseconds")
    if ttft is not None or itl is not None:
        return Slo(ttft_p99_ms=ttft, itl_p99_ms=itl)
    if experiment is None:
        raise UsageError("matrix boundary: say the SLO: --ttft-p99-ms, --itl-p99-ms, or --experiment FILE.toml")
    return experiment.slo


def _gathered(paths: list[Path]) -> "Gathered":
    from hostdoctor.measure.matrix.gather import gather

    results: list[tuple[RunResult, str]] = []
    unread = []
    for root in paths:
        for path in _files(root):
            name = decoded(str(path.relative_to(root) if path != root else path.name))
            try:
                results += [(run, name) for run in _runs(path, name)]
            except ParseError as error:
                if path == root:
                    raise
                unread.append(f"{name}: {error.reason}")
            except HostdoctorError as error:
                if path == root:
                    raise
                unread.append(str(error))
    told = gather(results)
    return told._replace(left_out=(*told.left_out, *unread))


def _runs(path: Path, name: str) -> "tuple[RunResult, ...]":
    from hostdoctor.parsers.run_results import parse_run_results
    from hostdoctor.sources.texts import read_text_file

    return parse_run_results(read_text_file(path), name)


def _files(root: Path) -> Iterator[Path]:
    """Yield the files that may hold results; raise UsageError for what is not there, SourceError for too many."""
    try:
        is_folder = root.is_dir()
        if not is_folder and not root.exists():
            raise UsageError(f"no such file: {str(root)[:80]!r}")
        found = sorted(p for p in root.rglob("*") if _may_hold(p)) if is_folder else [root]
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(root)[:80]!r}: {error}") from None
    if len(found) > MAX_FILES:
        raise SourceError(f"{root}: more than {MAX_FILES} files")
    yield from found


def _may_hold(path: Path) -> bool:
    """Tell whether a file in a folder may be a result: neither a document nor a log of hostdoctor's own."""
    if path.suffix.lower() not in ENDINGS or path.name in OWN or ".failed-" in str(path.parent):
        return False
    return path.name not in ("server.log", "client.log", "beside.log") and path.is_file()
