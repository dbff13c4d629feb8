"""The RDMA adapters nearest to a GPU, for NCCL_IB_HCA and UCX_NET_DEVICES."""

from hostdoctor.diagnosis.nic_paths import NEAREST_FIRST, nic_label, nic_paths
from hostdoctor.facts import Fact, Gpu, Host


class NearestNics(Fact, frozen=True, kw_only=True):
    """The RDMA devices nearest to a GPU, in the host's order, and the kind of path they share (None: none known).

    ``untold`` are adapters that were left out because nobody could tell whether they do RDMA.
    """

    names: tuple[str, ...] = ()
    kind: str | None = None
    untold: tuple[str, ...] = ()


def nearest_nics(host: Host, gpu: Gpu) -> NearestNics:
    """Return the RDMA devices with the best path to a GPU, all of them where several are equally near.

    The map's paths tell how near; where they have none for this GPU, the PCI tree and the nodes do.
    """
    untold = tuple(nic_label(nic) for nic in host.nics if nic.rdma is None)
    ways = nic_paths(host, gpu) or _derived(host, gpu)
    # a device without a name of its own cannot be named to NCCL
    named = [(nic.name, ways[nic_label(nic)]) for nic in host.nics if nic.rdma and nic.name and nic_label(nic) in ways]
    best = min((kind for _, kind in named), key=NEAREST_FIRST.index, default=None)
    return NearestNics(names=tuple(name for name, kind in named if kind == best), kind=best, untold=untold)


def _derived(host: Host, gpu: Gpu) -> dict[str, str]:
    import msgspec

    from hostdoctor.survey.paths import derive_paths

    rdma = tuple(nic for nic in host.nics if nic.rdma)
    alone = msgspec.structs.replace(host, gpus=(gpu,), paths=derive_paths((gpu,), rdma))
    return nic_paths(alone, gpu)
