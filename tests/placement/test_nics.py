"""Which RDMA adapters are nearest to a GPU."""

import msgspec
import pytest

from hostdoctor.facts import Host, Path
from hostdoctor.placement.nics import nearest_nics
from tests.placement.hosts import bound, surveyed
from tests.support.build import Switch, gpu, host, nic


@pytest.mark.parametrize(
    ("name", "index", "kind", "names"),
    [
        ("dgx-h100", 0, "PXB", ("mlx5_0",)),
        ("dgx-h100", 5, "PXB", ("mlx5_9",)),
        ("pod-2-of-8", 0, "PXB", ("mlx5_6",)),
        ("gb200-tray", 3, "NODE", ("mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7")),
        ("aws-p5", 0, "PIX", ("rdmap79s0", "rdmap80s0", "rdmap81s0", "rdmap82s0")),
        ("oci-h100", 3, "PXB", ("mlx5_7", "mlx5_8")),
        ("azure-ndv5", 7, "NODE", ("mlx5_ib4", "mlx5_ib5", "mlx5_ib6", "mlx5_ib7")),
        ("l40s-4", 0, "NODE", ("mlx5_bond_0",)),
        ("l40s-4", 3, "SYS", ("mlx5_bond_0",)),
        ("sick-2n", 6, "PIX", ("mlx5_7",)),
        ("workstation", 0, None, ()),
    ],
)
def test_hosts(name: str, index: int, kind: str | None, names: tuple[str, ...]) -> None:
    on = surveyed(name)
    card = next(card for card in on.gpus if card.index == index)
    found = nearest_nics(on, card)
    assert (found.kind, found.names, found.untold) == (kind, names, ())


@pytest.mark.parametrize("name", ["dgx-h100", "aws-p5", "oci-h100", "sick-2n"])
def test_the_pci_tree_tells_the_same_where_there_is_no_matrix(name: str) -> None:
    on = surveyed(name)
    for card in on.gpus:
        assert nearest_nics(msgspec.structs.replace(on, paths=()), card) == nearest_nics(on, card)


def tree() -> Host:
    """A switch with a GPU and an adapter, an adapter on the same root complex, and one on another node's."""
    switch = Switch(0x15)
    card = switch.gpu(0)
    near = nic("mlx5_0", *switch.place(), root_complex="0000:15", numa_node=0, rdma=True)
    beside = nic("mlx5_1", "0000:15:02.0", root_complex="0000:15", numa_node=0, rdma=True)
    other = nic("mlx5_2", "0000:97:00.0", root_complex="0000:97", numa_node=1, rdma=True)
    return host([card], switch.ports, nics=(near, beside, other))


def without(on: Host, *names: str) -> Host:
    return msgspec.structs.replace(on, nics=tuple(card for card in on.nics if card.name not in names))


def test_the_shared_switch_is_nearer_than_the_root_complex_and_that_than_the_other_socket() -> None:
    on = tree()
    assert nearest_nics(on, on.gpus[0]).names == ("mlx5_0",)
    assert nearest_nics(without(on, "mlx5_0"), on.gpus[0]).kind == "PHB"
    assert nearest_nics(without(on, "mlx5_0", "mlx5_1"), on.gpus[0]).kind == "SYS"


def test_an_adapter_without_rdma_is_not_offered_and_one_nobody_can_tell_is_named() -> None:
    on = tree()
    cards = tuple(
        msgspec.structs.replace(card, rdma=told) for card, told in zip(on.nics, (False, None, True), strict=True)
    )
    on = msgspec.structs.replace(on, nics=cards)
    found = nearest_nics(on, on.gpus[0])
    assert (found.names, found.kind, found.untold) == (("mlx5_2",), "SYS", ("mlx5_1",))
    assert "whether mlx5_1 can do RDMA is not known: not among the NICs" in [r.text for r in bound(on).reasons]


def test_an_adapter_without_a_name_cannot_be_given_to_nccl() -> None:
    on = tree()
    on = msgspec.structs.replace(on, nics=(msgspec.structs.replace(on.nics[0], name=None), *on.nics[1:]))
    assert nearest_nics(on, on.gpus[0]).names == ("mlx5_1",)


def test_nvlink_is_no_way_to_an_adapter() -> None:
    on = msgspec.structs.replace(tree(), paths=(Path(a="GPU0", b="GPU1", kind="NV18"),))
    assert nearest_nics(on, on.gpus[0]).names == ("mlx5_0",)


def test_where_nothing_tells_a_path_no_adapter_is_near() -> None:
    on = host([gpu(0, "0000:16:00.0")], nics=(nic("mlx5_0", "0000:17:00.0", rdma=True),))
    assert nearest_nics(on, on.gpus[0]).names == ()


def test_ranks_carry_their_own_adapters() -> None:
    assert [rank.nics for rank in bound("dgx-h100", "4,0").ranks] == [("mlx5_6",), ("mlx5_0",)]
    reasons = [reason.text for reason in bound("dgx-h100", "4,0").reasons]
    assert "nearest RDMA NICs: GPU4 mlx5_6 (PXB); GPU0 mlx5_0 (PXB)" in reasons
