"""How ``matrix run`` goes from an experiment to a plan, and through it with its progress."""

import datetime
import os
from pathlib import Path
from typing import Literal

import typer

from hostdoctor.cli.common import FULL_TIMEOUT_S, emit, open_evidence, survey_host, terminal_style
from hostdoctor.cli.comparing import signal_name, want_directory
from hostdoctor.cli.placing import Wish, place, place_on_node, versions_of, versions_with
from hostdoctor.errors import HostdoctorError, MeasureError, UsageError
from hostdoctor.facts import Fact, Host
from hostdoctor.measure.matrix.commands import metrics_url, ready_url, server_environment, server_words
from hostdoctor.measure.matrix.document import of_plan
from hostdoctor.measure.matrix.experiment import Experiment, read_experiment
from hostdoctor.measure.matrix.folder import Folder
from hostdoctor.measure.matrix.grid import Series, all_series, open_cells
from hostdoctor.measure.matrix.model import MatrixDocument, Plan
from hostdoctor.measure.matrix.run import carry_out
from hostdoctor.measure.serving import now
from hostdoctor.measure.trial_arms import bound_arm, client_cpus, refuse_busy_gpus
from hostdoctor.measure.trial_model import Arm
from hostdoctor.measure.trial_server import refuse_beyond_loopback
from hostdoctor.outputs.matrix_text import render_dry_run, render_forecast, render_matrix, render_step
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.placement.applying import Step
from hostdoctor.placement.engine_version import installed_version
from hostdoctor.placement.engines import recognise
from hostdoctor.placement.model import Launch
from hostdoctor.sources.base import Source
from hostdoctor.sources.tree import decoded

SIGINT_STATUS = 130
MAX_DISKS = 32


class Asked(Fact, frozen=True, kw_only=True):
    """What the options asked for."""

    experiment: Path | None
    out: Path | None
    resume: Path | None
    retry_failed: bool
    bisect: bool
    budget_s: float | None
    dry_run: bool
    emit: Literal["k8s", "slurm", "shell"] | None
    image: str
    format: str
    force: bool
    assume_node: int | None
    use_isolated: bool


def run_matrix(asked: Asked) -> None:
    """Run a matrix, or say what it would run, or write it as jobs."""
    want_directory()
    source = open_evidence(None, demo=False, timeout_s=FULL_TIMEOUT_S)
    host = survey_host(source)
    if asked.resume is not None:
        folder = Folder(asked.resume)
        plan = _resumed(asked, folder, host)
    else:
        assert asked.experiment is not None
        folder = Folder(asked.out or Path(f"hostdoctor-matrix-{datetime.datetime.now():%Y%m%d-%H%M%S}"))
        plan = make_plan(asked, read_experiment(asked.experiment), source, host)
    if asked.dry_run:
        emit(render_dry_run(plan, str(folder.path)))
        return
    if asked.emit is not None:
        _emit_jobs(asked, plan, folder, host)
        return
    if plan.gpu_indices and not asked.force:
        refuse_busy_gpus(host, plan.gpu_indices)
    if asked.resume is None:
        folder.make()
    with folder.held():
        if asked.resume is None:
            folder.create(plan, host)
        elif asked.retry_failed:
            _say(f"{folder.forget_failed()} failed runs are made again")
        _say(render_forecast(plan, str(folder.path)))
        _finish(asked, plan, folder, _made(source, host, plan, folder, asked.budget_s))


def _made(
    source: Source, host: Host, plan: Plan, folder: Folder, budget_s: float | None
) -> "int | HostdoctorError | None":
    """Make the runs; return the status that a signal asked for, or why they ended early."""
    try:
        if not carry_out(source, host, plan, folder, lambda t: _say(render_step(t, bisect=plan.bisect)), budget_s):
            _say(f"the time is used up: --resume {folder.path} goes on (with --budget-minutes for all of it)")
    except KeyboardInterrupt:
        return SIGINT_STATUS
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else SIGINT_STATUS
    except HostdoctorError as error:
        return error
    return None


def document_of(plan: Plan, folder: Folder) -> MatrixDocument:
    """Return what the runs in a matrix' own folder say; raise MeasureError where there is none."""
    records = folder.records()
    results = {(r.cell, r.repeat): folder.result(r) for r in records if r.result is not None}
    return of_plan(plan, records, results)


def _finish(asked: Asked, plan: Plan, folder: Folder, early: "int | HostdoctorError | None") -> None:
    """Keep and print what the runs say, also those before an early end, and exit as that asks."""
    try:
        document = document_of(plan, folder)
    except MeasureError as nothing:
        if early is None:
            raise
        document, why = None, nothing
    if document is not None:
        print_document(document, asked.format)
        if not isinstance(early, HostdoctorError):  # the disk may be what failed
            folder.conclude(document)
    if isinstance(early, HostdoctorError):
        raise early
    if early is not None:
        kept = "what was measured until then is kept" if document is not None else str(why)
        _say(f"ended early by {signal_name(early)}: {kept}; --resume {folder.path} goes on")
        raise typer.Exit(early)
    if document is not None and all(cell.judged.state == "failed" for cell in document.cells):
        first = next(cell.failure for cell in document.cells if cell.failure is not None)
        raise MeasureError(f"every cell failed: {first.reason}")


def print_document(document: MatrixDocument, format_: str, *, show_all: bool = False) -> None:
    """Print a matrix as text or JSON."""
    if format_ == "json":
        from hostdoctor.outputs.report_json import render_json

        emit(render_json(document))
    else:
        emit(render_matrix(document, terminal_style(), show_all=show_all))


