"""What every source offers: files by path, command outputs by command, NVML, and whether it is this machine, now."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

from hostdoctor.facts import Fact, GapKind, Sample

# What a text is, by its content; the loose-text source names its sections so, and commands carry theirs.
TextKind = Literal[
    "topo-matrix",
    "numactl",
    "lspci-tree",
    "lspci",
    "lscpu",
    "interrupts",
    "nvme-list",
    "collect-env",
    "nvme-smart",
    "nvidia-smi-q",
    "hwloc-xml",
    "nccl-xml",
]


class Command(Fact, frozen=True, kw_only=True):
    """An external command: what its output is and how it is run (an argument list, never a shell)."""

    kind: TextKind
    argv: tuple[str, ...]

    @property
    def label(self) -> str:
        """The command as a person types it: ``nvidia-smi topo -m``."""
        return " ".join(self.argv)


TOPO_MATRIX = Command(kind="topo-matrix", argv=("nvidia-smi", "topo", "-m"))
NUMACTL = Command(kind="numactl", argv=("numactl", "--hardware"))
LSPCI = Command(kind="lspci", argv=("lspci", "-D", "-nn", "-v"))
LSPCI_TREE = Command(kind="lspci-tree", argv=("lspci", "-tv"))
LSCPU = Command(kind="lscpu", argv=("lscpu",))
NVME_LIST = Command(kind="nvme-list", argv=("nvme", "list"))
# What the live host is asked; everything else that these tell is in sysfs already.
LIVE_COMMANDS = (TOPO_MATRIX, NUMACTL, LSPCI, LSCPU)
INTERRUPTS = Command(kind="interrupts", argv=("/proc/interrupts",))
NVIDIA_SMI_QUERY = Command(kind="nvidia-smi-q", argv=("nvidia-smi", "-q"))
COLLECT_ENV = Command(kind="collect-env", argv=("collect_env",))
HWLOC_XML = Command(kind="hwloc-xml", argv=("lstopo", "XML"))
NCCL_XML = Command(kind="nccl-xml", argv=("NCCL", "topology", "XML"))


def nvme_smart(drive: str) -> Command:
    """Return the command that prints a drive's SMART log; it needs root."""
    return Command(kind="nvme-smart", argv=("nvme", "smart-log", "-o", "json", f"/dev/{drive}"))


class Space(Fact, frozen=True, kw_only=True):
    """The room of a file system, as statvfs(3) counts it."""

    size_bytes: int
    free_bytes: int
    available_bytes: int


class Output(Fact, frozen=True, kw_only=True):
    """One output of a command. ``text`` is None when there is none; then ``reason`` says why and ``kind`` how."""

    source: str
    text: str | None = None
    reason: str | None = None
    kind: GapKind = "missing"


class NvmlOutput(Fact, frozen=True, kw_only=True):
    """What NVML answered, as the reader's JSON document, or why it did not."""

    document: dict[str, Any] | None = None
    state: Literal["ok", "absent", "error", "timeout", "not-asked"] = "not-asked"
    reason: str | None = None


class Readable(Protocol):
    """Anything that files can be read from, by path."""

    def read(self, path: str) -> str | None:
        """Return a file's text, or None when it cannot be read."""


class Source(Protocol):
    """Evidence about one host. Paths are absolute on that host (``/sys/…``); what is missing is None."""

    @property
    def is_live(self) -> bool:
        """True only for the machine that this process runs on, now."""

    @property
    def label(self) -> str:
        """What a person would call it: ``this host``, a file name."""

    def read(self, path: str) -> str | None:
        """Return a file's text (undecodable bytes replaced, at most 16 MiB), or None when it cannot be read."""

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes as they are (at most 16 MiB), or None when it cannot be read."""

    def read_lines(self, path: str) -> Iterator[str] | None:
        """Return a file's lines one by one, however long it is; None when it cannot be opened, and in any capture.

        For what only a running host has: its processes. The iterator raises SourceError when it cannot go on.
        """

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Say why :meth:`read` gave None: ``("missing", "no such file")``, ``("denied", "permission denied")``."""

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names, sorted; ``()`` when there is none."""

    def readlink(self, path: str) -> str | None:
        """Return where a symbolic link points, as an absolute normalised path on that host, or None."""

    def statvfs(self, path: str) -> Space | None:
        """Return the room of the file system that holds a path; None where nobody can tell any more."""

    def run(self, command: Command) -> tuple[Output, ...]:
        """Return a command's outputs: one when live, as many as were given in texts, ``()`` when none was given."""

    def prefetch(self, commands: Iterable[Command]) -> None:
        """Start these commands side by side, where that means anything; :meth:`run` then waits for its own."""

    def environ(self, name: str) -> str | None:
        """Return an environment variable of the caller on that host, None when unset or not told."""

    def nvml(self) -> NvmlOutput:
        """Return what NVML says."""

    def nvml_sample(self, seconds: float) -> Sample | None:
        """Return NVML's counters read twice, this far apart; None where nobody can be asked now."""

    def probe(self, question: str) -> str | None:
        """Try something harmless (``set_mempolicy``) and return how it went; None where that means nothing."""
