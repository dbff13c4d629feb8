import contextlib
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.hwloc_functions import HwlocFunction
from hostdoctor.parsers.hwloc_nodes import Cpus, own_cpus
from hostdoctor.parsers.hwloc_xml import HwlocTopology, parse_hwloc_xml
from hostdoctor.sources.recognise import recognise
from tests.support.mangle import MANGLINGS
from tests.support.render_hwloc import (
    bridge,
    distances,
    element,
    function,
    holder,
    info,
    node,
    os_device,
    topology,
    two_sockets,
)

VERSIONS = ("1", "2.0", "3.0")
GPU = "0302 [10de:2330]"


def cpus_of(text: str) -> dict[int, str | None]:
    return {n.id: n.cpus for n in parse_hwloc_xml(text).nodes}


def by_bdf(record: HwlocTopology) -> dict[str, HwlocFunction]:
    return {f.bdf: f for f in record.functions}


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_nodes(version: str) -> None:
    record = parse_hwloc_xml(two_sockets(version))
    assert [(n.id, n.cpus, n.memory_bytes, n.distances) for n in record.nodes] == [
        (0, "0-7,16-23", 1 << 38, {"0": 10, "1": 21}),
        (1, "8-15,24-31", 1 << 38, {"0": 21, "1": 10}),
    ]
    assert [n.package for n in record.nodes] == ([None, None] if version == "1" else [0, 1])
    assert (record.hostname, record.kernel, record.architecture) == ("gpu7", "6.8.0", "x86_64")
    assert (record.cpu_model, record.packages, record.gaps) == ("Xeon 8480C", 2, ())


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_functions(version: str) -> None:
    functions = by_bdf(parse_hwloc_xml(two_sockets(version)))
    assert len(functions) == 16
    gpu, nic, drive = (functions[f"0000:{bus}:00.0"] for bus in ("14", "15", "16"))
    assert (gpu.vendor_id, gpu.device_id, gpu.class_code, gpu.numa_nodes) == ("10de", "2330", "0302", (0,))
    assert (gpu.root_complex, gpu.upstream) == ("0000:10", ("0000:10:01.0", "0000:11:00.0", "0000:12:00.0"))
    assert (gpu.gpu_index, gpu.gpu_name, gpu.gpu_uuid) == (1, "NVIDIA H100", "GPU-0")
    assert (nic.name, nic.netdevs, nic.rdma_devices) == (
        "Mellanox Technologies MT2910 Family [ConnectX-7]",
        ("ib0",),
        ("mlx5_0",),
    )
    assert (drive.namespaces, drive.drive_model) == (("nvme0n1",), "PM9A3")
    assert functions["0000:94:00.0"].numa_nodes == (1,)
    assert functions["0000:94:00.0"].gpu_index == 0


@pytest.mark.parametrize("secret", ["165", "S64", "00:11"])
def test_keeps_no_serial_numbers_and_addresses(secret: str) -> None:
    assert secret not in repr(parse_hwloc_xml(two_sockets("3.0")).functions).replace("0000:11:00", "")


@pytest.mark.parametrize("mangling", sorted(MANGLINGS))
@pytest.mark.parametrize("version", VERSIONS)
def test_pasted_text_tells_the_same_or_less(version: str, mangling: str) -> None:
    text = two_sockets(version)
    whole = facts(parse_hwloc_xml(text))
    for section in recognise(MANGLINGS[mangling](text))[:1]:
        assert section.kind == "hwloc-xml"
        with contextlib.suppress(ParseError):
            found = facts(parse_hwloc_xml(section.text))
            assert {name: value for name, value in found.items() if whole.get(name) != value} == {}
            assert len(found) == len(whole) or "terminal" in mangling or "mail" in mangling
            return
        assert "terminal" in mangling or "mail" in mangling


