"""A source that keeps what was asked of another one, so that the same questions can be answered without it."""

import posixpath
from collections.abc import Iterable, Iterator

from hostdoctor.facts import GapKind, Sample
from hostdoctor.sources.base import Command, NvmlOutput, Output, Source, Space
from hostdoctor.sources.tree import MAX_LINKS

# Links to whoever asks: a capture keeps the asker's own folder under the name that it was asked by.
_SELF = frozenset(("/proc/self", "/proc/thread-self"))


class RecordingSource:
    """Passes every question on, once, and keeps the answer.

    ``files``, ``binaries`` (what is no text), ``links`` (absolute targets) and ``folders`` (listed ones and what they
    list) hold real paths: links on the way are followed, as an archive must keep them. ``errors`` has why a path could
    not be read: where it was asked, and whenever the reason is not that there is no such file.
    """

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self.is_live = inner.is_live
        self.label = inner.label
        self.files: dict[str, str] = {}
        self.binaries: dict[str, bytes] = {}
        self.probes: dict[str, str] = {}
        self.spaces: dict[str, Space] = {}
        self.links: dict[str, str] = {}
        self.folders: set[str] = set()
        self.errors: dict[str, tuple[GapKind, str]] = {}
        self.variables: dict[str, str] = {}
        self.outputs: dict[Command, tuple[Output, ...]] = {}
        self._nvml: NvmlOutput | None = None
        self._texts: dict[str, str | None] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._targets: dict[str, str | None] = {}
        self._real_folders: dict[str, str] = {"": "", "/": ""}

    def read(self, path: str) -> str | None:
        """Return a file's text, or None."""
        if path not in self._texts:
            text = self._texts[path] = self._inner.read(path)
            if text is not None:
                self.files[self._real(path)] = text
            else:
                self._note_error(path)
        return self._texts[path]

    def read_bytes(self, path: str) -> bytes | None:
        """Return a file's bytes, or None."""
        data = self._inner.read_bytes(path)
        if data is not None:
            self.binaries[self._real(path)] = data
        else:
            self._note_error(path)
        return data

    def statvfs(self, path: str) -> Space | None:
        """Return the room of the file system that holds a path."""
        space = self._inner.statvfs(path)
        if space is not None:
            self.spaces[path] = space
        return space

    def read_lines(self, path: str) -> Iterator[str] | None:
        """Return None: no capture keeps what processes do."""

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Say why :meth:`read` gave None."""
        return self.errors.setdefault(path, self._inner.why_unreadable(path))

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return a directory's names, sorted."""
        if path not in self._names:
            names = self._names[path] = self._inner.listdir(path)
            if names:
                self._keep_listing(self._real(path).rstrip("/"), names)
            elif self._note_error(path)[1] == "is a directory":
                self.folders.add(self._real(path))
        return self._names[path]

    def readlink(self, path: str) -> str | None:
        """Return a link's target as an absolute path, or None."""
        parent, _, name = path.rpartition("/")
        return self._target(f"{self._real_folder(parent)}/{name}")

    def run(self, command: Command) -> tuple[Output, ...]:
        """Return a command's outputs."""
        if command not in self.outputs:
            self.outputs[command] = self._inner.run(command)
        return self.outputs[command]

    def prefetch(self, commands: Iterable[Command]) -> None:
        """Let the other source start them."""
        self._inner.prefetch(commands)

    def environ(self, name: str) -> str | None:
        """Return an environment variable of the caller."""
        value = self._inner.environ(name)
        if value is not None:
            self.variables[name] = value
        return value

    def nvml(self) -> NvmlOutput:
        """Return what NVML says."""
        if self._nvml is None:
            self._nvml = self._inner.nvml()
        return self._nvml

    def nvml_sample(self, seconds: float) -> Sample | None:
        """Return NVML's counters read twice, which no capture keeps."""
        return self._inner.nvml_sample(seconds)

    def probe(self, question: str) -> str | None:
        """Try something harmless and keep how it went."""
        answer = self._inner.probe(question)
        if answer is not None:
            self.probes[question] = answer
        return answer

    def _note_error(self, path: str) -> tuple[GapKind, str]:
        kind, reason = self._inner.why_unreadable(path)
        if kind != "missing" and reason != "is a directory":
            self.errors[path] = (kind, reason)
        return kind, reason

    def _keep_listing(self, folder: str, names: tuple[str, ...]) -> None:
        """Keep that these names were there: links as links, what else they are shows when it is read.

        The names of ``/dev`` are devices, which no archive keeps.
        """
        if folder == "/dev":
            return
        self.folders.add(folder or "/")
        self.folders.update(path for name in names if self._target(path := f"{folder}/{name}") is None)

    def _target(self, path: str) -> str | None:
        """Return where the link at a real path points, and keep it."""
        if path not in self._targets:
            target = self._targets[path] = None if path in _SELF else self._inner.readlink(path)
            if target is not None:
                self.links[path] = target
        return self._targets[path]

    def _real(self, path: str, depth: int = 0) -> str:
        """Return a path with every link in it followed; as it is where they go round in circles."""
        parent, _, name = path.rpartition("/")
        real = f"{self._real_folder(parent, depth)}/{name}"
        target = self._target(real)
        return real if target is None or depth > MAX_LINKS else self._real(target, depth + 1)

    def _real_folder(self, folder: str, depth: int = 0) -> str:
        if folder not in self._real_folders:
            self._real_folders[folder] = self._real(posixpath.normpath(folder), depth)
        return self._real_folders[folder]
