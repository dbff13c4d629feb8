"""``hostdoctor agent``: the service; ``agent accept-baseline`` and ``agent history`` beside it."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from hostdoctor.agent.settings import AgentTable, Settings, settle
from hostdoctor.cli.common import emit
from hostdoctor.errors import UsageError

if TYPE_CHECKING:
    from hostdoctor.agent.core import Setup
    from hostdoctor.agent.ledger import Event
    from hostdoctor.agent.listener import ListenPublisher
    from hostdoctor.agent.model import Publisher
    from hostdoctor.agent.state import State
    from hostdoctor.agent.surveying import Remembered
    from hostdoctor.diagnosis.accept import Accept
    from hostdoctor.diagnosis.api import Rule
    from hostdoctor.sources.base import Source
    from hostdoctor.sources.forked import Job
    from hostdoctor.sources.journal import Journal

app = typer.Typer(
    help="Watch this host: survey it again and again, read cheap signals between, tell what appears, changes, clears."
    " SIGHUP reads the configuration again, SIGTERM ends it. Every option is also a key of [agent] in the file.",
    epilog="Exit status: 0 after SIGTERM, SIGINT or SIGQUIT; 64 for a bad option or configuration.",
    add_completion=False,
    rich_markup_mode=None,
)

CONFIG_HELP = "Instead of /etc/hostdoctor/config.toml."
STATE_HELP = "Where to keep state and history. [default: /var/lib/hostdoctor/state.db where that folder may be written]"
ConfigOption = Annotated[
    Path | None, typer.Option("--config", envvar="HOSTDOCTOR_CONFIG", metavar="FILE", help=CONFIG_HELP)
]
StateOption = Annotated[str | None, typer.Option("--state", envvar="HOSTDOCTOR_STATE", metavar="FILE", help=STATE_HELP)]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", envvar="HOSTDOCTOR_TIMEOUT", metavar="SECONDS", help="Wait no longer for any driver. [default: 60]"
    ),
]
FolderOption = Annotated[
    str | None,
    typer.Option("--from", metavar="DIR", help="Instead of this host: a folder with sys/ and proc/, as a rehearsal."),
]
ChecksOption = Annotated[
    list[str] | None,
    typer.Option(
        "--checks-dir", envvar="HOSTDOCTOR_CHECKS_DIR", metavar="DIR", help="A folder of your own checks, root's."
    ),
]


@app.callback(invoke_without_command=True)
def agent(
    context: typer.Context,
    interval: Annotated[
        float | None,
        typer.Option(envvar="HOSTDOCTOR_INTERVAL", metavar="SECONDS", help="Between surveys. [default: 300]"),
    ] = None,
    signals: Annotated[
        float | None,
        typer.Option(envvar="HOSTDOCTOR_SIGNALS", metavar="SECONDS", help="Between cheap readings. [default: 15]"),
    ] = None,
    state: StateOption = None,
    history_days: Annotated[
        float | None,
        typer.Option(envvar="HOSTDOCTOR_HISTORY_DAYS", metavar="DAYS", help="How long to keep history. [default: 90]"),
    ] = None,
    textfile: Annotated[
        str | None,
        typer.Option(envvar="HOSTDOCTOR_TEXTFILE", metavar="DIR", help="Write metrics for node_exporter there."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(envvar="HOSTDOCTOR_LISTEN", metavar="ADDRESS:PORT", help="Serve metrics there: 127.0.0.1:9797."),
    ] = None,
    listen_anywhere: Annotated[
        bool | None,
        typer.Option(
            "--listen-anywhere", envvar="HOSTDOCTOR_LISTEN_ANYWHERE", help="Let --listen name other than loopback."
        ),
    ] = None,
    timeout: TimeoutOption = None,
    checks_dir: ChecksOption = None,
    model_path: Annotated[
        str | None,
        typer.Option(envvar="HOSTDOCTOR_MODEL_PATH", metavar="PATH", help="Where the model lies: judge its drives."),
    ] = None,
    kv_path: Annotated[
        str | None,
        typer.Option(envvar="HOSTDOCTOR_KV_PATH", metavar="PATH", help="Where the KV cache spills to: judge it."),
    ] = None,
    config: ConfigOption = None,
    from_: FolderOption = None,
) -> None:
    """Run the service until it is told to end."""
    given = AgentTable(
        interval=interval,
        signals=signals,
        state=state,
        history_days=history_days,
        textfile=textfile,
        listen=listen,
        listen_anywhere=listen_anywhere,
        timeout=timeout,
        checks_dir=tuple(checks_dir) if checks_dir else None,
        model_path=model_path,
        kv_path=kv_path,
    )
    if context.invoked_subcommand is not None:
        _refuse_options_before(context)
        return
    folder = _folder(from_)
    _serve(lambda: _setup(given, config, is_rehearsal=folder is not None), folder)


@app.command(
    "accept-baseline", help="Survey the host and keep its map, and where engines' memory is, as what is meant to be."
)
def accept_baseline(
    state: StateOption = None,
    timeout: TimeoutOption = None,
    config: ConfigOption = None,
    from_: FolderOption = None,
) -> None:
    """Write the map to the state; a running agent notices within one reading of the signals."""
    from msgspec.structs import replace

    from hostdoctor.agent.surveying import Remembered, make_survey
    from hostdoctor.errors import SourceError

    setup = _setup(AgentTable(state=state, timeout=timeout), config, is_rehearsal=from_ is not None)
    kept = _state(setup.settings)
    surveyed = make_survey(_source(setup.settings, _folder(from_)), (), setup.wish, Remembered())
    if surveyed.candidate is None:
        raise SourceError("not accepted: PCI functions are not known, or the NVIDIA driver does not answer")
    with _as_owner_of(kept.path.parent):
        kept.save(replace(kept.load(), baseline=surveyed.candidate, splits={}), ())
        kept.close()
    devices = surveyed.candidate.devices
    counts = [f"{kind}s {sum(d.kind == kind for d in devices)}" for kind in ("GPU", "NIC", "drive")]
    emit(f"accepted: {', '.join(counts)}, NUMA nodes {len(surveyed.candidate.nodes)}\n")


@app.command("history", help="Print the transitions that the agent has recorded, the oldest first.")
def history(
    state: StateOption = None,
    most: Annotated[int, typer.Option("--last", min=1, max=100_000, metavar="N", help="The newest N.")] = 50,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")] = "text",
    config: ConfigOption = None,
) -> None:
    """Print the newest transitions."""
    kept = _state(_setup(AgentTable(state=state), config).settings)
    if not kept.path.exists():
        raise UsageError(f"--state: no such file: {str(kept.path)!r}")
    with _as_owner_of(kept.path.parent):
        events = kept.events(most)
        kept.close()
    emit(_events_text(events, format_))


@contextlib.contextmanager
def _as_owner_of(folder: Path) -> Iterator[None]:
    """Have root be the folder's owner, the service, meanwhile: it could have put a link to a file of root's there."""
    owner, root = folder.stat(), os.geteuid() == 0
    try:
        if root:
            os.setegid(owner.st_gid)
            os.seteuid(owner.st_uid)
        yield
    finally:
        if root:
            os.seteuid(0)
            os.setegid(os.getgid())


def _events_text(events: "Sequence[Event]", format_: str) -> str:
    from hostdoctor.agent.log import sentence
    from hostdoctor.agent.surveying import utc
    from hostdoctor.outputs.words import printable

    if format_ == "json":
        import msgspec

        return msgspec.json.encode(events).decode() + "\n"
    lines = [f"{utc(event.at)} {printable(sentence(event))}\n" for event in events]
    return "".join(lines) or "nothing has appeared, changed or cleared yet\n"


def _serve(load: "Callable[[], Setup]", folder: str | None) -> None:
    """Put the agent together and run it."""
    import gc

    from hostdoctor import __version__
    from hostdoctor.agent.core import Agent, Tools
    from hostdoctor.agent.history import Recorder
    from hostdoctor.agent.loop import Events, run
    from hostdoctor.sources.journal import Journal
    from hostdoctor.sources.notify import Notifier
    from hostdoctor.sources.tree import DiskTree

    setup = load()
    journal = Journal(_plain)
    tools = Tools(
        monotonic=time.monotonic,
        wall=time.time,
        files=DiskTree("/") if folder is None else _Rehearsal(folder),
        start_survey=lambda setup, known: _start_survey(setup, known, folder),
        load=load,
        publishers=lambda settings: _publishers(settings, journal),
        log=journal,
        teller=Notifier(),
        version=__version__,
    )

    def subscribe() -> Events | None:
        if folder is not None:
            return None
        from hostdoctor.sources.uevents import Uevents

        return Uevents()

    if setup.settings.state is None:
        why = "/var/lib/hostdoctor cannot be written" if folder is None else "this is a rehearsal"
        journal.write(4, f"state is not kept: no --state is given, and {why}")
    recorder = Recorder(_state(setup.settings) if setup.settings.state else None)
    gc.collect()
    gc.freeze()  # what is there by now stays: surveys in forked children need not copy it
    gc.enable()
    run(Agent(setup, tools, recorder), subscribe)


class _Rehearsal:
    """A folder whose links may change: a tree remembers where they led, which on ``/`` itself it need not."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def read(self, path: str) -> str | None:
        from hostdoctor.sources.tree import DiskTree

        return DiskTree(self._folder).read(path)