def facts(record: HwlocTopology) -> dict[str, object]:
    """Return everything that is told, by name."""
    records = {"topology": record} | {f"node {n.id}": n for n in record.nodes} | {f.bdf: f for f in record.functions}
    return {
        f"{name}.{field}": value
        for name, part in records.items()
        for field in part.__struct_fields__
        if field not in ("nodes", "functions", "gaps") and (value := getattr(part, field)) not in (None, (), {})
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_cut_text_tells_the_same_or_less(version: str) -> None:
    text = two_sockets(version)
    whole = facts(parse_hwloc_xml(text))
    for end in range(0, len(text), 37):
        with contextlib.suppress(ParseError):
            record = parse_hwloc_xml(text[:end])
            assert {name: value for name, value in facts(record).items() if whole.get(name) != value} == {}
            assert "source:hwloc-xml" in {gap.fact for gap in record.gaps}


# Whose CPUs they are


def machine(content: str, cpus: int = 8, nodes: int = 2, **more: str) -> str:
    return topology("2.0", range(cpus), range(nodes), content, **more)


def test_a_node_without_cpus_shows_the_nearest_ones() -> None:
    """As hwloc nests them: the second node is memory near package 0, the third near all."""
    package = holder("Package", range(4), node(0, range(4)) + node(2, range(4)), os_index=0)
    other = holder("Package", range(4, 8), node(1, range(4, 8)), os_index=1)
    text = machine(node(3, range(8)) + package + other, nodes=4)
    assert cpus_of(text) == {0: "0-3", 1: "4-7", 2: "", 3: ""}


def test_memory_of_a_special_kind_owns_no_cpus() -> None:
    text = machine(node(0, range(8), subtype="MCDRAM") + node(1, range(8), subtype="DRAM"))
    assert cpus_of(text) == {0: "", 1: "0-7"}
    dax = node(0, range(8), content=info("DAXDevice", "dax0.0"))
    assert cpus_of(machine(dax + node(1, range(8)))) == {0: "", 1: "0-7"}


def test_memory_of_a_special_kind_alone_may_own_them() -> None:
    text = machine(node(0, range(4), subtype="HBM") + node(1, range(4, 8), subtype="HBM"))
    record = parse_hwloc_xml(text)
    assert [n.cpus for n in record.nodes] == [None, None]
    assert [gap.fact for gap in record.gaps] == ["numa_nodes[0].cpus", "numa_nodes[1].cpus"]


def test_overlapping_sets_are_nobodys() -> None:
    text = machine(node(0, range(6)) + node(1, range(4, 8)))
    assert cpus_of(text) == {0: None, 1: None}


def test_a_later_node_that_stands_first_is_doubtful() -> None:
    assert cpus_of(machine(node(1, range(8)) + node(0, range(8)))) == {0: None, 1: None}


def test_a_hidden_node_may_own_what_a_later_one_shows() -> None:
    """Nodes with CPUs and no memory are hidden: their CPUs stand with memory near them."""
    text = machine(node(2, range(4)) + node(3, range(4, 8)), complete_nodeset="0x0000000f", nodeset="0x0000000c")
    record = parse_hwloc_xml(text)
    assert [n.cpus for n in record.nodes] == [None, None]
    assert record.gaps[0].reason == "hidden from who made the file: 0-1"


def test_a_cgroup_that_hides_a_node_with_its_cpus() -> None:
    text = machine(
        holder("Package", range(4, 8), node(1, range(4, 8))),
        cpuset="0x000000f0",
        complete_nodeset="0x00000003",
        nodeset="0x00000002",
    )
    assert cpus_of(text) == {1: "4-7"}
    assert parse_hwloc_xml(text).packages is None


def test_an_earlier_node_owns_its_cpus_whatever_is_hidden_behind() -> None:
    text = machine(node(0, range(8)), complete_nodeset="0x000000ff", nodeset="0x00000001")
    assert cpus_of(text) == {0: "0-7"}


def test_cpus_hidden_from_the_caller_are_still_the_nodes() -> None:
    text = machine(node(0, range(8), cpuset="0x0000000f"), nodes=1)
    assert cpus_of(text) == {0: "0-7"}


@given(st.lists(st.frozensets(st.integers(0, 7)), min_size=1, max_size=6), st.frozensets(st.integers(0, 5)))
def test_owners_never_share_cpus(sets: list[frozenset[int]], special: frozenset[int]) -> None:
    masks = {i: sum(1 << cpu for cpu in cpus) for i, cpus in enumerate(sets)}
    nodes = own_cpus(masks, special, Cpus(255, 255), frozenset())
    owned = [cpu for node in nodes.owners for cpu in sets[node]]
    assert len(owned) == len(set(owned))
    assert not nodes.owners.keys() & nodes.without
    assert not nodes.without or set(owned) == set(range(8))


@given(st.permutations(range(8)), st.integers(1, 4), st.data())
def test_finds_what_hwloc_does_to_a_host(cpus: list[int], count: int, data: st.DataObject) -> None:
    """Nodes that own disjoint sets, then nodes without CPUs that show unions of them."""
    sets = {i: frozenset(cpus[i::count]) for i in range(count)}
    near = data.draw(st.lists(st.frozensets(st.integers(0, count - 1), min_size=1), max_size=4))
    shown = [*sets.values(), *(frozenset().union(*(sets[i] for i in ids)) for ids in near)]
    masks = {i: sum(1 << cpu for cpu in s) for i, s in enumerate(shown)}
    nodes = own_cpus(masks, frozenset(), Cpus(255, 255), frozenset())
    assert nodes.owners == {i: masks[i] for i in sets}
    assert nodes.without == frozenset(range(count, len(shown)))


# Where devices are


def near(content: str, nodes: int = 2) -> tuple[int, ...]:
    """Return the nodes near the function 0000:01:00.0 of a host of 8 CPUs."""
    return by_bdf(parse_hwloc_xml(machine(content, nodes=nodes)))["0000:01:00.0"].numa_nodes


FOUR = [node(i, range(2 * i, 2 * i + 2)) for i in range(4)]
DEVICE = function("0000:01:00.0", GPU)


def test_a_device_in_a_group_is_near_its_nodes() -> None:
    group = holder("Group", range(4), FOUR[0] + FOUR[1] + DEVICE)
    assert near(group + FOUR[2] + FOUR[3], nodes=4) == (0, 1)


def test_a_device_in_part_of_a_node_is_near_that_node() -> None:
    cache = holder("L3Cache", range(2), DEVICE)
    assert near(node(0, range(4)) + cache + node(1, range(4, 8))) == (0,)


def test_a_device_of_the_whole_machine_is_not_placed() -> None:
    assert near("".join(FOUR) + DEVICE, nodes=4) == ()


def test_a_device_of_the_only_node_is_near_it() -> None:
    assert near(node(0, range(8)) + DEVICE, nodes=1) == (0,)


def test_a_device_among_doubtful_cpus_is_not_placed() -> None:
    assert near(node(0, range(6)) + node(1, range(4, 8)) + holder("Group", range(6), DEVICE)) == ()


@pytest.mark.parametrize(
    "content",
    [
        DEVICE,
        bridge("0000:[00-01]", DEVICE, "0000:00:01.0"),
        bridge("0000:[00-02]", bridge("0000:[02-02]", DEVICE, "0000:00:01.0")),
        bridge("0000:[00-01]", DEVICE),
        bridge("nonsense", DEVICE),
    ],
)
def test_bridges_left_out_leave_no_chain(content: str) -> None:
    device = by_bdf(parse_hwloc_xml(machine(node(0, range(8)) + content, nodes=1)))["0000:01:00.0"]
    assert (device.upstream, device.root_complex) == ((), None)


def test_a_device_on_the_root_bus() -> None:
    content = bridge("10000:[e0-e1]", function("10000:e0:02.0", GPU))
    device = parse_hwloc_xml(machine(node(0, range(8)) + content, nodes=1)).functions[0]
    assert (device.bdf, device.upstream, device.root_complex) == ("10000:e0:02.0", (), "10000:e0")


def test_an_unreadable_configuration_space_tells_no_class() -> None:
    content = function("0000:01:00.0", "0000 [0000:0000]")
    device = parse_hwloc_xml(machine(node(0, range(8)) + content, nodes=1)).functions[0]
    assert (device.class_code, device.vendor_id, device.device_id) == (None, None, None)


def test_multipath_namespaces_and_slices_of_gpus() -> None:
    gpu = function("0000:01:00.0", GPU, os_device("nvml3", "gpu", "2.0") + os_device("nvml3.1", "gpu", "2.0"))
    drive = function("0000:02:00.0", "0108 [144d:a80a]", os_device("nvme7c1n1", "block", "2.0"))
    record = by_bdf(parse_hwloc_xml(machine(node(0, range(8)) + gpu + drive, nodes=1)))
    assert record["0000:01:00.0"].gpu_index == 3
    assert record["0000:02:00.0"].namespaces == ("nvme7c1n1",)


# Distances


def told_distances(behind: str, version: str = "3.0") -> dict[int, dict[str, int]]:
    text = topology(version, range(8), range(4), "".join(FOUR), behind)
    return {n.id: n.distances for n in parse_hwloc_xml(text).nodes}


FOUR_BY_FOUR = [10, 11, 12, 13, 14, 10, 15, 16, 17, 18, 10, 19, 20, 21, 22, 10]
ROWS = {i: {str(j): FOUR_BY_FOUR[4 * i + j] for j in range(4)} for i in range(4)}


def test_asymmetric_distances_in_chunks() -> None:
    assert told_distances(distances("3.0", [0, 1, 2, 3], FOUR_BY_FOUR)) == ROWS


def test_distances_in_another_order() -> None:
    order = [2, 0, 3, 1]
    values = [FOUR_BY_FOUR[4 * i + j] for i in order for j in order]
    assert told_distances(distances("3.0", order, values)) == ROWS
    by_gp = distances("3.0", [100 + i for i in order], values).replace('indexing="os"', 'indexing="gp"')
    assert told_distances(by_gp) == ROWS


@pytest.mark.parametrize(
    "matrix",
    [
        distances("3.0", [0, 1, 2], FOUR_BY_FOUR[:9]),
        distances("3.0", [0, 1, 2, 3], FOUR_BY_FOUR[:15]),
        distances("3.0", [0, 1, 2, 3], [0, *FOUR_BY_FOUR[1:]]),
        distances("3.0", [0, 1, 2, 2], FOUR_BY_FOUR),
        distances("3.0", [0, 1, 2, 3], FOUR_BY_FOUR).replace('kind="5"', 'kind="6"'),
        distances("3.0", [0, 1, 2, 3], FOUR_BY_FOUR).replace("NUMALatency", "NUMABandwidth"),
        distances("3.0", [0, 1, 2, 3], FOUR_BY_FOUR).replace('type="NUMANode"', 'type="Package"'),
        distances("1", [0, 1, 2, 3], FOUR_BY_FOUR),
    ],
)
def test_other_matrices_are_not_distances(matrix: str) -> None:
    assert told_distances(matrix) == {0: {}, 1: {}, 2: {}, 3: {}}


def test_a_matrix_of_version_1_of_something_else() -> None:
    content = distances("1", [0, 1], [11, 20, 20, 11]) + node(0, range(4)) + node(1, range(4, 8))
    assert [n.distances for n in parse_hwloc_xml(topology("1", range(8), range(2), content)).nodes] == [{}, {}]


# What is no topology


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<topology/>",
        "<topology></topology>",
        "<topology><object type='PU'/></topology>",
        "no xml at all",
        "<topology version='4.0'><object type='Machine'/></topology>",
        two_sockets("2.0").replace("</object>", "", 1),
        machine(node(0, range(4)) + node(0, range(4, 8))),
        machine(element("NUMANode")),
        "<topology>" + "<object type='Machine'>" * 300,
    ],
)
def test_refuses_what_is_none(text: str) -> None:
    with pytest.raises(ParseError):
        parse_hwloc_xml(text)


