"""Reading a host from a tar archive that somebody else made: in memory, within limits, nothing ever written."""

import io
import posixpath
import tarfile
import zlib
from pathlib import Path

from hostdoctor.errors import SourceError
from hostdoctor.sources.tree import MemoryTree

MAX_MEMBERS = 200_000
MAX_FILE_BYTES = 16 << 20
MAX_TOTAL_BYTES = 80 << 20
ROOTS = ("sys", "proc", "sos_commands", "run", "hostdoctor")

# Members that a map never reads; skipping them keeps a sosreport's logs out of memory.
_SKIPPED = ("/var/", "/usr/", "/etc/", "/boot/", "/sos_logs/", "/sos_reports/", "/home/", "/root/")


def read_archive(path: Path) -> MemoryTree:
    """Return the files and links of a (compressed) tar as a tree rooted where its ``sys/`` or ``proc/`` stands.

    Raises SourceError for what is not an archive, is cut short, is hostile (``..``, absolute names that repeat,
    devices are ignored) or exceeds a limit: 200,000 members, 16 MiB a file, 80 MiB in all.
    """
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(path, mode="r|*", errors="replace") as archive:
            _collect(archive, path, files, links)
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError) as error:
        raise SourceError(f"{path}: unreadable archive: {error}") from error
    return MemoryTree(*_rerooted(files, links))


def is_archive(head: bytes) -> bool:
    """Tell from a file's first 512 bytes whether it is a tar, plain or compressed (gzip, bzip2, xz)."""
    magic = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
    return head.startswith(magic) or head[257:262] == b"ustar"


def _collect(archive: tarfile.TarFile, path: Path, files: dict[str, bytes], links: dict[str, str]) -> None:
    total = 0
    for count, member in enumerate(archive, start=1):
        if count > MAX_MEMBERS:
            raise SourceError(f"{path}: refused: more than {MAX_MEMBERS} members")
        name = _safe_name(member.name, path)
        if member.issym():
            links[name] = member.linkname
        elif member.isreg() and not name.startswith(_SKIPPED):
            total += member.size
            if member.size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
                raise SourceError(f"{path}: refused: unpacks to more than {MAX_TOTAL_BYTES >> 20} MiB")
            stream = archive.extractfile(member) or io.BytesIO()
            files[name] = stream.read(MAX_FILE_BYTES)
        elif not (member.isdir() or member.isreg()):
            raise SourceError(f"{path}: refused: {member.name[:80]!r} is neither a file, a folder nor a symbolic link")


def _safe_name(name: str, path: Path) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise SourceError(f"{path}: refused: member {name[:80]!r} leads out of the archive")
    return posixpath.normpath("/" + name)


def _rerooted(files: dict[str, bytes], links: dict[str, str]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Drop the folder that holds the root (``sosreport-x/sys/…`` -> ``/sys/…``)."""
    prefix = _prefix(files)
    if not prefix:
        return files, links
    cut = len(prefix)
    inside = {name[cut:]: data for name, data in files.items() if name.startswith(prefix + "/")}
    moved = {name[cut:]: target for name, target in links.items() if name.startswith(prefix + "/")}
    return inside, moved


def _prefix(files: dict[str, bytes]) -> str:
    """Return the shortest folder under which one of a root's own folders stands."""
    prefixes: set[str] = set()
    for name in files:
        parts = name.split("/")
        position = next((i for i, part in enumerate(parts[:4]) if part in ROOTS), None)
        if position is not None:
            prefixes.add("/".join(parts[:position]))
    return min(prefixes, key=len, default="")