def _resumed(asked: Asked, folder: Folder, host: Host) -> Plan:
    from msgspec.structs import replace

    plan = folder.plan()
    if plan.hostname != host.system.hostname:
        raise MeasureError(f"--resume: begun on {plan.hostname}, this is {host.system.hostname}")
    try:
        os.chdir(plan.directory or ".")
    except OSError as error:
        raise MeasureError(f"--resume: begun in {plan.directory}: {(error.strerror or '').lower()}") from None
    return replace(plan, bisect=plan.bisect or asked.bisect)


def _emit_jobs(asked: Asked, plan: Plan, folder: Folder, host: Host) -> None:
    from hostdoctor.cli.matrix_jobs import write_jobs

    assert asked.emit is not None
    if asked.out is None:
        raise UsageError("--emit writes files: --out DIR")
    folder.make()
    folder.create(plan, host)
    for name in write_jobs(plan, folder.path, asked.emit, asked.image):
        typer.echo(name)


# --- the plan ---


def make_plan(asked: Asked, experiment: Experiment, source: Source, host: Host) -> Plan:
    """Return what will be run; raise UsageError, PlacementError or MeasureError with the reason where it cannot be."""
    from hostdoctor import __version__

    served = [series for series in all_series(experiment) if open_cells(experiment, series)]
    if not served:
        raise MeasureError("every cell is struck out: there is nothing to run")
    for url in (ready_url(experiment), metrics_url(experiment)):
        refuse_beyond_loopback(url)
    launches = {series: _launch(asked, experiment, series, source, host) for series in served}
    free = parse_cpulist(experiment.client.cpus) if experiment.client.cpus else frozenset[int]()
    arms = {series.slug: _arm(experiment, series, launch, host, free) for series, launch in launches.items()}
    first = next(iter(launches.values()))
    gpus = () if first is None else first.binding.selection.gpus
    return Plan(
        created=now(),
        hostdoctor=__version__,
        hostname=host.system.hostname,
        directory=decoded(str(Path.cwd())),
        versions=_versions(experiment, host, first),
        experiment=experiment,
        bisect=asked.bisect,
        arms=arms,
        client_cpus=experiment.client.cpus or client_cpus(host, arms.values()),
        gpu_indices=tuple(index for p in gpus if (index := host.gpus[p].index) is not None),
        link_path=tuple(dict.fromkeys(bdf for p in gpus for bdf in (*host.gpus[p].upstream, host.gpus[p].bdf) if bdf)),
        disks=_disks(experiment, host),
        notes=tuple(_notes(experiment, arms)),
    )


def _launch(asked: Asked, experiment: Experiment, series: Series, source: Source, host: Host) -> Launch | None:
    """Return how a series' server is bound, None where it is not to be."""
    if not experiment.binding.bind:
        return None
    words = list(server_words(experiment, series))
    if experiment.binding.node is not None:
        return place_on_node(host, experiment.binding.node, words, use_isolated=asked.use_isolated)
    if not host.gpus:
        raise MeasureError("no GPU here: in the file, binding.node = N binds to a NUMA node, bind = false to none")
    wish = Wish(
        gpus=experiment.binding.gpus,
        engine_version=experiment.server.engine_version,
        policy="auto",
        assume_node=asked.assume_node,
        use_isolated=asked.use_isolated,
    )
    return place(source, host, wish, words, FULL_TIMEOUT_S)


def _arm(experiment: Experiment, series: Series, launch: Launch | None, host: Host, free: frozenset[int]) -> Arm:
    from msgspec.structs import replace

    added = server_environment(experiment, series)
    if launch is None:
        words = server_words(experiment, series)
        return Arm(argv=words, environment=added, step=Step(tier="unbound"), words="not bound")
    arm = bound_arm(host, launch, free)
    return replace(arm, environment=arm.environment | added)


def _versions(experiment: Experiment, host: Host, launch: Launch | None) -> dict[str, str]:
    if launch is not None:
        return versions_of(host, launch)
    command = recognise(list(experiment.server.command))
    version = installed_version(command, FULL_TIMEOUT_S)
    return versions_with(host, command.engine, version.text if version else None)


def _disks(experiment: Experiment, host: Host) -> tuple[str, ...]:
    """Return the disks to watch: as named, else those of the tiers, else every NVMe drive."""
    named = experiment.signals.disks or tuple(disk for variant in experiment.variants for disk in variant.disks)
    every = tuple(disk.name for disk in host.block_devices if disk.name.startswith("nvme"))
    return tuple(dict.fromkeys(named or every))[:MAX_DISKS]


def _notes(experiment: Experiment, arms: dict[str, Arm]) -> list[str]:
    found = [note for arm in arms.values() for note in arm.notes]
    if experiment.load.repeats < 2:
        found.append("one repeat: whether this host repeats itself is not tested")
    found += [
        f"{variant.name}: files of its tier outlive a server: empty its folder before a matrix and before runs are"
        " made again, or their prompts are found there"
        for variant in experiment.variants
        if variant.kind == "nvme" and not variant.struck
    ]
    requests = experiment.load.requests * experiment.load.repeats
    if requests < 368:
        found.append(f"{requests} requests a cell over all repeats: an interval for p99 TTFT needs 368")
    return list(dict.fromkeys(found))


def _say(text: str) -> None:
    from hostdoctor.outputs.words import printable

    for line in text.splitlines():
        typer.echo(f"hostdoctor: {printable(line)}", err=True)
