"""Writing a file that is there whole or not at all."""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hostdoctor.errors import OutputError, UsageError


def refuse_bad_target(path: Path, *, force: bool) -> None:
    """Raise UsageError where a file cannot be meant to be written: a folder, a device, one that exists, no folder.

    Raises OutputError where nobody can tell: in a folder that may not be searched, by a name that is too long.
    """
    if str(path) == "-":
        raise UsageError("-: not to standard output: name a file")
    try:
        status = _status(path.parent)
        if status is None or not stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{path}: no such folder: {path.parent}")
        status = _status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{path}: is a folder: name a file in it")
        status = os.lstat(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: not written: {getattr(error, 'strerror', None) or error}") from error
    if not force:
        raise UsageError(f"{path}: exists already (--force replaces it)")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: not a regular file")


def _status(path: Path) -> os.stat_result | None:
    """Return what a path leads to, None where it leads nowhere; raise OSError where that cannot be told."""
    try:
        return path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


@contextlib.contextmanager
def whole_file(path: Path, *, force: bool, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Give a stream to write to; on leaving, the file gets its name, on any error nothing is left behind.

    Raises UsageError when the file exists and ``force`` is not given, OutputError when it cannot be written.
    """
    refuse_bad_target(path, force=force)
    temporary = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
        temporary = Path(name)
        with open(descriptor, "wb") as stream:  # noqa: PTH123  a descriptor
            yield stream
            stream.flush()
            if mode != 0o600:
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        _put(temporary, path, force=force)
    except OSError as error:
        raise OutputError(f"{path}: not written: {error.strerror}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _put(temporary: Path, path: Path, *, force: bool) -> None:
    """Give the file its name; without ``force`` never over one that came into being meanwhile."""
    if not force:
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            raise UsageError(f"{path}: exists already (--force replaces it)") from None
        except OSError:  # a file system without hard links
            refuse_bad_target(path, force=False)
        else:
            return
    temporary.replace(path)


def permitted(mode: int) -> int:
    """Return a new file's mode as the umask leaves it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return mode & ~umask