def test_nvlinks_are_not_read_which_is_said() -> None:
    links = (
        '<distances2hetero nbobjs="2" kind="25" name="{}"><u64values length="8">0 1 1 0 </u64values></distances2hetero>'
    )
    text = topology("2.0", range(8), range(1), node(0, range(8)), behind=links.format("NVLinkBandwidth"))
    assert [(gap.fact, gap.reason.split(":")[0]) for gap in parse_hwloc_xml(text).gaps] == [
        ("paths", "its NVLinks are not read")
    ]
    other = topology("2.0", range(8), range(1), node(0, range(8)), behind=links.format("XGMIBandwidth"))
    assert parse_hwloc_xml(other).gaps == ()


def test_an_empty_machine_is_one() -> None:
    assert parse_hwloc_xml("<topology><object type='Machine'/></topology>") == HwlocTopology()


@pytest.mark.parametrize("mask", ["0xf...f", "", "0x", "zz", "0x123456789", "1," * 600, "-1"])
def test_sets_that_are_none_tell_nothing(mask: str) -> None:
    text = machine(element("NUMANode", os_index=0, cpuset=mask, local_memory="x"), nodes=1)
    (only,) = parse_hwloc_xml(text).nodes
    assert (only.cpus, only.memory_bytes) == (None, None)


