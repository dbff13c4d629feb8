"""How devices reach each other: the matrix where there is one, else derived from the PCI tree and the nodes."""

from itertools import combinations

from hostdoctor.facts import Fact, Gpu, Nic, Path

MAX_ENDS = 512  # above it the pairs are more than anybody reads


class End(Fact, frozen=True, kw_only=True):
    """One end of a path."""

    label: str
    upstream: tuple[str, ...]
    root_complex: str | None
    nodes: tuple[int, ...]


def derive_paths(gpus: tuple[Gpu, ...], nics: tuple[Nic, ...]) -> tuple[Path, ...]:
    """Return GPU-GPU, GPU-NIC and NIC-NIC paths by nvidia-smi's definitions; pairs that cannot be told are left out.

    None at all above MAX_ENDS devices.

    NVLink is not in the PCI tree: two GPUs joined by it show their PCIe path here.
    """
    ends = [
        End(
            label=g.bdf if g.index is None else f"GPU{g.index}",
            upstream=g.upstream,
            root_complex=g.root_complex,
            nodes=g.numa_nodes,
        )
        for g in gpus
        if g.bdf is not None
    ]
    ends += [
        End(
            label=nic.label or nic.name or nic.bdf,
            upstream=nic.upstream,
            root_complex=nic.root_complex,
            nodes=() if nic.numa_node is None else (nic.numa_node,),
        )
        for nic in nics
        if nic.bdf is not None
    ]
    if len(ends) > MAX_ENDS:
        return ()
    pairs = ((a, b, _kind(a, b)) for a, b in combinations(ends, 2))
    return tuple(Path(a=a.label, b=b.label, kind=kind) for a, b, kind in pairs if kind)


def _kind(a: End, b: End) -> str | None:
    if a.root_complex is None or b.root_complex is None:
        return None
    if a.root_complex == b.root_complex:
        return _within_root_complex(a.upstream, b.upstream)
    if not a.nodes or not b.nodes:
        return None
    return "NODE" if a.nodes == b.nodes else "SYS"


def _within_root_complex(a: tuple[str, ...], b: tuple[str, ...]) -> str:
    """Return PIX below one switch or bridge, PXB below several, PHB through the host bridge."""
    shared = sum(1 for x, y in zip(a, b, strict=False) if x == y)
    if shared == 0:
        return "PHB"
    below = max(len(a), len(b)) - shared
    return "PIX" if below <= 1 else "PXB"
