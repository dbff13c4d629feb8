"""``memory.numa_stat`` of a version 2 control group: its memory by node, in bytes (``anon N0=4096 N1=0``)."""

from hostdoctor.errors import ParseError
from hostdoctor.facts import ProcessMemory

SOURCE = "memory.numa_stat"
MAX_NODES = 1024  # the kernel's MAX_NUMNODES
MAX_ROWS = 1024
MAX_DIGITS = 18
_WANTED = ("anon", "file", "shmem")


def parse_numa_stat(text: str, source: str = SOURCE) -> tuple[ProcessMemory, ...]:
    """Return the group's memory on each node, ascending; shared memory, which the kernel counts as file, apart.

    Raises ParseError for what is not this file, and for version 1's (``total=81 N0=81``), which counts pages and puts
    shared memory among private memory.
    """
    rows = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, _, rest = line.strip().partition(" ")
        if number > MAX_ROWS or "=" in name:
            raise ParseError(source, number, line, "not version 2's memory.numa_stat")
        if name in _WANTED:
            rows[name] = _nodes(rest, number, source)
    missing = [name for name in _WANTED if name not in rows]
    if missing or not rows["anon"].keys() == rows["file"].keys() == rows["shmem"].keys():
        raise ParseError(source, 0, "", f"no {missing[0]}" if missing else "rows of different nodes")
    return tuple(
        ProcessMemory(
            node=node,
            anon_bytes=rows["anon"][node],
            shared_bytes=rows["shmem"][node],
            file_bytes=max(0, rows["file"][node] - rows["shmem"][node]),
        )
        for node in sorted(rows["anon"])
    )


def _nodes(text: str, number: int, source: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for word in text.split():
        key, _, value = word.partition("=")
        digits = key[1:]
        if key[:1] != "N" or not _is_number(digits, 5) or not _is_number(value, MAX_DIGITS):
            raise ParseError(source, number, text, "not a node's bytes")
        found[int(digits)] = int(value)
        if len(found) > MAX_NODES:
            raise ParseError(source, number, text, "too many nodes")
    return found


def _is_number(text: str, digits: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= digits