@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_hwloc_xml(text)


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.sampled_from(VERSIONS))
def test_mutated_text(seed: int, version: str) -> None:
    text = mutated(two_sockets(version), random.Random(seed))
    with contextlib.suppress(ParseError):
        record = parse_hwloc_xml(text)
        assert len({n.id for n in record.nodes}) == len(record.nodes)
        assert len(by_bdf(record)) == len(record.functions)


def mutated(text: str, chance: random.Random) -> str:
    """Return a text with a few lines lost, doubled or moved, and a few characters changed."""
    lines = text.split("\n")
    for _ in range(chance.randrange(4)):
        at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[at : at + 1] = chance.choice([[], [lines[at]] * 2, [lines[to]], ["<a>"], ["&x;"]])
    characters = list("\n".join(lines))
    for _ in range(chance.randrange(4)):
        characters[chance.randrange(len(characters))] = chance.choice('<>"/=0x9,:-[] \n\0é\ud800')
    return "".join(characters)


@pytest.mark.parametrize(
    "text",
    [
        "<topology>" + "<object type='Machine'/>" * 2_000_000,
        "<topology><object type='Machine'>" + "<object type='NUMANode' os_index='1'/>" * 1_000_000,
        "<topology>" * 4_000_000,
        "<topology " + " ".join(f"a{i}='1'" for i in range(2_000_000)) + "/>",
        "<topology><object type='Machine' cpuset='" + "0xffffffff," * 3_000_000 + "'/></topology>",
        "<topology><object type='Machine'><distances2 type='NUMANode'><indexes>" + "1 " * 10_000_000,
    ],
)
def test_hostile_text_costs_seconds_at_most(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(ParseError):
        parse_hwloc_xml(text)
    assert time.process_time() - start < 10