def _start_survey(setup: "Setup", known: "Remembered", folder: str | None) -> "Job":
    from hostdoctor.agent.surveying import encode, make_survey
    from hostdoctor.sources.forked import Job

    return Job(lambda: encode(make_survey(_source(setup.settings, folder), setup.rules, setup.wish, known)))


def _source(settings: Settings, folder: str | None) -> "Source":
    if folder is not None:
        from hostdoctor.sources.opening import open_source

        return open_source([folder])
    from hostdoctor.sources.base import LIVE_COMMANDS
    from hostdoctor.sources.live import LiveSource

    source = LiveSource(settings.timeout_s)
    source.prefetch(LIVE_COMMANDS)
    return source


def _setup(given: AgentTable, config: Path | None, *, is_rehearsal: bool = False) -> "Setup":
    """Return what options, environment and file come to; raise UsageError for what is not valid."""
    from hostdoctor.agent.core import Setup
    from hostdoctor.agent.surveying import Wish
    from hostdoctor.config import DEFAULT, read_config
    from hostdoctor.diagnosis.api import Ask
    from hostdoctor.diagnosis.registry import load_rules

    file = read_config(config)
    settings = settle(given, file.agent, is_rehearsal=is_rehearsal)
    rules = load_rules([Path(folder) for folder in settings.checks_dirs])
    _refuse_unknown(config or DEFAULT, rules, file.accept)
    ask = Ask(model_path=settings.model_path, kv_path=settings.kv_path)
    paths = tuple(path for path in (settings.model_path, settings.kv_path) if path)
    return Setup(settings, Wish(paths=paths, ask=ask, accepts=file.accept), rules)


