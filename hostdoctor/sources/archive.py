"""Reading a host from a tar archive that somebody else made: in memory, within limits, nothing ever written."""

import posixpath
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from hostdoctor.errors import SourceError
from hostdoctor.sources.root import SOS_NAMES
from hostdoctor.sources.tar_reading import MAX_MEMBERS, Member, TarReader
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.sources.unpacking import BZIP2, GZIP, XZ, ZSTD, Unpacking

Value = TypeVar("Value", bytes, str)

__all__ = ["MAX_FILE_BYTES", "MAX_MEMBERS", "MAX_TOTAL_BYTES", "is_archive", "read_archive"]

MAX_FILE_BYTES = 16 << 20
MAX_TOTAL_BYTES = 80 << 20  # of contents and of the memory that names take
MAX_DEPTH = 64
ROOTS = ("sys", "proc", "sos_commands", "run", "hostdoctor")
_TELLING = ("sys", "proc", "sos_commands", "hostdoctor")  # a host's own; any folder may hold one that is called run

# What a map never reads; skipping it keeps a sosreport's logs out of memory.
_SKIPPED = frozenset(
    (
        "var",
        "usr",
        "etc",
        "boot",
        "sos_logs",
        "sos_reports",
        "sos_strings",
        "home",
        "root",
        "lib",
        "lib64",
        "opt",
        "tmp",
    )
)
_SOS_PATTERNS = tuple(pattern for patterns in SOS_NAMES.values() for pattern in patterns)
_SOS_FILE_BYTES = 256 << 10  # of a command's output that is not one of the map's
_RECORD_BYTES, _FOLDER_BYTES = 300, 400  # what Python keeps for a file or link and for a folder, names apart


def read_archive(path: Path) -> MemoryTree:
    """Return the files and links of a (compressed) tar as a tree rooted where its ``sys/`` or ``proc/`` stands.

    An absolute link leads from that root. Raises SourceError for what is not an archive, is damaged or cut short, for
    what is hostile (names or links that lead out, devices, pipes, hard links, sparse files, names told twice or with
    control characters), and for what exceeds a limit: 200,000 members, 16 MiB a file, 80 MiB in all, 2 GiB or 250
    times its size unpacked.
    """
    with Unpacking(path) as stream:
        contents = _Contents(path)
        reader = TarReader(stream)
        for member in reader:
            contents.add(member, reader)
        stream.finish()
    return contents.tree()


def is_archive(head: bytes) -> bool:
    """Tell from a file's first 512 bytes whether it is a tar, plain or compressed (gzip, bzip2, xz)."""
    return head.startswith((GZIP, BZIP2, XZ, ZSTD)) or head[257:262] == b"ustar"


