"""The service's files: units, user, folder, configuration. Which they are, where they belong, whether they are ours.

Each file that is written begins with a line that holds a checksum of the rest, so that one that somebody else wrote or
edited is known without any other record.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import Fact
from hostdoctor.sources.whole_file import whole_file

UNITS = "etc/systemd/system"
CONFIG = "etc/hostdoctor/config.toml"
FILES = {
    "hostdoctor.service": f"{UNITS}/hostdoctor.service",
    "hostdoctor-preflight.service": f"{UNITS}/hostdoctor-preflight.service",
    "hostdoctor-check.service": f"{UNITS}/hostdoctor-check.service",
    "hostdoctor-check.timer": f"{UNITS}/hostdoctor-check.timer",
    "hostdoctor.sysusers.conf": "etc/sysusers.d/hostdoctor.conf",
    "hostdoctor.tmpfiles.conf": "etc/tmpfiles.d/hostdoctor.conf",
    "config.toml": CONFIG,
}
PROGRAM, BEFORE = "/usr/bin/hostdoctor", "vllm.service"  # what the shipped units say
MAX_BYTES = 1 << 20
_WRITTEN = re.compile(rb"# Written by hostdoctor [^ \n]{1,64} install-service, sha256 of the rest ([0-9a-f]{64})\n")
_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.@\\-]{1,240}\.(?:service|target|socket|mount|slice|scope|timer|path)")

Standing = Literal["absent", "same", "ours", "foreign", "irregular"]


class Placed(Fact, frozen=True, kw_only=True):
    """A file, its text, and what is at its place now: nothing, the same, what we wrote, somebody else's, no file."""

    path: Path
    data: bytes
    standing: Standing

    @property
    def is_config(self) -> bool:
        """It is the administrator's: once it is edited it stays."""
        return self.path.name == "config.toml"


def service_files(
    root: Path, program: Sequence[str], before: Sequence[str], version: str, sources: Sequence[Path]
) -> tuple[Placed, ...]:
    """Return the files for a program (its words) and the units that the preflight goes before.

    Raises UsageError for words that no unit can hold, SourceError where a file of the package is missing or one at its
    place cannot be read.
    """
    words = _command(program)
    units = " ".join(_unit(name) for name in before)
    found = []
    for name, place in FILES.items():
        text = _shipped(name, sources)
        if name.endswith(".service"):
            text = text.replace(f"={PROGRAM} ", f"={words} ")
            text = re.sub(rf"(?m)^(Before|RequiredBy)={re.escape(BEFORE)}$", lambda m: f"{m[1]}={units}", text)
        data = _sealed(text, version)
        path = root / place
        if not path.parent.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{path.parent}: leads out of {root}")
        found.append(Placed(path=path, data=data, standing=_standing(path, data)))
    return tuple(found)


def write(placed: Placed) -> None:
    """Write a file, whole or not at all, with the folders that it needs; raise OutputError."""
    placed.path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    with whole_file(placed.path, force=True, mode=0o644) as stream:
        stream.write(placed.data)


def enabled(root: Path) -> tuple[Path, ...]:
    """Return the links by which systemd starts the units; the units must not go before these do."""
    folder = root / UNITS
    return tuple(sorted(path for kind in ("wants", "requires") for path in folder.glob(f"*.{kind}/hostdoctor*")))


def _shipped(name: str, sources: Sequence[Path]) -> str:
    for folder in sources:
        path = folder / "systemd" / name
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise SourceError(f"systemd/{name}: missing from this installation")


def _sealed(text: str, version: str) -> bytes:
    data = text.encode()
    seal = hashlib.sha256(data).hexdigest()
    return f"# Written by hostdoctor {version} install-service, sha256 of the rest {seal}\n".encode() + data


def _standing(path: Path, data: bytes) -> Standing:
    try:
        if not path.is_file() or path.is_symlink():
            return "irregular" if path.is_symlink() or path.exists() else "absent"
        with path.open("rb") as stream:
            there = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None
    if there == data:
        return "same"
    seal = _WRITTEN.match(there)
    if seal is None or hashlib.sha256(there[seal.end() :]).hexdigest().encode() != seal[1]:
        return "foreign"
    return "ours"


def _command(program: Sequence[str]) -> str:
    """Return the words for ExecStart= as they are; those that systemd would read otherwise are refused."""
    for word in program:
        if not re.fullmatch(r"[A-Za-z0-9_./+=,:@-]{1,1000}", word):
            raise UsageError(f"--program: not a plain path, as a unit needs it: {word[:120]!r}")
    if not program[0].startswith("/"):
        raise UsageError(f"--program: not an absolute path: {program[0][:120]!r}")
    return " ".join(program)


def _unit(name: str) -> str:
    if not _UNIT_NAME.fullmatch(name):
        raise UsageError(f"--before: not the name of a unit, as vllm.service: {name[:120]!r}")
    return name