def _refuse_unknown(config: Path, rules: "tuple[Rule, ...]", accepts: "tuple[Accept, ...]") -> None:
    from hostdoctor.diagnosis.registry import find

    try:
        for accept in accepts:
            find(rules, accept.id)
    except UsageError as error:
        raise UsageError(f"{config}: accept: {error}") from None


def _publishers(settings: Settings, journal: "Journal") -> "dict[tuple[str, str], Callable[[], Publisher]]":
    wanted: dict[tuple[str, str], Callable[[], Publisher]] = {}
    if settings.textfile is not None:
        folder = settings.textfile
        wanted["textfile", folder] = lambda: _made("textfile", "TextfilePublisher", Path(folder))
    if settings.listen is not None:
        address, anywhere = settings.listen, settings.listen_anywhere
        key = f"{address}{' anywhere' if anywhere else ''}"
        wanted["listen", key] = lambda: _listening(journal, address, anywhere=anywhere)
    return wanted


def _listening(journal: "Journal", address: str, *, anywhere: bool) -> "Publisher":
    """Return the listener, and log where it answers: the kernel chooses the port for port 0."""
    from hostdoctor.sources.journal import INFO

    made = cast("ListenPublisher", _made("listener", "ListenPublisher", address, anywhere=anywhere))
    journal.write(INFO, f"metrics at http://{address.rpartition(':')[0]}:{made.port}/metrics")
    return made


def _made(module: str, name: str, argument: object, **more: object) -> "Publisher":
    import importlib

    try:
        kind: Any = getattr(importlib.import_module(f"hostdoctor.agent.{module}"), name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--{name.lower().removesuffix('publisher')}: needs {error.name}, which hostdoctor's extra agent brings"
        ) from None
    made: Publisher = kind(argument, **more)
    return made


def _state(settings: Settings) -> "State":
    """Return the state, not yet opened; raise UsageError where there can be none by its name."""
    from hostdoctor.agent.state import State

    if settings.state is None:
        raise UsageError(
            "--state: give a file (without it only this host has one, where /var/lib/hostdoctor may be written)"
        )
    path = Path(settings.state)
    if path.is_dir() or not path.parent.is_dir():
        what = "a folder, name a file in it" if path.is_dir() else "no such folder for the file"
        raise UsageError(f"--state: {what}: {settings.state[:120]!r}")
    return State(path)


def _folder(name: str | None) -> str | None:
    if name is not None and not Path(name, "sys").is_dir():
        raise UsageError(f"--from: no folder with sys/ in it: {name[:120]!r}")
    return None if name is None else os.path.abspath(name)  # noqa: PTH100  links are not followed


def _refuse_options_before(context: typer.Context) -> None:
    """Raise UsageError for options that stand before a subcommand, where nobody would read them."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{parameter.opts[0]}: give it after {context.invoked_subcommand}")


def _plain(line: str) -> None:
    if sys.stderr is not None:  # started with it closed
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
