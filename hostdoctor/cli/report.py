"""``hostdoctor report``: everything known about a host on one page."""

import datetime
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostdoctor.cli.common import (
    ChecksDirOption,
    DemoOption,
    FromOption,
    KvOffloadOption,
    OffloadOption,
    QuickOption,
    TimeoutOption,
    emit,
    gib_bytes,
    open_evidence,
    stated_path,
    survey_host,
    timeout_of,
)
from hostdoctor.cli.placing import COMMAND_LAST, EngineVersionOption, Wish, place, warnings_of
from hostdoctor.diagnosis import Ask, MemoryPlan, Report, in_scope
from hostdoctor.errors import HostdoctorError, SourceError, UsageError
from hostdoctor.facts import Gpu, Host
from hostdoctor.sources.base import Source

if TYPE_CHECKING:
    from hostdoctor.budget.plan import Plan
    from hostdoctor.diagnosis.api import Rule
    from hostdoctor.outputs.page.model import About, Measurement, Page, Wrapper
    from hostdoctor.sources.commands import Running
    from hostdoctor.sources.cpu import CpuDescription

app = typer.Typer()

# Those that inference on CPUs and compression care for, in py-cpuinfo's spelling.
INSTRUCTIONS: tuple[str, ...] = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "bf16", "i8mm", "svebf16"),
)
STAND_IN = ["vllm", "serve", "MODEL"]
MAX_FILE_BYTES = 64 << 20
Format = Literal["html", "markdown"]


@app.command(
    context_settings=COMMAND_LAST,
    help="Write everything known about this host on one page of HTML, or as Markdown for a ticket.",
)
def report(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND…]", help="What the launch wrappers start.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of printing.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")] = False,
    format_: Annotated[Format, typer.Option("--format", help="What to write.")] = "html",
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="OLD NEW", help="What changed between two captures, or two files of check --format json."),
    ] = None,
    from_: FromOption = None,
    measured: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="What `measure` or `compare` wrote as JSON; repeatable.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="What `plan --format json` wrote.")] = None,
    gpus: Annotated[
        str, typer.Option(metavar="GPUS", help="Judge only these: indices, UUIDs, addresses, or all.")
    ] = "",
    tp: Annotated[
        int | None, typer.Option("--tp", min=1, metavar="N", help="Plan: the GPUs, in order, form sets of N.")
    ] = None,
    model_path: Annotated[
        str, typer.Option(metavar="PATH", help="Where the model lies: judge the drives below it.")
    ] = "",
    kv_path: Annotated[
        str, typer.Option(metavar="PATH", help="Where the KV cache spills to: judge the drives below it.")
    ] = "",
    cpu_offload_gib: OffloadOption = None,
    kv_offload_gib: KvOffloadOption = None,
    engine_version: EngineVersionOption = "",
    checks_dir: ChecksDirOption = None,
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    demo: DemoOption = False,
) -> None:
    """Survey, judge, place, and write the page. Exits 0 when it was written, whatever the verdict."""
    from hostdoctor.diagnosis.registry import load_rules
    from hostdoctor.sources.cpu import start_cpu

    if format_ == "html" and output is None and on_terminal():
        raise UsageError("a page of HTML is no text for a terminal: -o FILE, or --format markdown")
    if output is not None:
        from hostdoctor.sources.whole_file import refuse_bad_target

        refuse_bad_target(output, force=force)
    rules = load_rules(checks_dir or ())
    if compare is not None:
        if from_ or demo or measured or plan or command:
            raise UsageError("--compare looks at its two files alone")
        _deliver(_compared(compare, rules, format_), output, force=force)
        return
    limit_s = timeout_of(timeout, quick=quick)
    shown = [one for path in measured or () for one in _measured(path)]
    planned = None if plan is None else _plan(plan)
    source = open_evidence(from_, demo=demo, timeout_s=limit_s)
    cpu = start_cpu(limit_s) if source.is_live else None
    paths = [stated_path(source, "--model-path", model_path), stated_path(source, "--kv-path", kv_path)]
    host = survey_host(source, paths=[path for path in paths if path])
    ask = _ask(host, gpus, tp, paths, cpu_offload_gib, kv_offload_gib)
    page = _page(source, host, ask, rules, shown, planned, _cpu(source, cpu))
    page = _with_wrappers(page, source, ask, command, engine_version, limit_s)
    page = _with_budget(page, source, ask, cpu_offload_gib, kv_offload_gib)
    _deliver(_render(page, format_), output, force=force)


def on_terminal() -> bool:
    """Tell whether a person would see the page's source."""
    return sys.stdout.isatty()


