"""How much the files below a path hold, on the running host."""

import os
import stat

MAX_FILES = 1_000_000


def files_bytes(path: str) -> int | None:
    """Return the bytes of a file, or of all regular files below a folder, each once, with what links point to.

    Hugging Face's cache keeps a model as links to its blobs. None where the path cannot be read at all, or holds more
    than a million files.
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    if not os.path.isdir(path):  # noqa: PTH112  one call per path of a plan
        return _size(path, seen)
    for folder, _, names in os.walk(path):
        for name in names:
            total += _size(f"{folder}/{name}", seen) or 0
        if len(seen) > MAX_FILES:
            return None
    return total


def _size(path: str, seen: set[tuple[int, int]]) -> int | None:
    try:
        status = os.stat(path)  # noqa: PTH116  many files
    except OSError:
        return None
    if (status.st_dev, status.st_ino) in seen or not stat.S_ISREG(status.st_mode):
        return 0
    seen.add((status.st_dev, status.st_ino))
    return status.st_size
