"""What a built host is, and the collector that every part of the builder writes into."""

import hashlib
from collections.abc import Iterable
from typing import Any

from hostdoctor.facts import Fact


class HostFiles(Fact, frozen=True, kw_only=True):
    """A host as files (absolute path -> bytes), links (path -> relative target), command outputs and an NVML answer.

    ``nvml`` has the shape of :class:`hostdoctor.sources.base.NvmlOutput`; None when NVML was not asked.
    """

    files: dict[str, bytes]
    links: dict[str, str]
    commands: dict[str, str]
    nvml: dict[str, Any] | None = None


class Tree:
    """Files and links being collected. Paths are absolute on the host that is described."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}

    def put(self, path: str, value: object) -> None:
        """Write one value and a line end, as sysfs attributes have."""
        self.files[path] = f"{value}\n".encode()

    def attributes(self, folder: str, values: dict[str, Any]) -> None:
        """Write several attributes of one folder; None leaves one out."""
        for name, value in values.items():
            if value is not None:
                self.files[f"{folder}/{name}"] = f"{value}\n".encode()

    def text(self, path: str, text: str) -> None:
        """Write a text as it is."""
        self.files[path] = text.encode()

    def link(self, path: str, target: str) -> None:
        """Make a link to an absolute target, kept relative, as the kernel's are; raise ValueError for a second one."""
        text = relative(path, target)
        if self.links.setdefault(path, text) != text:
            raise ValueError(f"{path}: two devices with one name")

    def drop(self, prefixes: Iterable[str]) -> None:
        """Forget what lies at or under these paths."""
        heads = tuple(f"{prefix.rstrip('/')}/" for prefix in prefixes)
        self.files = {path: data for path, data in self.files.items() if not f"{path}/".startswith(heads)}
        self.links = {path: data for path, data in self.links.items() if not f"{path}/".startswith(heads)}


def relative(path: str, target: str) -> str:
    """Return the link text that leads from a link at ``path`` to an absolute ``target``.

    As the kernel writes it, the text always ends in the target's own name, also for a link to a folder above.
    """
    here, there = path.split("/")[:-1], target.split("/")
    common = 0
    for a, b in zip(here, there[:-1], strict=False):
        if a != b:
            break
        common += 1
    return "/".join([".."] * (len(here) - common) + there[common:])


def mask(ids: Iterable[int], bits: int) -> str:
    """Return ids as the kernel prints a bitmap of ``bits`` bits: hex words of 32, the highest first."""
    value = 0
    for i in ids:
        value |= 1 << i
    digits = format(value, f"0{(bits + 3) // 4}x")
    head = len(digits) % 8 or 8
    return ",".join([digits[:head], *(digits[i : i + 8] for i in range(head, len(digits), 8))])


def digest(*words: str) -> str:
    """Return 32 hex digits that stay the same for the same words."""
    return hashlib.md5("/".join(words).encode(), usedforsecurity=False).hexdigest()
