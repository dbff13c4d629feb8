"""What is usual for a host: each drive's latency (median of about a day), and each engine's split over the nodes."""

import statistics
from collections.abc import Iterable, Mapping

from hostdoctor.agent.model import DriveRates, Placement
from hostdoctor.agent.signals import numa_stat_path
from hostdoctor.facts import Fact, IoBaseline, PlacedBefore

EVERY_S = 900.0  # a drive's means are taken over so long
KEPT, ENOUGH = 96, 8  # a day of them; from two hours on they say what is usual
SETTLED_S = 600.0  # an engine still loads its weights before
LEAST_BYTES = 64 << 20
MAX_SPLITS = 1024

Means = dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]]  # drive: reads, writes, queue depth


class Split(Fact, frozen=True, kw_only=True):
    """How an engine's memory was split over the nodes when it had settled after the start(s) named by their ticks."""

    since: str
    starts: tuple[int, ...]
    shares: dict[str, float]


class Group(Fact, frozen=True, kw_only=True):
    """A control group with GPU processes as a survey saw it. ``youngest_s`` is the age of the youngest of them."""

    placement: Placement
    starts: tuple[int, ...] = ()
    youngest_s: float | None = None

    @property
    def key(self) -> str:
        """What survives a restart: the unit, the names, the GPUs."""
        placed = self.placement
        return f"{placed.unit} {','.join(sorted(set(placed.names)))} {','.join(map(str, placed.gpus))}"


def with_means(known: Means, rates: Iterable[DriveRates]) -> Means:
    """Return the drives' means with those of one more interval; drives that are gone are forgotten."""
    found: Means = {}
    for drive in rates:
        reads, writes, depths = known.get(drive.name, ((), (), ()))
        found[drive.name] = (
            _added(reads, drive.r_await_ms),
            _added(writes, drive.w_await_ms),
            _added(depths, drive.queue_depth or None),
        )
    return found


def usual_latency(means: Means) -> dict[str, IoBaseline]:
    """Return what is usual for each drive of which enough is known."""
    every = {
        name: IoBaseline(r_await_ms=_median(reads), w_await_ms=_median(writes), queue_depth=_median(depths))
        for name, (reads, writes, depths) in means.items()
    }
    return {name: usual for name, usual in every.items() if usual != IoBaseline()}


def remember(
    splits: Mapping[str, Split], groups: Iterable[Group], now: str
) -> tuple[dict[str, Split], tuple[PlacedBefore, ...]]:
    """Return the splits with those of engines seen for the first time, and those that were restarted since theirs.

    An engine counts once its processes have run for ten minutes; one without 64 MiB of its own memory does not.
    """
    known = dict(splits)
    restarted = []
    for group in groups:
        placed = group.placement
        size = sum(share.anon_bytes + share.shared_bytes for share in placed.nodes)
        if group.youngest_s is None or group.youngest_s < SETTLED_S or size < LEAST_BYTES:
            continue
        shares = {str(node): round(share, 4) for node, share in placed.shares.items()}
        before = known.get(group.key)
        if before is None:
            known[group.key] = Split(since=now, starts=group.starts, shares=shares)
            if len(known) > MAX_SPLITS:  # the one that has been known for longest goes
                del known[next(iter(known))]
        elif before.starts != group.starts:
            restarted.append(
                PlacedBefore(
                    unit=placed.unit,
                    names=placed.names,
                    pids=placed.pids,
                    gpus=placed.gpus,
                    source=numa_stat_path(placed.cgroup),
                    since=before.since,
                    before=before.shares,
                    now=shares,
                    bytes=size,
                )
            )
    return known, tuple(restarted)


def _added(values: tuple[float, ...], value: float | None) -> tuple[float, ...]:
    return values if value is None else (*values, round(value, 4))[-KEPT:]


def _median(values: tuple[float, ...]) -> float | None:
    return statistics.median(values) if len(values) >= ENOUGH else None
