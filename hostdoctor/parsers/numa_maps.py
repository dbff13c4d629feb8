"""``/proc/PID/numa_maps``: the pages of each mapping of a process by node, in pages of the size that the line names."""

from collections.abc import Iterable

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact, ProcessMemory

SOURCE = "numa_maps"
MAX_NODES = 1024  # the kernel's MAX_NUMNODES
MAX_POLICIES = 64
MAX_LINE = 1 << 16
MAX_BYTES = 1 << 60
OTHER_POLICIES = "other"
ANON, SHARED, FILE = range(3)
# Memory with a name that is no file on a disk. The kernel prints a blank as \040.
_DELETED = "\\040(deleted)"
_SHARED = (
    f"/dev/zero{_DELETED}", "/dev/shm/",  # noqa: S108
    "/memfd:", "/SYSV", "/dev/nvidia", "/dmabuf:", "/dev/dri/", "/drm\\040",
    "/dev/infiniband/", "/dev/kfd", "/[io_uring]", "/[aio]",
)  # fmt: skip
_ANON_HUGE = "/anon_hugepage"
# The only two policies whose names hold a blank (mm/mempolicy.c).
_TWO_WORDS = {"weighted": "interleave", "prefer": "(many)"}


class NumaMaps(Fact, frozen=True, kw_only=True):
    """What a process has on each node, ascending; bytes below each memory policy in the kernel's words."""

    nodes: tuple[ProcessMemory, ...] = ()
    policies: dict[str, int] = msgspec.field(default_factory=dict)


def parse_numa_maps(lines: Iterable[str], source: str = SOURCE) -> NumaMaps:
    """Return the totals of a process' mappings; lines are taken one by one and not kept.

    A mapping of a file is shared memory where the file is none (``/dev/zero``, ``/dev/shm``, memfd, System V, device
    files) or in huge pages, private memory where all of its pages are copies, else a file.
    Raises ParseError for a line that is none of the kernel's, or tells pages without their size.
    """
    nodes: dict[int, list[int]] = {}
    policies: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            policy, kind, size_bytes, pages = _mapping(text)
        except ValueError as error:
            raise ParseError(source, number, text, str(error)) from None
        for node, count in pages.items():
            nodes.setdefault(node, [0, 0, 0])[kind] += count * size_bytes
        if len(nodes) > MAX_NODES:
            raise ParseError(source, number, text, "too many nodes")
        if pages:
            name = policy if policy in policies or len(policies) < MAX_POLICIES else OTHER_POLICIES
            policies[name] = policies.get(name, 0) + sum(pages.values()) * size_bytes
    if sum(map(sum, nodes.values())) > MAX_BYTES:
        raise ParseError(source, 0, "", "more memory than there can be")
    told = (ProcessMemory(node=n, anon_bytes=a, shared_bytes=s, file_bytes=f) for n, (a, s, f) in sorted(nodes.items()))
    return NumaMaps(nodes=tuple(told), policies=policies)


def _mapping(text: str) -> tuple[str, int, int, dict[int, int]]:
    """Return a mapping's policy, kind, page size in bytes and pages by node; raise ValueError for what is none."""
    words = text.split(None) if len(text) <= MAX_LINE else []
    if len(words) < 2 or len(words[0]) > 16 or not _is_hex(words[0]):
        raise ValueError("not a mapping")
    policy, rest = _policy(words)
    fields: dict[str, str] = {}
    pages: dict[int, int] = {}
    for word in rest:
        key, equals, value = word.partition("=")
        if equals and key[:1] == "N" and key[1:].isdecimal():
            pages[_number(key[1:], 5)] = _number(value, 15)
        else:
            fields[key] = value
    if not pages:
        return policy, ANON, 0, {}
    if "kernelpagesize_kB" not in fields:
        raise ValueError("pages without their size")
    size_bytes = _number(fields["kernelpagesize_kB"], 9) << 10
    return policy, _kind(fields, sum(pages.values())), size_bytes, pages


def _policy(words: list[str]) -> tuple[str, list[str]]:
    second = _TWO_WORDS.get(words[1])
    if second and len(words) > 2 and words[2].startswith(second):
        return f"{words[1]} {words[2]}"[:80], words[3:]
    return words[1][:80], words[2:]


def _kind(fields: dict[str, str], pages: int) -> int:
    name = fields.get("file")
    if name is None or name.startswith(_ANON_HUGE):
        return ANON
    copies = fields.get("anon", "")
    if copies.isdecimal() and len(copies) < 16 and int(copies) == pages:
        return ANON
    return SHARED if name.startswith(_SHARED) or "huge" in fields else FILE


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdef" for character in text)


def _number(text: str, digits: int) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > digits:
        raise ValueError("not a number")
    return int(text)
