"""A host as a file tree: any folder or archive that holds ``sys/`` and ``proc/``, with command outputs beside them."""

from collections.abc import Iterable

import msgspec

from hostdoctor.facts import GapKind, Sample
from hostdoctor.sources.base import Command, NvmlOutput, Output, Space, TextKind
from hostdoctor.sources.tree import Tree, glob

NVML_PATH = "/hostdoctor/nvml.json"

# sosreport's naming: the command with odd characters as "_"; options vary between its versions.
SOS_NAMES: dict[TextKind, tuple[str, ...]] = {
    "topo-matrix": ("nvidia-smi_topo_-m*",),
    "numactl": ("numactl_--hardware*", "numactl_-H*"),
    "lspci": ("lspci_-[Dnvkx]*",),
    "lspci-tree": ("lspci_-t*", "lspci_-nntv*", "lspci_-nnt*"),
    "lscpu": ("lscpu*",),
    "nvme-list": ("nvme_list", "nvme_list_-o_json*", "nvme_list_-v*"),
    "nvme-smart": ("nvme_smart-log_*",),
}


class RootSource:
    """Evidence from a file tree that is not this machine."""

    is_live = False

    def __init__(self, tree: Tree, label: str) -> None:
        self._tree = tree
        self.label = label

    def read(self, path: str) -> str | None:
        """Return a file's text, or None."""
        return self._tree.read(path)

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, or None."""
        return self._tree.read_bytes(path)

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Say why :meth:`read` gave None."""
        return self._tree.why_unreadable(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names, sorted."""
        return self._tree.listdir(path)

    def readlink(self, path: str) -> str | None:
        """Return a link's target as an absolute path of that host, or None."""
        return self._tree.readlink(path)

    def statvfs(self, path: str) -> Space | None:
        """Return None: files do not tell how full their file system was."""

    def run(self, command: Command) -> tuple[Output, ...]:
        """Return the outputs of this command that the tree holds under sosreport's names."""
        paths = (p for name in SOS_NAMES.get(command.kind, ()) for p in glob(self._tree, f"/sos_commands/*/{name}"))
        return tuple(
            Output(source=f"{self.label}:{path.lstrip('/')}", text=text)
            for path in dict.fromkeys(paths)
            if (text := self._tree.read(path))
        )

    def prefetch(self, commands: Iterable[Command]) -> None:
        """Do nothing: everything is there already."""

    def environ(self, name: str) -> str | None:
        """Return a variable from the ``/proc/self/environ`` that was captured, None when there is none."""
        pairs = (entry.partition("=") for entry in (self._tree.read("/proc/self/environ") or "").split("\0"))
        return next((value for key, equals, value in pairs if equals and key == name), None)

    def nvml(self) -> NvmlOutput:
        """Return what NVML said when the host was captured."""
        text = self._tree.read(NVML_PATH)
        if text is None:
            return NvmlOutput(reason="not captured")
        try:
            return msgspec.json.decode(text, type=NvmlOutput)
        except (msgspec.DecodeError, RecursionError) as error:
            return NvmlOutput(reason=f"{NVML_PATH}: {error}")

    def nvml_sample(self, seconds: float) -> Sample | None:
        """Return None: this is not now."""

    def probe(self, question: str) -> str | None:
        """Return None: nothing can be tried."""