def _ask(
    host: Host, gpus: str, tp: int | None, paths: list[str | None], weights_gib: float | None, kv_gib: float | None
) -> Ask:
    from hostdoctor.placement.selection import named_gpus

    positions = named_gpus(host, gpus)
    many = len(in_scope(host, Ask(gpus=positions)))
    if tp is not None and tp > max(many, 1):
        raise UsageError(f"--tp: sets of {tp} GPUs, but {many} in scope")
    weights, kv = gib_bytes("--cpu-offload-gib", weights_gib), gib_bytes("--kv-offload-gib", kv_gib)
    memory = MemoryPlan(weights_bytes=weights or 0, kv_bytes=kv or 0) if weights or kv else None
    return Ask(gpus=positions, tp=tp, model_path=paths[0], kv_path=paths[1], memory=memory)


def _page(
    source: Source,
    host: Host,
    ask: Ask,
    rules: "tuple[Rule, ...]",
    shown: "list[Measurement]",
    planned: "Plan | None",
    cpu: "CpuDescription | None",
) -> "Page":
    from hostdoctor.config import read_config
    from hostdoctor.diagnosis.accept import by_date
    from hostdoctor.diagnosis.runner import diagnose
    from hostdoctor.outputs.page.model import Page

    # what this machine's site accepts says nothing of a captured one
    listed = read_config(None).accept if source.is_live else ()
    accepts, ended = by_date(listed, datetime.datetime.now(tz=datetime.timezone.utc).date())
    judged = diagnose(host, ask, rules, accepts=accepts, ended=ended)
    fired = {result.id for result in judged.results if result.findings}
    return Page(
        report=judged,
        about=_about(host, cpu),
        documentation={rule.id: rule.documentation for rule in rules if rule.id in fired},
        measurements=tuple(shown),
        plan=planned,
    )


def _with_wrappers(
    page: "Page", source: Source, ask: Ask, command: list[str] | None, version: str, limit_s: float
) -> "Page":
    import msgspec

    host = page.report.host
    made = tuple(_wrapper(source, host, title, gpus, command, version, limit_s) for title, gpus in _sets(host, ask))
    return msgspec.structs.replace(page, wrappers=made, command=shlex.join(command or STAND_IN))


def _sets(host: Host, ask: Ask) -> Iterator[tuple[str, tuple[Gpu, ...]]]:
    """Yield the sets of GPUs that somebody may start a command on: those of each node, then all."""
    from hostdoctor.diagnosis.subjects import near_nodes

    scope = in_scope(host, ask)
    by_nodes: dict[tuple[int, ...], list[Gpu]] = {}
    for gpu in scope:
        by_nodes.setdefault(near_nodes(gpu), []).append(gpu)
    if len(by_nodes) > 1:
        for nodes, gpus in sorted(by_nodes.items()):
            known = f"NUMA node {', '.join(map(str, nodes))}" if nodes else "a NUMA node that is not known"
            yield f"The GPUs of {known}", tuple(gpus)
    if scope:
        yield "All GPUs" if ask.gpus is None else "The GPUs that were asked for", scope


def _wrapper(
    source: Source,
    host: Host,
    title: str,
    gpus: tuple[Gpu, ...],
    command: list[str] | None,
    version: str,
    limit_s: float,
) -> "Wrapper":
    from hostdoctor import __version__
    from hostdoctor.diagnosis.subjects import brief, gpu_labels
    from hostdoctor.outputs.page.model import Wrapper
    from hostdoctor.placement.emitting import Made, render

    names = [str(gpu.index) if gpu.index is not None else gpu.bdf or gpu.uuid or "" for gpu in gpus]
    labels = brief(gpu_labels(host, gpus))
    argv = command or [*STAND_IN, "--tensor-parallel-size", str(len(gpus))]
    made = Made(host=host.system.hostname, version=__version__, time=_now())
    named = f"{title} ({labels})"
    try:
        launch = place(source, host, Wish(gpus=",".join(names), engine_version=version), argv, limit_s)
        line = render(launch, "args", made=made)
        script = render(launch, "shell", made=made)
    except HostdoctorError as error:
        return Wrapper(title=named, gpus=labels, reason=str(error))
    line, script = (text.encode("utf-8", "replace").decode() for text in (line, script))
    return Wrapper(title=named, gpus=labels, line=line.rstrip("\n"), script=script, warnings=tuple(warnings_of(launch)))


def _with_budget(page: "Page", source: Source, ask: Ask, weights_gib: float | None, kv_gib: float | None) -> "Page":
    """Return the page with the budget; one that cannot be made says why and costs nothing else."""
    import msgspec

    from hostdoctor.budget.whole import Request, whole_budget

    request = Request(positions=ask.gpus, tp=ask.tp, cpu_offload_gib=weights_gib or 0.0, kv_offload_gib=kv_gib or 0.0)
    try:
        told, made = whole_budget(source, page.report.host, request)
    except HostdoctorError as error:
        return msgspec.structs.replace(page, budget_reason=f"Not computed: {error}.")
    return msgspec.structs.replace(page, budget=told, node_budgets=made.nodes)


