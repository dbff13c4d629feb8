"""What the agent must not forget, in SQLite: open findings, the accepted map, what is usual, the past transitions.

Every write is one transaction in WAL mode, so that a kill at any point leaves the file sound: with the write or without
it. A file that is damaged is set aside under another name, never deleted; one that is another program's, or a later
version's, is left as it is. Of two agents the second is refused (:meth:`State.claim`).
"""

import contextlib
import fcntl
import glob
import os
import sqlite3
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hostdoctor.agent.ledger import Event, Held
from hostdoctor.agent.surveying import utc
from hostdoctor.agent.usual import Means, Split
from hostdoctor.errors import HostdoctorError, UsageError
from hostdoctor.facts import Baseline, Fact

FORMAT = 1  # PRAGMA user_version
MODE = 0o600
BUSY_S = 2.0  # accept-baseline may write at the same time
MAX_EVENTS, ALWAYS_KEPT = 100_000, 1_000
MAX_ASIDE = 3  # damaged files that are kept
DAY_S = 86400.0
_TABLES = """
CREATE TABLE IF NOT EXISTS memory (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, transition TEXT NOT NULL, id TEXT NOT NULL,
  name TEXT NOT NULL, subject TEXT NOT NULL, severity TEXT NOT NULL, message TEXT NOT NULL, remedy TEXT NOT NULL,
  before TEXT);
CREATE INDEX IF NOT EXISTS events_at ON events (at);
"""
_COLUMNS = ("at", "transition", "id", "name", "subject", "severity", "message", "remedy", "before")
_INSERT = f"INSERT INTO events ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608  constants
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM events ORDER BY number DESC LIMIT ?"  # noqa: S608  constants
_NAMES = "SELECT name FROM sqlite_master"
_KEEP_NEWEST = "DELETE FROM events WHERE number <= (SELECT max(number) FROM events) - ?"


class StateError(HostdoctorError):
    """The state cannot be read or written; ``is_damaged``: another file would do."""

    def __init__(self, path: Path, error: Exception) -> None:
        self.is_damaged = isinstance(error, sqlite3.DatabaseError) and _is_damage(error) and _is_own(path)
        super().__init__(f"{path}: {getattr(error, 'strerror', None) or error}")


class Memory(Fact, frozen=True, kw_only=True):
    """What is kept from one start of the agent to the next."""

    held: tuple[Held, ...] = ()
    baseline: Baseline | None = None
    means: Means = {}
    splits: dict[str, Split] = {}


