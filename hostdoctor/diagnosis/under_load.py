"""PCIe links while something copied over them: what files of ``measure copy`` add to a host (``--measured``)."""

from collections.abc import Iterator, Sequence

from hostdoctor.diagnosis.paths import Hop, Tree
from hostdoctor.diagnosis.subjects import sysfs
from hostdoctor.facts import Fact, Gpu, Host, LinkReading

MIN_READINGS = 10  # fewer may all be of moments between two copies


class BusyLink(Fact, frozen=True, kw_only=True):
    """One link of a GPU's path: the fastest rate that it showed during copies, and how often."""

    hop: Hop
    bdf: str
    speed_gts: float
    times: int
    readings: int
    file: str
    taken_at: str


def measured_links(host: Host, tree: Tree, gpu: Gpu) -> tuple[BusyLink, ...] | None:
    """Return the links of a GPU's path that were read often enough during copies; None when none was."""
    files = [measured for measured in host.measured.links if measured.gpu_bdf == gpu.bdf]
    if gpu.bdf is None or not files:
        return None
    latest = max(files, key=lambda measured: measured.taken_at)
    readings = {link.bdf: link for link in latest.links if link.readings >= MIN_READINGS}
    found = [_busy(hop, readings, latest.file, latest.taken_at) for hop in tree.hops(gpu)]
    return tuple(link for link in found if link is not None) or None


def slow_while_copying(links: Sequence[BusyLink]) -> Iterator[tuple[str, str, float, float]]:
    """Yield for each link below what both of its ends can do where that was seen, how often, the rate, the maximum."""
    for link in links:
        most = link.hop.max_speed_gts
        if most and link.speed_gts < most:
            where = f"{link.file} ({link.taken_at}): {sysfs(link.bdf, 'current_link_speed')}"
            yield where, f", the fastest of {link.readings} readings ({link.times} times)", link.speed_gts, most


def _busy(hop: Hop, readings: dict[str, LinkReading], file: str, taken_at: str) -> BusyLink | None:
    """Return the link as whichever end was read shows it: both ends are one link and run at one rate."""
    for bdf in (hop.end_bdf, hop.port_bdf):
        link = readings.get(bdf)
        if link is not None and link.speeds_gts:
            fastest = max(link.speeds_gts, key=float)
            return BusyLink(
                hop=hop,
                bdf=bdf,
                speed_gts=float(fastest),
                times=link.speeds_gts[fastest],
                readings=link.readings,
                file=file,
                taken_at=taken_at,
            )
    return None
