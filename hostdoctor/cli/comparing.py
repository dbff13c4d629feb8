"""``hostdoctor compare -- COMMAND``: from options to a plan, and the experiment with its progress."""

import contextlib
import datetime
import math
import os
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import typer

from hostdoctor.cli.common import FULL_TIMEOUT_S, emit, finite, open_evidence, survey_host, terminal_style
from hostdoctor.cli.compare import primary_of, share_of
from hostdoctor.cli.placing import Wish, place, place_on_node, versions_of
from hostdoctor.errors import HostdoctorError, MeasureError, OutputError, ParseError, PlacementError, UsageError
from hostdoctor.facts import Fact, Host
from hostdoctor.measure.trial import Step, Underway, carry_out, experiment
from hostdoctor.measure.trial_arms import bound_arm, client_cpus, current_arm, refuse_busy_gpus
from hostdoctor.measure.trial_files import Folder
from hostdoctor.measure.trial_model import Arm, Experiment, Plan
from hostdoctor.measure.trial_plan import LOAD_SHARE, rate_found, roles_of, trials, uses
from hostdoctor.measure.trial_server import default_ready_url, refuse_beyond_loopback, server_words
from hostdoctor.outputs.trial_text import (
    render_dry_run,
    render_experiment,
    render_forecast,
    render_step,
    render_underway,
)
from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from hostdoctor.placement.model import Arm as NearOrFar
from hostdoctor.placement.model import Launch
from hostdoctor.sources.base import Source
from hostdoctor.sources.tree import decoded

SIGINT_STATUS = 130
_CLEAR = "\r\x1b[K"  # this line of the terminal


class Asked(Fact, frozen=True, kw_only=True):
    """What the options asked for."""

    command: tuple[str, ...]
    server: str
    ready_url: str
    ready_timeout_s: float
    arms: str
    control: bool
    pairs: int
    warm_ups: int
    metric: str | None
    margin: float
    result: str
    rate: float | None
    capacity: float | None
    probe: bool
    timeout_s: float
    gpus: str
    node: int | None
    far_node: int | None
    client_cpus: str
    engine: str
    engine_version: str
    assume_node: int | None
    use_isolated: bool
    out: str | None
    resume: str | None
    dry_run: bool
    force: bool
    format: str
    elsewhere: tuple[str, ...] = ()


class _Launches(NamedTuple):
    near: Launch
    far: Launch | None


def run_here(asked: Asked) -> None:
    """Make the experiment, or say what it would do."""
    if asked.elsewhere:
        raise MeasureError(
            f"{asked.elsewhere[0][:80]}: a workload runs on this host, now, not on a capture (no --from)"
        )
    want_directory()
    source = open_evidence(None, demo=False, timeout_s=FULL_TIMEOUT_S)
    host = survey_host(source)
    if asked.resume is not None:
        folder = Folder(Path(asked.resume))
        plan = _resumed(asked, folder, host)
    else:
        folder = Folder(Path(asked.out or f"hostdoctor-compare-{datetime.datetime.now():%Y%m%d-%H%M%S}"))
        plan = make_plan(asked, source, host)
    if asked.dry_run:
        emit(render_dry_run(plan, str(folder.path), _done(asked, plan, folder)))
        return
    if plan.gpu_indices and not asked.force:
        refuse_busy_gpus(host, plan.gpu_indices)
    if asked.resume is None:
        folder.make()
    with folder.held():
        if asked.resume is None:
            folder.create(plan, host)
        _say(render_forecast(plan, str(folder.path), _done(asked, plan, folder)))
        _finish(asked, plan, folder, _made(source, host, plan, folder))


def _done(asked: Asked, plan: Plan, folder: Folder) -> int:
    """Return how many runs came to their end before."""
    return 0 if asked.resume is None else len(folder.records(trials(plan)))


def want_directory() -> None:
    """Raise MeasureError where the working directory is gone: nothing can be started in it."""
    try:
        Path.cwd()
    except OSError as error:
        raise MeasureError(f"the working directory: {(error.strerror or '').lower()}") from None


def _made(source: Source, host: Host, plan: Plan, folder: Folder) -> "int | HostdoctorError | None":
    """Make the runs; return the status that a signal asked for, or why they ended early."""
    try:
        carry_out(source, host, plan, folder, lambda step: _say(_progress(step)), _draw)
    except KeyboardInterrupt:
        return SIGINT_STATUS
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else SIGINT_STATUS
    except HostdoctorError as error:
        return error
    finally:
        _say("")  # takes the bar away
    return None


def _finish(asked: Asked, plan: Plan, folder: Folder, early: "int | HostdoctorError | None") -> None:
    """Keep and print what the runs say, also those before an early end, and exit as that asks."""
    try:
        result = experiment(plan, folder)
    except MeasureError as nothing:
        if early is None:
            raise
        result, why = None, nothing
    unwritten = None if result is None else _concluded(asked, folder, result)
    if isinstance(early, HostdoctorError):
        raise early
    if unwritten is not None:
        raise unwritten
    if early is not None:
        kept = "what was measured until then is kept" if result is not None else str(why)
        _say(f"ended early by {signal_name(early)}: {kept}; --resume {folder.path} goes on")
        raise typer.Exit(early)


