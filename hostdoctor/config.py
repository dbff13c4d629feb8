"""The configuration file, ``/etc/hostdoctor/config.toml``: strict, so that a misspelt key is told, not ignored."""

from pathlib import Path

import msgspec

from hostdoctor.agent.settings import AgentTable
from hostdoctor.diagnosis.accept import Accept
from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact

MAX_BYTES = 1 << 20
DEFAULT = Path("/etc/hostdoctor/config.toml")


class Config(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that the file may say."""

    accept: tuple[Accept, ...] = ()
    agent: AgentTable = AgentTable()


def read_config(path: Path | None) -> Config:
    """Return the configuration at ``path``, or at the default place when there is a file.

    Raises UsageError for a named file that is missing, and for one that is not valid.
    """
    chosen = path or DEFAULT
    try:
        if chosen.exists() and not chosen.is_file():
            raise UsageError(f"{chosen}: not a regular file")
        with chosen.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        if path is None:
            return Config()
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{chosen}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{chosen}: more than {MAX_BYTES >> 20} MiB")
    try:
        return msgspec.toml.decode(data, type=Config)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        told = str(error).replace(" | null`", "`")  # TOML has no null
        raise UsageError(f"{chosen}: {told}{_nearest(told)}") from error


def _nearest(message: str) -> str:
    """Return the keys that an unknown one may have been meant for, in words."""
    import difflib
    import re

    told = re.search(r"unknown field `([^`]*)`(?: - at `\$\.(\w+))?", message)
    if told is None:
        return ""
    table = {"agent": AgentTable, "accept": Accept}.get(told[2] or "", Config)
    near = difflib.get_close_matches(told[1], table.__struct_encode_fields__, n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
