"""File trees that hold a host's files: a directory on disk (``/`` for the live host) or files kept in memory."""

import errno
import fnmatch
import os
import posixpath
import stat
from collections.abc import Callable, Iterable
from typing import Protocol

from hostdoctor.facts import GapKind

MAX_FILE_BYTES = 16 << 20
MAX_LINKS = 16  # far more than any sysfs path crosses; ends cycles


class Tree(Protocol):
    """Files by absolute path. Nothing raises: what cannot be had is None or ``()``."""

    def read(self, path: str) -> str | None:
        """Return a regular file's text, or None."""

    def read_bytes(self, path: str) -> bytes | None:
        """Return a regular file's bytes, or None."""

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Say why :meth:`read` gives None."""

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names, sorted."""

    def readlink(self, path: str) -> str | None:
        """Return a link's target as an absolute path inside the tree, or None."""


def link_target(path: str, target: str) -> str:
    """Return where a link at ``path`` with text ``target`` points, as an absolute path, never above ``/``."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def decoded(text: str) -> str:
    """Return a name or variable of the operating system with what could not be decoded replaced by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class DiskTree:
    """A directory as the root of a host. No link inside leads out of it; ``/`` itself needs no confining."""

    def __init__(self, root: str) -> None:
        real = os.path.realpath(root)
        self._root = "" if real in ("/", "//") else real
        self._real_parents: dict[str, str | None] = {}

    def read(self, path: str) -> str | None:
        """Return a regular file's text (undecodable bytes replaced, at most 16 MiB), or None."""
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes | None:
        """Return a regular file's bytes, at most 16 MiB, or None."""
        try:
            descriptor = self._open(path)
        except (OSError, ValueError):  # ValueError: no name that this system's encoding has
            return None
        try:
            return _read_descriptor(descriptor, check_regular=bool(self._root), piecemeal=path.startswith("/proc/"))
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Try once more and put the error in words."""
        try:
            descriptor = self._open(path)
            try:
                os.read(descriptor, 1)
            finally:
                os.close(descriptor)
        except OSError as error:
            return _kind(error), os.strerror(error.errno or 0).lower()
        except ValueError:
            return "missing", "no such file or directory"
        return "error", "not a regular file"

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names, sorted; ``()`` when it cannot be listed."""
        try:
            real = self._real_parent(path) if self._root else path
            return tuple(sorted(map(decoded, os.listdir(real)))) if real else ()
        except (OSError, ValueError):
            return ()

    def readlink(self, path: str) -> str | None:
        """Return a link's target as an absolute path of the host, or None."""
        try:
            return link_target(path, decoded(os.readlink(self._inside_root(path))))
        except (OSError, ValueError):
            return None

    def _open(self, path: str) -> int:
        """Open for reading without ever waiting; raise OSError, also where links lead out of the root."""
        if not self._root:
            return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        inside = self._inside_root(path)
        try:
            return os.open(inside, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        real = os.path.realpath(inside)
        if not self._inside(real):
            raise FileNotFoundError(errno.ENOENT, "leads out of the root", path)
        return os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)

    def _inside_root(self, path: str) -> str:
        """Return the path on disk with every link of its parent followed; raise OSError where they lead out."""
        if not self._root:
            return path
        parent, _, name = path.rpartition("/")
        real_parent = self._real_parent(parent)
        if real_parent is None:
            raise FileNotFoundError(errno.ENOENT, "leads out of the root", path)
        return f"{real_parent}/{name}"

    def _real_parent(self, parent: str) -> str | None:
        if parent not in self._real_parents:
            real = os.path.realpath(f"{self._root}{parent}")
            if not self._inside(real):
                real = os.path.realpath(self._root + _resolve(parent, self._link_at))
            self._real_parents[parent] = real if self._inside(real) else None
        return self._real_parents[parent]

    def _link_at(self, path: str) -> str | None:
        try:
            return os.readlink(self._root + path)
        except OSError:
            return None

    def _inside(self, real: str) -> bool:
        return real == self._root or real.startswith(self._root + "/")


class MemoryTree:
    """Files and links kept in memory, as read from an archive, and folders, which may be empty."""

    def __init__(self, files: dict[str, bytes], links: dict[str, str], folders: Iterable[str] = ()) -> None:
        self._files = files
        self._links = links
        self._names: dict[str, set[str]] = {}
        for path in (*files, *links, *folders):
            self._add_parents(path)

    def read(self, path: str) -> str | None:
        """Return a file's text, links followed, or None."""
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, links followed, or None."""
        data = self._files.get(path)
        return self._files.get(self._resolve(path)) if data is None else data

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:  # noqa: ARG002  an archive holds it or does not
        """Say what can be said."""
        return "missing", "not in the archive"

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names, sorted."""
        return tuple(sorted(self._names.get(self._resolve(path), ())))

    def readlink(self, path: str) -> str | None:
        """Return a link's target as an absolute path inside the archive, or None."""
        parent, _, name = path.rpartition("/")
        real = posixpath.join(self._resolve(parent or "/"), name)
        target = self._links.get(real)
        return None if target is None else link_target(real, target)

    def _add_parents(self, path: str) -> None:
        while path != "/":
            parent, _, name = path.rpartition("/")
            names = self._names.setdefault(parent or "/", set())
            if name in names:
                return
            names.add(name)
            path = parent or "/"

    def _resolve(self, path: str) -> str:
        return _resolve(path, self._links.get)


def _resolve(path: str, link_at: Callable[[str], str | None]) -> str:
    """Follow links in every component, at most MAX_LINKS of them; absolute ones lead from the tree's own root."""
    followed = 0
    done = "/"
    parts = [part for part in path.split("/") if part][::-1]
    while parts:
        done = posixpath.join(done, parts.pop())
        target = link_at(done)
        if target is None:
            continue
        followed += 1
        if followed > MAX_LINKS:
            return path
        parts += [part for part in link_target(done, target).split("/") if part][::-1]
        done = "/"
    return done


def glob(tree: Tree, pattern: str) -> tuple[str, ...]:
    """Return the paths that match an absolute pattern whose components may hold ``*``, ``?`` and ``[]``."""
    paths = ["/"]
    for part in pattern.strip("/").split("/"):
        if any(c in part for c in "*?["):
            paths = [posixpath.join(p, n) for p in paths for n in tree.listdir(p) if fnmatch.fnmatchcase(n, part)]
        else:
            paths = [posixpath.join(p, part) for p in paths]
    return tuple(paths)


def _read_descriptor(descriptor: int, *, check_regular: bool, piecemeal: bool) -> bytes | None:
    if check_regular and not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    data = os.read(descriptor, 65536)
    if piecemeal or len(data) >= 4096:  # sysfs gives a page at most and at once; procfs a few rows a read
        chunks = [data]
        size = len(data)
        while size < MAX_FILE_BYTES and (data := os.read(descriptor, 1 << 20)):
            chunks.append(data)
            size += len(data)
        data = b"".join(chunks)
    return data


def _kind(error: OSError) -> GapKind:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "denied"
    return "missing" if error.errno in (errno.ENOENT, errno.ENOTDIR) else "error"
