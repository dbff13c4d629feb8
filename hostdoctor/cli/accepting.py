"""What the site's configuration accepts, for every command that judges."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostdoctor.errors import UsageError

if TYPE_CHECKING:
    from hostdoctor.diagnosis.accept import Accept
    from hostdoctor.diagnosis.api import Rule

ConfigOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Instead of /etc/hostdoctor/config.toml.")]


def accepted(
    config: Path | None, known: "Sequence[Rule]", *, is_live: bool
) -> "tuple[tuple[Accept, ...], tuple[Accept, ...]]":
    """Return the acceptances that are in force today, and those whose date has passed.

    Raises UsageError for a configuration that is not valid, or accepts what no check is called.
    """
    from hostdoctor.config import DEFAULT, read_config
    from hostdoctor.diagnosis.accept import by_date

    # what this machine's site accepts says nothing of a captured one
    listed = read_config(config).accept if config or is_live else ()
    _refuse_unknown(config or DEFAULT, known, listed)
    return by_date(listed, datetime.datetime.now(tz=datetime.timezone.utc).date())


def _refuse_unknown(config: Path, known: "Sequence[Rule]", listed: "Sequence[Accept]") -> None:
    """Raise UsageError, naming the file, for an acceptance of an id that no check has: it is a mistake."""
    from hostdoctor.diagnosis.registry import choose

    try:
        choose(tuple(known), [accept.id for accept in listed], ())
    except UsageError as error:
        raise UsageError(f"{config}: accept: {error}") from None
