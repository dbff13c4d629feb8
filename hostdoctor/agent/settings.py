"""What the agent can be told: by option, by environment, by the ``[agent]`` table of the configuration file."""

import math
import os
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact

DEFAULT_FOLDER = "/var/lib/hostdoctor"
DAY_S = 86400.0
LONGEST_SIGNALS_S = 60.0  # metrics older than twice that are taken for a stuck agent's


class AgentTable(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The ``[agent]`` table: every key is the name of an option, None where it is not given. Times are in seconds."""

    interval: float | None = None
    signals: float | None = None
    state: str | None = None
    history_days: float | None = None
    textfile: str | None = None
    listen: str | None = None
    listen_anywhere: bool | None = None
    timeout: float | None = None
    checks_dir: tuple[str, ...] | None = None
    model_path: str | None = None
    kv_path: str | None = None


class Settings(Fact, frozen=True, kw_only=True):
    """What holds: each value as the option, else the environment, else the file, else the default gives it."""

    interval_s: float = 300.0
    signals_s: float = 15.0
    state: str | None = None
    history_days: float = 90.0
    textfile: str | None = None
    listen: str | None = None
    listen_anywhere: bool = False
    timeout_s: float = 60.0
    checks_dirs: tuple[str, ...] = ()
    model_path: str | None = None
    kv_path: str | None = None

    @property
    def survey_limit_s(self) -> float:
        """How long a survey may take before it is given up: its sources and samples wait so long each."""
        return 2 * self.timeout_s + 30.0


def settle(given: AgentTable, file: AgentTable, *, is_rehearsal: bool = False) -> Settings:
    """Return the settings; raise UsageError for a value that cannot be.

    A rehearsal on another root than this host's keeps no state and publishes nothing unless an option or a variable
    tells where: what the file names is this host's.
    """
    default = Settings()
    names = AgentTable.__struct_fields__
    if is_rehearsal:
        file = replace(file, state=None, textfile=None, listen=None)
    chosen: dict[str, Any] = {name: _first(getattr(given, name), getattr(file, name)) for name in names}
    settings = Settings(
        interval_s=_seconds("interval", chosen["interval"], default.interval_s, 1.0, DAY_S),
        signals_s=_seconds("signals", chosen["signals"], default.signals_s, 0.5, LONGEST_SIGNALS_S),
        state=_path("state", chosen["state"]) or (None if is_rehearsal else default_state()),
        history_days=_seconds("history-days", chosen["history_days"], default.history_days, 1.0, 36500.0),
        textfile=_path("textfile", chosen["textfile"]),
        listen=chosen["listen"] or None,
        listen_anywhere=bool(chosen["listen_anywhere"]),
        timeout_s=_seconds("timeout", chosen["timeout"], default.timeout_s, 0.1, 3600.0),
        checks_dirs=tuple(chosen["checks_dir"] or ()),
        model_path=_path("model-path", chosen["model_path"]),
        kv_path=_path("kv-path", chosen["kv_path"]),
    )
    if settings.signals_s > settings.interval_s:
        raise UsageError(f"signals: {settings.signals_s:g} s is longer than interval, {settings.interval_s:g} s")
    return settings


def default_state() -> str | None:
    """Return where the state is kept when nobody says: systemd's folder of the service, else the usual one."""
    folder = os.environ.get("STATE_DIRECTORY", "").partition(":")[0] or DEFAULT_FOLDER
    return str(Path(folder, "state.db")) if os.access(folder, os.W_OK | os.X_OK) else None


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _seconds(name: str, value: object, default: float, least: float, most: float) -> float:
    if value is None:
        return default
    number = float(str(value))
    if not math.isfinite(number) or not least <= number <= most:
        raise UsageError(f"{name}: not between {least:g} and {most:g}: {number:g}")
    return number


def _path(name: str, value: object) -> str | None:
    if value is None or value == "":
        return None
    if not str(value).startswith("/") or "\0" in str(value):
        raise UsageError(f"{name}: not an absolute path: {str(value)[:80]!r}")
    return str(value)