def _concluded(asked: Asked, folder: Folder, result: Experiment) -> OutputError | None:
    """Keep and print the document; return why it could not be kept, so that it is printed all the same."""
    unwritten = None
    try:
        folder.conclude(result)
    except OutputError as error:
        unwritten = error
    if asked.format == "json":
        from hostdoctor.outputs.report_json import render_json

        emit(render_json(result))
    else:
        emit(render_experiment(result, terminal_style()))
    return unwritten


def _resumed(asked: Asked, folder: Folder, host: Host) -> Plan:
    if asked.command or asked.server:
        raise UsageError("--resume goes on with its own command: give none")
    plan = folder.plan()
    if plan.hostname != host.system.hostname:
        raise MeasureError(f"--resume: begun on {plan.hostname}, this is {host.system.hostname}")
    try:
        os.chdir(plan.directory or ".")
    except OSError as error:
        raise MeasureError(f"--resume: begun in {plan.directory}: {(error.strerror or '').lower()}") from None
    return plan


# --- the plan ---


def make_plan(asked: Asked, source: Source, host: Host) -> Plan:
    """Return what will be run; raise UsageError, PlacementError or MeasureError with the reason where it cannot be."""
    from hostdoctor import __version__
    from hostdoctor.measure.serving import now

    if not asked.command:
        raise UsageError(
            "compare: give a command after --, or give results from both nodes: --near FILE … --far FILE …"
        )
    _refuse_undecodable((*asked.command, asked.server, asked.result))
    words = server_words(asked.server) if asked.server else asked.command
    order = roles_of(_arm_names(asked.arms), control=asked.control)
    launches = _launches(asked, source, host, words, needs_far="far" in order)
    free = _kept_free(asked, host)
    arms = {"near": bound_arm(host, launches.near, free)}
    if launches.far is not None:
        arms["far"] = bound_arm(host, launches.far, free)
    left = format_cpulist(free) or client_cpus(host, arms.values())
    if "current" in order:
        arms["current"] = current_arm(words, launches.near.environment)
    has_result = bool(asked.result) or uses(asked.command, "{result}")
    metric, quantile = primary_of(("itl" if has_result else "wall") if asked.metric is None else asked.metric)
    rate, limit = _rates(asked, has_result=has_result)
    ready_url = (asked.ready_url or default_ready_url(words, launches.near.engine)) if asked.server else None
    if ready_url is not None:
        refuse_beyond_loopback(ready_url)
    return Plan(
        created=now(),
        hostdoctor=__version__,
        hostname=host.system.hostname,
        directory=decoded(str(Path.cwd())),
        versions=versions_of(host, launches.near),
        order=order,
        pairs=asked.pairs,
        warm_ups=asked.warm_ups,
        probes=asked.probe,
        arms=arms,
        server=bool(asked.server),
        client=asked.command if asked.server else (),
        client_cpus=left if asked.server else None,
        result=str(Path(asked.result).absolute()) if asked.result else None,
        ready_url=ready_url,
        ready_timeout_s=finite("--ready-timeout", asked.ready_timeout_s),
        run_timeout_s=finite("--timeout", asked.timeout_s),
        rate_per_s=rate,
        rate_limit_per_s=limit,
        metric=metric,
        quantile=quantile,
        margin=share_of(asked.margin),
        gpu_indices=tuple(i for p in launches.near.binding.selection.gpus if (i := host.gpus[p].index) is not None),
        notes=tuple(_notes(asked, arms, left, has_result=has_result)),
    )


def _refuse_undecodable(words: Iterable[str]) -> None:
    """Raise UsageError for words that are not UTF-8: a plan is kept as JSON."""
    for word in words:
        if decoded(word) != word:
            raise UsageError(f"compare: not UTF-8: {word[:80]!r}")


def _kept_free(asked: Asked, host: Host) -> frozenset[int]:
    """Return the CPUs that the client gets to itself; raise UsageError for what are none, or not the caller's."""
    text = asked.client_cpus
    try:
        kept = parse_cpulist(text)
    except ParseError:
        raise UsageError(f"--client-cpus: not a list of CPUs: {text[:60]!r}") from None
    if kept and not asked.server:
        raise UsageError("--client-cpus goes with --server: without one no client runs beside the workload")
    beyond = kept - parse_cpulist(host.allowed.cpus) if host.allowed.cpus else frozenset[int]()
    if beyond:
        raise UsageError(f"--client-cpus: CPUs {format_cpulist(beyond)[:60]} are not among yours ({host.allowed.cpus})")
    return kept


def _arm_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ("current", "near", "far")


def _launches(asked: Asked, source: Source, host: Host, words: tuple[str, ...], *, needs_far: bool) -> _Launches:
    """Return how the workload is started near, and far where that is wanted."""
    if asked.node is None:
        _want_gpus(asked, host)
    near = _launch(asked, source, host, words, "near")
    if not needs_far:
        return _Launches(near, None)
    from hostdoctor.placement.on_node import why_no_far

    nodes = near.binding.nodes
    why = None if near.binding.spans else why_no_far(host, nodes, use_isolated=asked.use_isolated)
    if why is not None:
        raise PlacementError(
            f"no far arm: {why}; --arms current,near compares near with today's launch, --arms near,near tests whether"
            " this host repeats itself"
        )
    return _Launches(near, _launch(asked, source, host, words, "far"))


