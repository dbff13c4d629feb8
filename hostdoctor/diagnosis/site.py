"""A site's own checks: a flat folder of Python files that only root and the caller can have written."""

import contextlib
import errno
import os
import posixpath
import re
import stat
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hostdoctor.diagnosis.api import Rule
from hostdoctor.diagnosis.registry import MERGED
from hostdoctor.diagnosis.report import SEVERITIES
from hostdoctor.errors import Terminated, UsageError, described

PACKAGE = "hostdoctor_site_checks"
MAX_FILE_BYTES = 1 << 20
MAX_LINKS = 40  # as many as the kernel follows
_ID = re.compile(r"[A-Z][A-Z0-9_-]{1,31}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def site_rules(folders: Sequence[Path], known: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return the known rules and those of the folders, by id.

    Raises UsageError, naming the file, for a folder or file that somebody other than root and the caller owns, may
    write or can put another in the place of, for a folder without checks, for a module that cannot be loaded or
    holds no check, and for an id or name that is taken.
    """
    rules = dict(known)
    names = {rule.name: rule for rule in rules.values()}
    places: dict[str, Path] = {}
    for number, folder in enumerate(folders):
        before = len(rules)
        for path, source in _sources(folder):
            for rule in _rules(path, _module(path, source, number)):
                taken = rules.get(MERGED.get(rule.id, rule.id)) or names.get(rule.name)
                if taken is not None:
                    place = places.get(taken.id, taken.module)
                    raise UsageError(f"{path}: {rule.id} {rule.name}: taken by {taken.id} {taken.name} ({place})")
                rules[rule.id] = names[rule.name] = rule
                places[rule.id] = path
        if len(rules) == before:
            raise UsageError(f"--checks-dir {folder}: no check is there")
    return rules


def _sources(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the checks' files with their text; what was looked at is what is read, nothing is opened by name twice.

    Every ``.py`` file must pass, also one whose name begins with ``_``, which is not loaded.
    """
    try:
        real = _refuse_foreign_way(folder)
        descriptor = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"--checks-dir {folder}: {why}") from error
    try:
        _refuse_foreign(folder, os.fstat(descriptor))
        for name in sorted(os.listdir(descriptor)):  # noqa: PTH208  of the folder that was looked at
            source = _read(folder / name, descriptor) if name.endswith(".py") else None
            if source is not None and not name.startswith("_"):
                yield folder / name, source
    finally:
        os.close(descriptor)


def _read(path: Path, folder: int) -> bytes:
    try:
        descriptor = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        why = "a symbolic link" if error.errno == errno.ELOOP else (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: {why}: refused") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path}: not a regular file of at most {MAX_FILE_BYTES >> 20} MiB: refused")
        _refuse_foreign(path, status)
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(MAX_FILE_BYTES)
    finally:
        os.close(descriptor)


def _refuse_foreign_way(folder: Path) -> str:
    """Return a folder's path with every link followed; refuse one on whose way somebody else could put another.

    Raises OSError where there is no such folder.
    """
    done, ahead, links = "/", _parts(f"{Path.cwd()}/{folder}" if not folder.is_absolute() else str(folder)), 0
    while ahead:
        above = os.lstat(done)
        _refuse_foreign(Path(done), above, is_shared=bool(above.st_mode & stat.S_ISVTX))
        name = ahead.pop()
        step = posixpath.dirname(done) if name == ".." else posixpath.join(done, name)
        status = os.lstat(step)
        if above.st_mode & stat.S_ISVTX:  # in /tmp everybody makes names; only its owner replaces one
            _refuse_owner(Path(step), status)
        if not stat.S_ISLNK(status.st_mode):
            done = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(step)  # noqa: PTH115  as it is written
        done = "/" if target.startswith("/") else done
        ahead += _parts(target)
    return done


def _parts(path: str) -> list[str]:
    """Return the names in a path, the last first."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def _refuse_foreign(path: Path, status: os.stat_result, *, is_shared: bool = False) -> None:
    _refuse_owner(path, status)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_shared:
        raise UsageError(f"{path}: its group or everybody may write it (mode {status.st_mode & 0o7777:04o}): refused")


def _refuse_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise UsageError(f"{path}: owned by user {status.st_uid}, not by root or the caller: refused")


def _module(path: Path, source: bytes, number: int) -> types.ModuleType:
    """Run a file as a module of its own; nothing is cached on disk and no path is searched."""
    module = types.ModuleType(f"{PACKAGE}.{number}.{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where annotations of its own types are looked up
    try:
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102  what it is for
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:
        where = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{path}: cannot be loaded: {where}{described(error)}") from error
    return module


def _rules(path: Path, module: types.ModuleType) -> tuple[Rule, ...]:
    """Return the checks that a module defines itself, each once."""
    members = (getattr(member, "rule", None) for member in vars(module).values())
    own = {id(rule): rule for rule in members if isinstance(rule, Rule) and rule.module == module.__name__}
    rules = tuple(own.values())
    if not rules:
        raise UsageError(f"{path}: holds no function marked with @check")
    for rule in rules:
        if not (_matches(_ID, rule.id) and _matches(_NAME, rule.name)) or rule.severity not in SEVERITIES:
            raise UsageError(
                f"{path}: @check({rule.id!r}, {rule.name!r}, {rule.severity!r}): not an id, name or severity"
            )
    return rules


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
