"""A host as a file tree: any folder or archive that holds ``sys/`` and ``proc/``, with command outputs beside them."""

from collections.abc import Iterable, Iterator

import msgspec

from hostdoctor.facts import GapKind, Sample
from hostdoctor.sources.base import Command, NvmlOutput, Output, Space, TextKind
from hostdoctor.sources.manifest import NVML_PATH, CapturedOutput, read_manifest, read_outputs
from hostdoctor.sources.tree import Tree, glob

# sosreport's naming: the command with odd characters as "_"; options vary between its versions.
SOS_NAMES: dict[TextKind, tuple[str, ...]] = {
    "topo-matrix": ("nvidia-smi_topo_-m*",),
    "numactl": ("numactl_--hardware*", "numactl_-H*"),
    "lspci": ("lspci_-[Dnvkx]*",),
    "lspci-tree": ("lspci_-t*", "lspci_-[Dnvk]*t*"),
    "lscpu": ("lscpu",),
    "nvidia-smi-q": ("nvidia-smi_-q", "nvidia-smi_--query"),
    "nvme-list": ("nvme_list", "nvme_list_-o_json*", "nvme_list_-v*"),
    "nvme-smart": ("nvme_smart-log_*",),
}
_SYSCTL = "/proc/sys/"
# What a tool prints in place of its output where a host has nothing of the kind.
_NOTHING = "Failed to scan topology"


class RootSource:
    """Evidence from a file tree that is not this machine; a capture's own words on what it lacks are used."""

    is_live = False

    def __init__(self, tree: Tree, label: str) -> None:
        """Raise SourceError for a capture of a later format."""
        self._tree = tree
        self._settings: dict[str, str] | None = None
        self.label = label
        self._manifest = read_manifest(tree, label)
        self._outputs = read_outputs(tree)

    def read(self, path: str) -> str | None:
        """Return a file's text, or None; a setting that has no file, as a sosreport's ``sysctl -a`` shows it."""
        text = self._tree.read(path)
        return self._sysctl(path) if text is None and path.startswith(_SYSCTL) else text

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, or None."""
        return self._tree.read_bytes(path)

    def read_lines(self, path: str) -> Iterator[str] | None:
        """Return None: nothing runs here."""

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Say why :meth:`read` gave None, on the host itself where a capture kept that."""
        if self._manifest is None:
            return self._tree.why_unreadable(path)
        return self._manifest.errors.get(path, ("missing", "not in the capture"))

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names, sorted."""
        return self._tree.listdir(path)

    def readlink(self, path: str) -> str | None:
        """Return a link's target as an absolute path of that host, or None."""
        return self._tree.readlink(path)

    def statvfs(self, path: str) -> Space | None:
        """Return what a capture kept; files do not tell how full their file system was."""
        return None if self._manifest is None else self._manifest.spaces.get(path)

    def run(self, command: Command) -> tuple[Output, ...]:
        """Return the outputs of this command: those that a capture lists, then others under sosreport's names."""
        captured = [output for output in self._outputs if output.kind == command.kind]
        listed = {output.file for output in self._outputs}
        trees = self._named("lspci-tree") if command.kind == "lspci" else ()
        paths = (path for path in self._named(command.kind) if path not in trees and path not in listed)
        others = (
            Output(source=f"{self.label}:{path.lstrip('/')}", text=text)
            for path in dict.fromkeys(paths)
            if (text := self._tree.read(path)) and not text.startswith(_NOTHING)
        )
        return (*map(self._output, captured), *others)

    def _output(self, captured: CapturedOutput) -> Output:
        text = None if captured.file is None else self._tree.read(captured.file)
        if text is not None:
            return Output(source=captured.source, text=text)
        return Output(source=captured.source, reason=captured.reason or "not in the capture", kind=captured.gap)

    def _named(self, kind: TextKind) -> tuple[str, ...]:
        return tuple(p for name in SOS_NAMES.get(kind, ()) for p in glob(self._tree, f"/sos_commands/*/{name}"))

    def _sysctl(self, path: str) -> str | None:
        if self._settings is None:
            text = self._tree.read("/sos_commands/kernel/sysctl_-a") or ""
            pairs = (row.partition(" = ") for row in text.splitlines())
            self._settings = {name: value for name, equals, value in pairs if equals}
        value = self._settings.get(path[len(_SYSCTL) :].replace("/", "."))
        return None if value is None else f"{value}\n"

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
        """Return how the trial went when the host was captured, None when it was not tried."""
        return None if self._manifest is None else self._manifest.probes.get(question)
