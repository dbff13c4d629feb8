"""What the agent remembers of a host and hands to the checks: the accepted map, and where engines' memory was."""

from typing import Literal

from hostdoctor.facts.base import Fact


class KnownDevice(Fact, frozen=True, kw_only=True):
    """A GPU, NIC or drive of the accepted map. ``label`` is what a person called it then (``GPU0``, ``nvme0``)."""

    kind: Literal["GPU", "NIC", "drive"]
    label: str
    uuid: str | None = None
    bdf: str | None = None
    index: int | None = None
    numa_nodes: tuple[int, ...] = ()
    width_lanes: int | None = None


class KnownNode(Fact, frozen=True, kw_only=True):
    """A NUMA node of the accepted map."""

    id: int
    memory_bytes: int | None = None


class Baseline(Fact, frozen=True, kw_only=True):
    """The map that was accepted, and when (ISO 8601)."""

    accepted_at: str
    devices: tuple[KnownDevice, ...] = ()
    nodes: tuple[KnownNode, ...] = ()


class PlacedBefore(Fact, frozen=True, kw_only=True):
    """Where an engine's memory was before it was restarted, and where it is now: each node's part (``{"0": 0.98}``).

    ``unit`` is its service or container, ``pids`` its processes that use GPUs; ``since`` is when the first split was
    taken (ISO 8601); ``bytes`` is its private and shared memory now, ``source`` the file that tells it.
    """

    unit: str
    names: tuple[str, ...]
    pids: tuple[int, ...]
    gpus: tuple[int, ...]
    source: str
    since: str
    before: dict[str, float]
    now: dict[str, float]
    bytes: int
