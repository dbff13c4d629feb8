"""``hostdoctor install-service``: the agent's units, user and configuration, put in place from this installation."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostdoctor.cli.common import emit
from hostdoctor.errors import OutputError, UsageError

if TYPE_CHECKING:
    from hostdoctor.agent.installing import Placed

app = typer.Typer(
    help="Put systemd units of the agent, of a preflight and of an hourly check in place, with their user and"
    " configuration. Starts nothing, and says what to run next.",
    add_completion=False,
    rich_markup_mode=None,
)
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108  by ProtectHome= and PrivateTmp=
_SERVICES = "hostdoctor.service hostdoctor-preflight.service hostdoctor-check.timer"


@app.command()
def install_service(
    root: Annotated[Path, typer.Option("--root", metavar="DIR", help="Below this folder, for an image.")] = Path("/"),
    program: Annotated[
        str,
        typer.Option("--program", metavar="PATH", help="What the units start. [default: this installation's script]"),
    ] = "",
    before: Annotated[
        list[str] | None,
        typer.Option("--before", metavar="UNIT", help="What the preflight goes before. [default: vllm.service]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, say what would be done.")] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Take the files away again.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace or remove also files that were edited, or are not hostdoctor's.")
    ] = False,
) -> None:
    """Write or remove the files; say of each what was done."""
    import hostdoctor
    from hostdoctor.agent.installing import BEFORE, service_files

    if not root.is_dir():
        raise UsageError(f"--root: no such folder: {root}")
    words = (program,) if program else _own_program()
    files = service_files(
        root, words, before or [BEFORE], hostdoctor.__version__, [Path(place) for place in hostdoctor.__path__]
    )
    _refuse_foreign(files, force=force)
    if uninstall:
        _refuse_enabled(root, force=force)
    elif root.resolve() == Path("/"):
        _refuse_hidden([Path(words[0])] if program else [Path(words[0]), Path(sys.executable), Path(__file__)])
    for placed in files:
        emit(f"{(_removed if uninstall else _placed)(placed, dry_run=dry_run)}\n")
    emit("\n" + "".join(f"{line}\n" for line in _next(root, words[0], uninstall=uninstall, dry_run=dry_run)))


def _own_program() -> tuple[str, ...]:
    """Return what starts this installation: its script, else its Python with the module's name."""
    script = Path(sys.executable).with_name("hostdoctor")
    return (str(script),) if script.is_file() else (sys.executable, "-m", "hostdoctor")


def _refuse_foreign(files: "Sequence[Placed]", *, force: bool) -> None:
    irregular = [str(placed.path) for placed in files if placed.standing == "irregular"]
    if irregular:
        raise UsageError(f"not a regular file: {', '.join(irregular)} (a masked unit: systemctl unmask)")
    foreign = [str(placed.path) for placed in files if placed.standing == "foreign" and not placed.is_config]
    if foreign and not force:
        raise UsageError(
            f"edited since, or not hostdoctor's: {', '.join(foreign)} (--force takes no account of that; a change of"
            " yours belongs in a drop-in: systemctl edit)"
        )


def _refuse_enabled(root: Path, *, force: bool) -> None:
    from hostdoctor.agent.installing import enabled

    links = enabled(root)
    if links and not force:
        raise UsageError(f"still enabled: {', '.join(map(str, links))}: first: systemctl disable --now {_SERVICES}")


def _refuse_hidden(paths: Sequence[Path]) -> None:
    """Raise UsageError for what the service could not start: its user enters no private folder, and sees no home."""
    for path in paths:
        real = path.resolve()
        closed = [folder for folder in real.parents if folder.is_dir() and not folder.stat().st_mode & 0o001]
        hidden = [place for place in _HIDDEN if real.is_relative_to(place)]
        if closed or hidden:
            raise UsageError(
                f"{path}: below {(hidden or [str(closed[-1])])[0]}, where the service cannot read it: install it below"
                " /opt (python3 -m venv /opt/hostdoctor), or name another --program"
            )


def _placed(placed: "Placed", *, dry_run: bool) -> str:
    from hostdoctor.agent.installing import write

    if placed.standing == "same":
        return f"unchanged {placed.path}"
    if placed.standing == "foreign" and placed.is_config:
        return f"kept {placed.path}: yours"
    if not dry_run:
        try:
            write(placed)
        except OSError as error:
            raise OutputError(f"{placed.path}: not written: {error.strerror}") from None
    done = "wrote" if placed.standing == "absent" else "replaced"
    return f"{'would have ' * dry_run}{'written' if dry_run and done == 'wrote' else done} {placed.path}"


def _removed(placed: "Placed", *, dry_run: bool) -> str:
    if placed.standing == "absent":
        return f"not there {placed.path}"
    if placed.standing == "foreign" and placed.is_config:
        return f"kept {placed.path}: yours"
    if not dry_run:
        try:
            placed.path.unlink()
        except OSError as error:
            raise OutputError(f"{placed.path}: not removed: {error.strerror}") from None
    return f"{'would have ' * dry_run}removed {placed.path}"


def _next(root: Path, program: str, *, uninstall: bool, dry_run: bool) -> tuple[str, ...]:
    """Return what is left to the administrator, as commands."""
    if dry_run:
        return ("Nothing was changed.",)
    there = ", in the system that has this root:" if root.resolve() != Path("/") else ":"
    if uninstall:
        return (
            f"Nothing was stopped. Next{there}",
            "  systemctl daemon-reload",
            "Left, with the history and the accepted map: /var/lib/hostdoctor and the user hostdoctor. To drop them"
            + there,
            "  rm -r /var/lib/hostdoctor && userdel hostdoctor",
        )
    starts = (f"The units start {program}: that root needs it there (another: --program).",) * (there != ":")
    return (*starts, f"Nothing was started. Next{there}", *_COMMANDS)


_COMMANDS = (
    "  systemd-sysusers hostdoctor.conf && systemd-tmpfiles --create hostdoctor.conf",
    "  systemctl daemon-reload",
    "  systemctl enable --now hostdoctor.service        # the agent",
    "  systemctl enable hostdoctor-preflight.service    # the units that it goes before then wait for a fit host",
    "  systemctl enable --now hostdoctor-check.timer    # instead of the agent: an hourly check",
)