class State:
    """The file. It is opened at its first use, and again after an error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._saved: dict[str, bytes] = {}
        self._version: int | None = None
        self._file: tuple[int, int] | None = None
        self._claim: int | None = None

    def claim(self) -> None:
        """Be the one agent that keeps its state there, until the process ends; raise UsageError where another is."""
        if self._claim is not None:
            return
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._claim = os.open(f"{os.path.realpath(self.path)}.lock", flags, MODE)
        except OSError:  # where no file can be made no state can be written either, which is told soon enough
            return
        try:
            fcntl.lockf(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not flock: that a forked child holds, too
        except OSError:
            os.close(self._claim)
            self._claim = None
            raise UsageError(f"--state: another agent keeps its state there: {str(self.path)[:120]!r}") from None

    def open(self, now: float) -> str | None:
        """Open the file and look whether it is sound; return what had to be set aside and why, None where nothing had.

        Raises StateError where there can be no such file: no folder, no permission, no room.
        """
        self.close()
        self._saved = {}
        try:
            self._connect()
        except (sqlite3.Error, OSError) as error:
            if not StateError(self.path, error).is_damaged:
                raise StateError(self.path, error) from None
            reason = error
        else:
            return None
        try:
            aside = self._set_aside(now)
            self._connect()
        except (sqlite3.Error, OSError) as error:
            raise StateError(self.path, error) from None
        return f"{self.path} is damaged ({reason}): set aside as {aside.name}"

    def load(self) -> Memory:
        """Return what is remembered; what cannot be understood (a newer version wrote it) counts as not known."""
        rows = self._rows("SELECT name, value FROM memory")
        self._saved = {name: value for name, value in rows if isinstance(value, bytes)}
        self._version = self._data_version()
        return Memory(
            held=self._told("held", tuple[Held, ...]) or (),
            baseline=self._told("baseline", Baseline | None),
            means=self._told("means", Means) or {},
            splits=self._told("splits", dict[str, Split]) or {},
        )

    def save(self, memory: Memory, events: Sequence[Event]) -> None:
        """Write what differs from what was saved last, and the events, all or nothing; raise StateError."""
        self._let_go_of_a_removed_file()
        fresh = {name: msgspec.json.encode(getattr(memory, name)) for name in Memory.__struct_fields__}
        changed = {name: data for name, data in fresh.items() if self._saved.get(name) != data}
        if not changed and not events:
            return
        try:
            connection = self._connect()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?)", changed.items())
                connection.executemany(_INSERT, map(_row, events))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StateError(self.path, error) from None
        self._saved.update(changed)

    def is_readable(self) -> bool:
        """Tell whether the file can be opened now."""
        try:
            self._connect()
        except (sqlite3.Error, OSError):
            return False
        return True

    def changed_elsewhere(self) -> bool:
        """Tell whether another process (``accept-baseline``) has written since the last load."""
        try:
            return self._version is not None and self._version != self._data_version()
        except StateError:
            return False

    def prune(self, now: float, days: float) -> None:
        """Forget events older than so many days, the newest thousand excepted, and the oldest of too many."""
        try:
            with self._connect() as connection:
                connection.execute(_KEEP_NEWEST, (MAX_EVENTS,))
                connection.execute(f"{_KEEP_NEWEST} AND at < ?", (ALWAYS_KEPT, now - days * DAY_S))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StateError(self.path, error) from None

    def events(self, most: int) -> tuple[Event, ...]:
        """Return the newest events, the oldest of them first; raise StateError."""
        rows = self._rows(_SELECT, (most,))
        try:
            return tuple(msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), Event) for row in reversed(rows))
        except msgspec.ValidationError as error:
            raise StateError(self.path, error) from None

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _opened(self.path)
            self._file = _identity(self.path)
        return self._connection

    def _let_go_of_a_removed_file(self) -> None:
        """Begin a new file where somebody removed or replaced the one that is open: all of it is written again."""
        if self._connection is not None and _identity(self.path) != self._file:
            self.close()
            self._saved = {}

    def _told(self, name: str, kind: Any) -> Any:
        try:
            return msgspec.json.decode(self._saved.get(name, b"null"), type=kind)
        except (msgspec.DecodeError, RecursionError):
            return None

    def _rows(self, query: str, values: Iterable[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connect().execute(query, tuple(values)).fetchall()
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StateError(self.path, error) from None

    def _data_version(self) -> int:
        (row,) = self._rows("PRAGMA data_version")
        return int(row[0])

    def _set_aside(self, now: float) -> Path:
        """Give the damaged file, with what belongs to it, another name; the oldest of too many such are dropped."""
        stamp = utc(now).replace(":", "").replace("+0000", "Z")
        aside = self.path.with_name(f"{self.path.name}.damaged-{stamp}")
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").replace(f"{aside}{suffix}")
        found = sorted(self.path.parent.glob(f"{glob.escape(self.path.name)}.damaged-*Z"))
        old = [path for path in found if path != aside]  # the clock may have been set back: the new one is no old one
        for path in old[: 1 - MAX_ASIDE]:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        return aside


def _opened(path: Path) -> sqlite3.Connection:
    """Return a connection to a sound file with its tables; raise sqlite3.Error or OSError."""
    with contextlib.suppress(FileExistsError):
        _make(path)
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        version = _format(connection)  # before anything is changed there
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA journal_size_limit=1048576")
        connection.execute("PRAGMA cache_size=-512")  # KiB: the agent's memory is limited
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(str(verdict))
        if version != FORMAT:  # who only reads writes nothing
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version={FORMAT}; COMMIT;")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _make(path: Path) -> None:
    """Make an empty file; one that root makes (``accept-baseline``) is the folder's owner's, the service's."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, MODE)
    try:
        if os.geteuid() == 0:
            folder = path.parent.stat()
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
    finally:
        os.close(descriptor)


def _format(connection: sqlite3.Connection) -> int:
    """Return the format of what is there, 0 for nothing; raise OperationalError for what is not the agent's."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, FORMAT):
        raise sqlite3.OperationalError(
            f"written by a later version, or another program (format {version}): left as it is"
        )
    names = {name for (name,) in connection.execute(_NAMES)}
    if names and not {"memory", "events"} <= names:
        raise sqlite3.OperationalError("another program's database: left as it is")
    return int(version) if names else 0


def _is_own(path: Path) -> bool:
    """Tell whether a file may be one that the agent made: a configuration that was named by mistake is not moved."""
    try:
        told, folder = path.stat(), path.parent.stat()
    except OSError:
        return False
    return told.st_uid in (os.geteuid(), folder.st_uid) and stat.S_IMODE(told.st_mode) == MODE


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another of its name, None where there is none."""
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_dev, told.st_ino


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Tell damage, which another file cures, from what would happen to any file: no room, no permission, locked."""
    return not isinstance(error, sqlite3.OperationalError)


def _row(event: Event) -> tuple[object, ...]:
    return tuple(getattr(event, name) for name in _COLUMNS)
