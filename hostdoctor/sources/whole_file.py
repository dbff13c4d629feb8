"""Writing a file that is there whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hostdoctor.errors import OutputError, UsageError


def refuse_bad_target(path: Path, *, force: bool) -> None:
    """Raise UsageError where a file cannot be meant to be written: a folder, a device, one that exists, no folder."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder: name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: no such folder: {path.parent}")
    if os.path.lexists(path):
        if not force:
            raise UsageError(f"{path}: exists already (--force replaces it)")
        if path.is_symlink() or not path.is_file():
            raise UsageError(f"{path}: not a regular file")


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
