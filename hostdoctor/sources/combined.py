"""Several sources about one host, read as one: the first that has a file gives it, and every command output counts."""

from collections.abc import Iterable, Iterator, Sequence

from hostdoctor.facts import GapKind, Sample
from hostdoctor.sources.base import Command, NvmlOutput, Output, Source, Space


class CombinedSource:
    """What was given with several ``--from``."""

    is_live = False

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self.label = ", ".join(source.label for source in self._sources)

    def read(self, path: str) -> str | None:
        """Return the first text that a source has for this path."""
        return next((text for source in self._sources if (text := source.read(path)) is not None), None)

    def read_bytes(self, path: str) -> bytes | None:
        """Return the first bytes that a source has for this path."""
        return next((data for source in self._sources if (data := source.read_bytes(path)) is not None), None)

    def read_lines(self, path: str) -> Iterator[str] | None:
        """Return None: nothing runs here."""

    def why_unreadable(self, path: str) -> tuple[GapKind, str]:
        """Say why the first source has none."""
        return self._sources[0].why_unreadable(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return the names that any source has there."""
        return tuple(sorted({name for source in self._sources for name in source.listdir(path)}))

    def readlink(self, path: str) -> str | None:
        """Return the first target that a source has."""
        return next((target for source in self._sources if (target := source.readlink(path)) is not None), None)

    def statvfs(self, path: str) -> Space | None:
        """Return the first answer that a source has."""
        return next((space for source in self._sources if (space := source.statvfs(path)) is not None), None)

    def run(self, command: Command) -> tuple[Output, ...]:
        """Return every source's outputs, in the order given."""
        return tuple(output for source in self._sources for output in source.run(command))

    def prefetch(self, commands: Iterable[Command]) -> None:
        """Do nothing: everything is there already."""

    def environ(self, name: str) -> str | None:
        """Return the first value that a source has."""
        return next((v for source in self._sources if (v := source.environ(name)) is not None), None)

    def nvml(self) -> NvmlOutput:
        """Return the first answer that a source has."""
        answers = [source.nvml() for source in self._sources]
        return next((answer for answer in answers if answer.state != "not-asked"), answers[0])

    def nvml_sample(self, seconds: float) -> Sample | None:
        """Return None: this is not now."""

    def probe(self, question: str) -> str | None:
        """Return None: nothing can be tried."""