class _Contents:
    """What an archive holds, as far as it is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._folders: set[str] = {""}
        self._bytes = 0

    def add(self, member: Member, reader: TarReader) -> None:
        """Keep a member, or leave it out; raise SourceError for what is refused."""
        name = self._safe_name(member.name)
        if member.kind == "link":
            self._refuse_outward(name, member.target)
        if not _is_kept(name, member):
            return
        if member.kind == "folder":
            self._grow(name, 0)
            self._make_folder(name)
            return
        if member.size_bytes > MAX_FILE_BYTES:
            raise self._refused(f"{name[1:81]!r} is larger than {MAX_FILE_BYTES >> 20} MiB")
        self._grow(name, member.size_bytes + len(member.target) + _RECORD_BYTES)
        self._make_folder(name.rpartition("/")[0])
        if member.kind == "link":
            self._refuse_second(name, self._links.setdefault(name, member.target) != member.target)
            self._refuse_second(name, name in self._files)
            return
        data = reader.data(member)
        self._refuse_second(name, self._files.setdefault(name, data) != data or name in self._links)

    def tree(self) -> MemoryTree:
        """Return everything below the folder that holds the root (``sosreport-x/sys/…`` -> ``/sys/…``)."""
        for name in self._folders:
            self._refuse_second(name, name in self._files or name in self._links)
        prefix = self._prefix()
        folders = [name[len(prefix) :] for name in self._folders if name.startswith(prefix + "/")]
        return MemoryTree(_below(prefix, self._files), _below(prefix, self._links), folders)

    def _safe_name(self, name: str) -> str:
        if name.startswith("/") or ".." in name.split("/"):
            raise self._refused(f"member {name[:80]!r} leads out of the archive")
        safe = posixpath.normpath("/" + name)
        if safe.count("/") > MAX_DEPTH:
            raise self._refused(f"member {name[:80]!r}… lies more than {MAX_DEPTH} folders deep")
        return "" if safe == "/" else safe

    def _make_folder(self, name: str) -> None:
        while name not in self._folders:
            self._grow(name, _FOLDER_BYTES)
            self._folders.add(name)
            name = name.rpartition("/")[0]

    def _grow(self, name: str, size: int) -> None:
        self._bytes += size + 2 * len(name)
        if self._bytes > MAX_TOTAL_BYTES:
            raise self._refused(f"unpacks to more than {MAX_TOTAL_BYTES >> 20} MiB")

    def _refuse_outward(self, name: str, target: str) -> None:
        """Refuse a link that climbs above the archive, or one of ``/sys`` to what is no root's: the kernel makes none.

        Hosts have absolute links to everywhere (``/proc/self/exe``); read from the archive's root they lead nowhere.
        """
        depth = name.count("/") - 1 if not target.startswith("/") else 0
        for part in target.split("/"):
            depth += -1 if part == ".." else part not in ("", ".")
            if depth < 0:
                break
        foreign = target.startswith("/") and target.split("/")[1] not in ROOTS
        if depth < 0 or (foreign and _root_at(name) in ("sys", "hostdoctor")):
            raise self._refused(f"link {name[1:80]!r} to {target[:80]!r} leads out of the archive")

    def _refuse_second(self, name: str, is_second: bool) -> None:
        if is_second:
            raise self._refused(f"{name[1:80]!r} is there twice")

    def _refused(self, reason: str) -> SourceError:
        return SourceError(f"{self._path}: refused: {reason}")

    def _prefix(self) -> str:
        """Return the folder under which a root's own folders stand, the outermost where one lies in another.

        Raises SourceError where several lie side by side: those are several hosts.
        """
        roots = {name[:at] for name in self._files if (at := _root_position(name)) is not None}
        telling = {root for root in roots if any(f"{root}/{marker}" in self._folders for marker in _TELLING)}
        depth = min((root.count("/") for root in telling or roots), default=0)
        outermost = [root for root in telling or roots if root.count("/") == depth]
        if len(outermost) > 1:
            raise SourceError(f"{self._path}: several hosts in one archive")
        return outermost[0] if outermost else ""


def _is_kept(name: str, member: Member) -> bool:
    """Tell whether a map could want a member: a root's own folders, of a sosreport's commands the known or small."""
    root = _root_at(name)
    if root is None:
        return bool(name) and not _SKIPPED.intersection(name.split("/")[1:3])
    if root != "sos_commands" or member.size_bytes <= _SOS_FILE_BYTES:
        return True
    command = name.rpartition("/")[2]
    return "/sos_commands/hostdoctor/" in name or any(fnmatchcase(command, pattern) for pattern in _SOS_PATTERNS)


def _root_at(name: str) -> str | None:
    """Return which of a root's own folders a path lies in, None when in none."""
    return next((part for part in name.split("/", 5)[1:5] if part in ROOTS), None)


def _root_position(name: str) -> int | None:
    """Return where in a path the root's own folder begins: ``/host1/sys/x`` -> 6."""
    root = _root_at(name)
    return None if root is None else f"{name}/".index(f"/{root}/")


def _below(prefix: str, named: dict[str, Value]) -> dict[str, Value]:
    """Return what lies below a folder, by shorter names; empties what it was given, to save memory."""
    if not prefix:
        return named
    moved = {}
    while named:
        name, value = named.popitem()
        if name.startswith(prefix + "/"):
            moved[name[len(prefix) :]] = value
    return moved
