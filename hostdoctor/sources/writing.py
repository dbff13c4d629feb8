"""Writing a result file: in place whole or not at all, readable by its owner alone."""

import contextlib
import os
import tempfile
from pathlib import Path

from hostdoctor.errors import OutputError
from hostdoctor.sources.tar_writing import put_in_place, refuse_bad_target


def write_text(path: Path, text: str, *, force: bool) -> None:
    """Write a text file.

    Raises UsageError when the file exists and ``force`` is not given, OutputError when it cannot be written; then
    nothing is left behind.
    """
    refuse_bad_target(path, force=force)
    temporary = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
        temporary = Path(name)
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123  a descriptor
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        put_in_place(temporary, path, force=force)
    except OSError as error:
        raise OutputError(f"{path}: not written: {error.strerror}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
