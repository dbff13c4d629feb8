"""Reading the PCIe links of a path while something copies over it: idle links run slower, so only this tells."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hostdoctor.facts import LinkReading
from hostdoctor.sources.base import Source
from hostdoctor.survey.pci import DEVICES, read_link

PERIOD_S = 0.05


class LinkWatch:
    """Counts what each link of a path shows, within :meth:`copying` alone."""

    def __init__(self, source: Source, path: Sequence[str], period_s: float = PERIOD_S) -> None:
        self._source = source
        self._period_s = period_s
        self._seen: dict[str, tuple[Counter[str], Counter[str]]] = {bdf: (Counter(), Counter()) for bdf in path}
        self._readings: Counter[str] = Counter()

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Read once every period until the block ends, first after one period: a link needs a moment to speed up."""
        ended = threading.Event()
        thread = threading.Thread(target=self._read_until, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def readings(self) -> tuple[LinkReading, ...]:
        """Return what was counted, from the root port to the GPU; links that show nothing are left out."""
        return tuple(
            LinkReading(bdf=bdf, readings=self._readings[bdf], speeds_gts=dict(speeds), widths_lanes=dict(widths))
            for bdf, (speeds, widths) in self._seen.items()
            if speeds or widths
        )

    def _read_until(self, ended: threading.Event) -> None:
        while not ended.wait(self._period_s):
            found = {bdf: read_link(self._source, f"{DEVICES}/{bdf}") for bdf in self._seen}
            if ended.is_set():  # these may be of the moment after
                return
            for bdf, link in found.items():
                self._readings[bdf] += 1
                speeds, widths = self._seen[bdf]
                speeds.update([f"{link.speed_gts:g}"] if link.speed_gts else [])
                widths.update([f"{link.width_lanes}"] if link.width_lanes else [])
