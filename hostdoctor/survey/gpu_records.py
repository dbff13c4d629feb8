"""A GPU on the way to its record: what is known so far, and what each source tells of its place."""

import msgspec

from hostdoctor.facts import Gpu, PciDevice


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says of where a GPU is. ``nodes`` () and ``cpus`` None: it does not say."""

    nodes: tuple[int, ...] = ()
    cpus: str | None = None
    memory_node: int | None = None


class Seen(msgspec.Struct, kw_only=True):
    """A GPU on the way to its record: the record so far and what each source tells of its place."""

    gpu: Gpu
    told: dict[str, Told]
    device: PciDevice | None = None