def _want_gpus(asked: Asked, host: Host) -> None:
    if asked.far_node is not None:
        raise UsageError("--far-node goes with --node")
    if not host.gpus:
        raise MeasureError("no GPU here: --node N compares from NUMA nodes (--far-node M: which is far)")
    if host.nvidia.state != "ok" and not asked.force:
        why = host.nvidia.reason or host.nvidia.state or "not asked"
        raise MeasureError(f"the NVIDIA driver does not answer ({why}): --node N compares without a GPU")


def _launch(asked: Asked, source: Source, host: Host, words: tuple[str, ...], arm: NearOrFar) -> Launch:
    if asked.node is None:
        wish = Wish(
            gpus=asked.gpus,
            engine=asked.engine,
            engine_version=asked.engine_version,
            policy="bind",
            arm=arm,
            assume_node=asked.assume_node,
            use_isolated=asked.use_isolated,
        )
        return place(source, host, wish, list(words), FULL_TIMEOUT_S)
    from hostdoctor.placement.on_node import farthest_node

    node = asked.node
    if arm == "far":
        far = asked.far_node
        node = farthest_node(host, node, use_isolated=asked.use_isolated) if far is None else far
    if arm == "far" and node == asked.node:
        raise UsageError("--far-node is --node: --arms near,near is near against itself")
    return place_on_node(host, node, list(words), arm=arm, engine=asked.engine, use_isolated=asked.use_isolated)


def _rates(asked: Asked, *, has_result: bool) -> tuple[float | None, float | None]:
    """Return the rate for all arms and the most that it may be; raise UsageError for what does not go together."""
    used = uses(asked.command, "{rate}")
    if any(math.isnan(value) for value in (asked.rate, asked.capacity) if value is not None):
        raise UsageError("--rate, --capacity: not a number")  # no range excludes it
    if not used and (asked.rate or asked.capacity or asked.probe):
        raise UsageError("--rate, --capacity and --probe-capacity set {rate}, and the command has none")
    if used and not (asked.rate or asked.capacity or asked.probe):
        raise UsageError("{rate}: say how many requests a second: --rate, or --capacity or --probe-capacity")
    if asked.probe and not has_result:
        raise UsageError("--probe-capacity reads the command's result: {result} or --result names it")
    if asked.capacity is None:
        return asked.rate, None
    limit = rate_found([asked.capacity])
    if asked.rate is not None and asked.rate > LOAD_SHARE * asked.capacity:
        raise UsageError(f"--rate {asked.rate:g} is above {100 * LOAD_SHARE:.0f} % of --capacity: at most {limit:g}")
    return asked.rate or limit, LOAD_SHARE * asked.capacity


def _notes(asked: Asked, arms: dict[str, Arm], left: str | None, *, has_result: bool) -> list[str]:
    found = []
    if asked.server and left is None:
        found.append("no CPU is left outside the arms: the client runs on the server's too (--client-cpus keeps some)")
    elif asked.server and "current" in arms:
        found.append("the current arm is not bound: its server may run on the client's CPUs too")
    if asked.server and not has_result:
        found.append("the command names no result: what is compared is how long it takes")
    if asked.server and not uses(asked.command, "{seed}"):
        found.append("the command has no {seed}: every run sends the same requests")
    if uses(asked.command, "{rate}") and asked.capacity is None and not asked.probe:
        found.append("the arms' capacity is not known (--probe-capacity): above 80 % of it tails measure the queue")
    if asked.server and not uses(asked.command, "{rate}"):
        found.append("the command has no {rate}: whether all arms meet the same load is up to it")
    if asked.warm_ups == 0:
        found.append("no warm-up: the first runs may have met a cold page cache")
    return found


# --- what is said ---


def _progress(step: Step) -> str:
    return render_step(step.record, step.left, step.seconds_left)


def _say(text: str) -> None:
    from hostdoctor.outputs.words import printable

    with contextlib.suppress(OSError):  # nobody reads any more, or the disk is full: no reason to end runs
        if sys.stderr.isatty():
            typer.echo(_CLEAR, err=True, nl=False)
        for line in text.splitlines():
            typer.echo(f"hostdoctor: {printable(line)}", err=True)


def _draw(now: Underway) -> None:
    """Draw the bar, in place, on a terminal."""
    if not sys.stderr.isatty():
        return
    room = max(20, shutil.get_terminal_size().columns - 1)
    with contextlib.suppress(OSError):
        typer.echo(f"{_CLEAR}{render_underway(*now)[:room]}", err=True, nl=False)


def signal_name(status: int) -> str:
    """Return the signal that an exit status stands for."""
    names = {int(number): number.name for number in signal.Signals}
    return names.get(status - 128, f"signal {status - 128}")