def _render(page: "Page", format_: Format) -> str:
    if format_ == "markdown":
        from hostdoctor.outputs.page.markdown import render_page_markdown

        return render_page_markdown(page)
    from hostdoctor.outputs.page.html import render_page

    return render_page(page)


def _deliver(text: str, output: Path | None, *, force: bool) -> None:
    if output is None:
        emit(text)
        return
    from hostdoctor.sources.whole_file import permitted, whole_file

    with whole_file(output, force=force, mode=permitted(0o666)) as stream:
        stream.write(text.encode("utf-8", "replace"))


def _cpu(source: Source, running: "Running | None") -> "CpuDescription | None":
    """Return what py-cpuinfo says of the host's CPU: of this machine's, or what a capture keeps of that."""
    from hostdoctor.sources.cpu import CpuDescription, captured_cpu, cpu_output

    told = captured_cpu(source) if running is None else cpu_output(running.wait())
    return told if isinstance(told, CpuDescription) else None


def _about(host: Host | None, cpu: "CpuDescription | None" = None) -> "About":
    import platform

    from hostdoctor import __version__
    from hostdoctor.outputs.page.model import About

    versions = {"hostdoctor": __version__, "Python": platform.python_version()}
    if host is not None:
        told = host.system
        named = {
            "Linux": told.kernel,
            "CPU": told.cpu_model,
            "NVIDIA driver": told.nvidia_driver,
            "Architecture": told.architecture,
        }
        flags = [flag for flag in INSTRUCTIONS if cpu is not None and flag in cpu.flags]
        named["CPU instructions"] = ", ".join(flags) or None
        versions |= {name: value for name, value in named.items() if value}
    return About(made_at=_now(), versions=versions, commands=(shlex.join(["hostdoctor", *sys.argv[1:]]), *_again(host)))


def _again(host: Host | None) -> Iterator[str]:
    """Yield the command that keeps what a live report was made of."""
    if host is not None and host.is_live:
        yield "hostdoctor capture -o host.tar.gz"
        yield "hostdoctor report --from host.tar.gz -o report.html"


def _now() -> str:
    return datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")


def _read(option: str, path: Path) -> bytes:
    """Return a file's bytes; raise UsageError for what is not there, SourceError for what cannot be read."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{option}: no such file: {str(path)[:80]!r}") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: not read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise SourceError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB")
    return data


def _measured(path: Path) -> "list[Measurement]":
    from hostdoctor.outputs.page.documents import read_document
    from hostdoctor.outputs.page.measured import measurements

    return measurements(read_document(_read("--measured", path), str(path)), path.name)


def _plan(path: Path) -> "Plan":
    import msgspec

    from hostdoctor.budget.plan import Plan, Unsupported

    data = _read("--plan", path)
    try:
        return msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            told = msgspec.json.decode(data, type=Unsupported).unsupported
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise SourceError(f"{path}: not what hostdoctor plan --format json writes: {str(error)[:200]}") from None
        raise SourceError(f"{path}: a plan without figures: {told[:200]}") from None


def _compared(names: tuple[str, str], rules: "tuple[Rule, ...]", format_: Format) -> str:
    from hostdoctor.diagnosis.changes import compare_reports
    from hostdoctor.outputs.page.changes import changes_markdown, render_changes

    before, after = (_report_of(name, rules) for name in names)
    changes = compare_reports(before, after)
    if format_ == "markdown":
        return changes_markdown(changes, names)
    return render_changes(changes, names, _about(None))


def _report_of(name: str, rules: "tuple[Rule, ...]") -> Report:
    """Return the report in a JSON file, or that of the host which a JSON file, capture or folder holds."""
    from hostdoctor.diagnosis.runner import diagnose

    path = Path(name)
    if path.is_file():
        told = _json_of(path)
        if isinstance(told, Report):
            return told
        if told is not None:
            return diagnose(told, Ask(), rules)
    source = open_evidence([name], demo=False, timeout_s=timeout_of(None, quick=True))
    return diagnose(survey_host(source), Ask(), rules)


def _json_of(path: Path) -> Report | Host | None:
    """Return the report or host that a JSON file holds, None for a file that is something else."""
    import msgspec

    with path.open("rb") as stream:
        if stream.read(64).lstrip()[:1] != b"{":
            return None
    data = _read("--compare", path)
    try:
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if "results" in keys:
            return msgspec.json.decode(data, type=Report)
        return msgspec.json.decode(data, type=Host) if "numa_nodes" in keys else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{path}: not what check or topo --format json writes: {str(error)[:200]}") from None
