import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.parsers.numactl import MIB, NumactlHardware, NumactlNode, parse_numactl
from tests.support.mangle import MANGLINGS
from tests.support.render_numactl import render_numactl

TWO_NODES = """\
available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3 8 9 10 11
node 0 size: 16000 MB
node 0 free: 1500 MB
node 1 cpus: 4 5 6 7 12 13 14 15
node 1 size: 16100 MB
node 1 free: 15000 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""


def told(record: NumactlHardware) -> list[tuple[int, str | None, int | None, int | None, dict[str, int]]]:
    """Return the nodes with sizes in MB, short to compare."""
    return [
        (
            node.id,
            node.cpus,
            node.memory_bytes if node.memory_bytes is None else node.memory_bytes // MIB,
            node.free_bytes if node.free_bytes is None else node.free_bytes // MIB,
            node.distances,
        )
        for node in record.nodes
    ]


def gaps(record: NumactlHardware) -> dict[str, str]:
    return {gap.fact: gap.reason for gap in record.gaps}


NODE_0 = (0, "0-3,8-11", 16000, 1500, {"0": 10, "1": 21})
NODE_1 = (1, "4-7,12-15", 16100, 15000, {"0": 21, "1": 10})


def test_reads_a_whole_output() -> None:
    record = parse_numactl(TWO_NODES)
    assert told(record) == [NODE_0, NODE_1]
    assert record.nodes[0].memory_bytes == 16000 * 1048576
    assert record.gaps == ()
    assert not record.elided


@pytest.mark.parametrize("mangling", MANGLINGS)
def test_survives_pasting(mangling: str) -> None:
    assert told(parse_numactl(MANGLINGS[mangling](TWO_NODES))) == [NODE_0, NODE_1]


def test_without_the_last_newline_nothing_is_lost() -> None:
    assert told(parse_numactl(TWO_NODES.strip())) == [NODE_0, NODE_1]


def test_a_node_without_cpus_has_an_empty_list_and_zero_is_a_size() -> None:
    text = "available: 1 nodes (255)\nnode 255 cpus:\nnode 255 size: 0 MB\nnode 255 free: 0 MB\n"
    assert told(parse_numactl(text)) == [(255, "", 0, 0, {})]


def test_lists_wrapped_over_lines_go_on() -> None:
    text = (
        "available: 1 nodes (0)\n"
        "node 0 cpus: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n16 17 18 19 20 21 22 23\n24 25\n"
        "node 0 size: 10 MB\nnode 0 free: 5 MB\n"
    )
    assert told(parse_numactl(text))[0][1] == "0-25"


def test_numbers_that_a_terminal_cut_are_rejoined() -> None:
    text = (
        "node 0 cpus: 90 91 92 93 94 95 96 97 98 99 100 101 102 10\n3 104 105 106\n"
        "node 0 size: 10 MB\nnode 0 free: 5 MB\n"
    )
    assert told(parse_numactl(text))[0][1] == "90-106"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("node 0 cpus: 0 1 2 ...\nnode 0 size: 9 MB\n", "the list ends in '...'"),
        ("node 0 cpus: 0 1 2\n...\nnode 0 size: 9 MB\n", "the list is interrupted"),
        ("node 0 cpus: 0 1 2\nhost kernel: 12 x\nnode 0 size: 9 MB\n", "the list is interrupted"),
        ("node 0 cpus: 3 2 1\nnode 0 size: 9 MB\n", "ids do not ascend"),
        ("node 0 cpus: 0 1 2x\nnode 0 size: 9 MB\n", "the list ends in '2x'"),
        ("node 0 cpus: 0-3 (5)\nnode 0 size: 9 MB\n", "5 CPUs counted, others listed"),
        ("node 0 cpus: 99999999\nnode 0 size: 9 MB\n", "the list ends in '99999999'"),
        ("node 0 size: 9 MB\nnode 1 cpus: 0 1 2", "the text ends inside the list"),
    ],
)
def test_a_list_that_cannot_be_trusted_is_a_gap(text: str, reason: str) -> None:
    record = parse_numactl(text)
    assert record.nodes[-1].cpus is None
    assert gaps(record)[f"numa_nodes[{record.nodes[-1].id}].cpus"] == reason


def test_a_cpu_under_two_nodes_discredits_both_lists() -> None:
    record = parse_numactl("node 0 cpus: 0 1 2\nnode 1 cpus: 2 3\nnode 2 cpus: 4\n")
    assert [node.cpus for node in record.nodes] == [None, None, "4"]
    assert gaps(record)["numa_nodes[1].cpus"] == "a CPU is listed under several nodes"


def test_remarks_behind_a_list_are_none_of_it() -> None:
    text = "node 0 cpus: 0 1 2 3      --> first half\nnode 1 cpus: 4 5 6 7 # second\n"
    assert [node.cpus for node in parse_numactl(text).nodes] == ["0-3", "4-7"]


def test_a_number_after_the_last_short_list_is_something_else() -> None:
    text = "node 0 cpus: 0 1 2 3\nnode 1 cpus: 4 5 6 7\n8\n"
    assert [node.cpus for node in parse_numactl(text).nodes] == ["0-3", "4-7"]


def test_cpu_lines_alone_leave_one_gap_for_each_other_field() -> None:
    record = parse_numactl("available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 1 cpus: 2 3\n")
    assert [node.cpus for node in record.nodes] == ["0-1", "2-3"]
    assert [node.memory_bytes for node in record.nodes] == [None, None]
    assert gaps(record) == {
        "numa_nodes.memory_bytes": "not printed",
        "numa_nodes.free_bytes": "not printed",
        "numa_nodes.distances": "no distance table",
    }


def test_sizes_that_numactl_could_not_read_are_gaps() -> None:
    text = "node 0 cpus: 0\nnode 0 size: <not available>\nnode 0 free: 12 M\n"
    record = parse_numactl(text)
    assert (record.nodes[0].memory_bytes, record.nodes[0].free_bytes) == (None, None)
    assert gaps(record)["numa_nodes[0].memory_bytes"] == "<not available>"


def test_sparse_ids_and_lines_run_together() -> None:
    text = (
        "available: 3 nodes (0,8,252)\nnode 0 cpus: 0 1 node 0 size: 5 MB node 0 free: 4 MB\nnode 8 cpus: 2 3\n"
        "node 8 size: 5 MB node 8 free: 4 MB\nnode 252 cpus: node 252 size: 0 MB\nnode 252 free: 0 MB\n"
        "node distances:\nnode   0   8  252\n  0:  10  40  80\n  8:  40  10  80\n 252:  80  80  10\n"
    )
    record = parse_numactl(text)
    assert told(record)[2] == (252, "", 0, 0, {"0": 80, "8": 80, "252": 10})
    assert record.gaps == ()


def test_nodes_said_to_be_there_are_kept_and_unknown() -> None:
    text = TWO_NODES.replace("2 nodes (0-1)", "3 nodes (0-1,5)")
    record = parse_numactl(text)
    assert told(record) == [NODE_0, NODE_1, (5, None, None, None, {})]
    assert gaps(record) == {"numa_nodes[5]": "said to be available, but not printed"}


@pytest.mark.parametrize("available", ["available: 3 nodes (0-1)", "available: 3 nodes (0-", "available: 3 nodes"])
def test_a_count_that_does_not_fit_is_a_gap(available: str) -> None:
    record = parse_numactl(TWO_NODES.replace("available: 2 nodes (0-1)", available))
    assert [node.id for node in record.nodes] == [0, 1]
    assert gaps(record) == {"numa_nodes": "3 nodes are available, 2 printed"}


def test_asymmetric_distances_are_kept() -> None:
    record = parse_numactl(TWO_NODES.replace("1:  21  10", "1:  31  10"))
    assert [node.distances for node in record.nodes] == [{"0": 10, "1": 21}, {"0": 31, "1": 10}]


@pytest.mark.parametrize(
    "row", ["  1:  21", "  1:  21  10  30", "  1:  21  ...", "  1:  10  21", "  1:  21   1", "  1: 21 x"]
)
def test_a_row_that_cannot_be_aligned_is_a_gap(row: str) -> None:
    record = parse_numactl(TWO_NODES.replace("  1:  21  10", row))
    assert [node.distances for node in record.nodes] == [{"0": 10, "1": 21}, {}]
    assert gaps(record) == {"numa_nodes[1].distances": "no row that can be aligned"}


def test_a_table_wrapped_over_lines() -> None:
    table = "node distances:\nnode   0   1   2\n   3\n  0:  10  11  12\n  13\n  1:  11  10  12\n  13\n"
    record = parse_numactl("available: 4 nodes (0-3)\n" + table)
    assert [node.distances for node in record.nodes][:2] == [
        {"0": 10, "1": 11, "2": 12, "3": 13},
        {"0": 11, "1": 10, "2": 12, "3": 13},
    ]
    assert record.nodes[2].distances == {}


def test_lines_left_out_by_the_author() -> None:
    text = (
        "available: 4 nodes (0-3)\nnode 0 cpus: 0 1\nnode 0 size: 5 MB\nnode 0 free: 1 MB\n...\n"
        "node 3 cpus:\nnode 3 size: 0 MB\nnode 3 free: 0 MB\n"
        "node distances:\nnode   0   1   2   3\n  0:  10  20  20  80\n...\n  3:  80  80  80  10\n"
    )
    record = parse_numactl(text)
    assert record.elided
    assert told(record)[3] == (3, "", 0, 0, {"0": 80, "1": 80, "2": 80, "3": 10})
    assert gaps(record) == {"numa_nodes[1]": "left out of the text", "numa_nodes[2]": "left out of the text"}


def test_columns_left_out_cannot_be_aligned() -> None:
    text = TWO_NODES.replace("node   0   1\n", "node   0 ...\n").replace("0:  10  21", "0:  10 ...")
    record = parse_numactl(text)
    assert [node.distances for node in record.nodes] == [{}, {"0": 21, "1": 10}]


def test_no_distance_table() -> None:
    text = TWO_NODES[: TWO_NODES.index("node distances")] + "No distance information available.\n"
    record = parse_numactl(text)
    assert told(record)[0] == (*NODE_0[:4], {})
    assert gaps(record) == {"numa_nodes.distances": "no distance table"}


def test_a_cut_head_leaves_what_remains() -> None:
    record = parse_numactl(TWO_NODES[TWO_NODES.index("node 0 free") :])
    assert told(record) == [(0, None, None, 1500, NODE_0[4]), NODE_1]
    assert gaps(record) == {"numa_nodes[0].cpus": "not printed", "numa_nodes[0].memory_bytes": "not printed"}


def test_a_table_alone_tells_distances() -> None:
    record = parse_numactl(TWO_NODES[TWO_NODES.index("node distances") :])
    assert [node.distances for node in record.nodes] == [NODE_0[4], NODE_1[4]]


def test_the_first_complete_output_counts() -> None:
    before = TWO_NODES.replace("16100 MB", "16100")
    after = TWO_NODES.replace("16000 MB", "17000 MB")
    assert told(parse_numactl(before + "after:\n" + after + TWO_NODES))[0][2] == 17000
    assert told(parse_numactl(TWO_NODES + after))[0][2] == 16000
    assert told(parse_numactl("node 1 free: 3 MB\n" + TWO_NODES))[1] == NODE_1


def test_none_complete_gives_the_fullest() -> None:
    short = "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\n"
    cut = TWO_NODES[: TWO_NODES.index("node 1 free")]
    assert told(parse_numactl(short + cut))[1] == (*NODE_1[:3], None, {})


@pytest.mark.parametrize("text", ["No NUMA available on this system\n", "No NUMA support available on this system.\n"])
def test_without_numa_there_is_one_node_of_which_nothing_is_known(text: str) -> None:
    record = parse_numactl("$ numactl -H\n" + text)
    assert told(record) == [(0, None, None, None, {})]
    assert list(gaps(record)) == ["numa_nodes[0]"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "policy: default\npreferred node: current\nphyscpubind: 0 1\ncpubind: 0\nnodebind: 0\nmembind: 0\n",
        "physcpubind: 0 1\nNo NUMA support available on this system.\n",
        "numactl: command not found\n",
        "NUMA node0 CPU(s): 0-3\n",
        "available: many nodes\n",
        "node 5000 cpus: 1\n",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_numactl(text, "some.txt")
    assert caught.value.source == "some.txt"


def test_gaps_name_the_source() -> None:
    assert {gap.source for gap in parse_numactl("available: 2 nodes (0-1)\n", "a.txt").gaps} == {"a.txt"}


@st.composite
def hosts(draw: st.DrawFn) -> list[NumactlNode]:
    """Draw nodes with any ids; each CPU on one node or none."""
    node_ids = sorted(draw(st.sets(st.integers(0, 300), min_size=1, max_size=12)))
    owners = draw(st.lists(st.sampled_from([*node_ids, None]), max_size=120))
    with_table = draw(st.booleans())
    sizes = st.one_of(st.none(), st.integers(0, 1 << 24).map(lambda megabytes: megabytes * MIB))
    return [
        NumactlNode(
            id=node,
            cpus=format_cpulist(cpu for cpu, owner in enumerate(owners) if owner == node),
            memory_bytes=draw(sizes),
            free_bytes=draw(sizes),
            distances={str(other): 10 if other == node else draw(st.integers(10, 255)) for other in node_ids}
            if with_table
            else {},
        )
        for node in node_ids
    ]


@given(hosts(), st.booleans())
def test_reads_back_what_numactl_writes(nodes: list[NumactlNode], compress: bool) -> None:
    record = parse_numactl(render_numactl(nodes, compress=compress))
    assert list(record.nodes) == nodes
    unknown = [node for node in nodes if None in (node.memory_bytes, node.free_bytes) or not node.distances]
    assert bool(record.gaps) == bool(unknown)


@given(hosts(), st.sampled_from(sorted(MANGLINGS)))
def test_mangled_output_gives_no_other_value(nodes: list[NumactlNode], mangling: str) -> None:
    try:
        record = parse_numactl(MANGLINGS[mangling](render_numactl(nodes)))
    except ParseError:
        return
    expected = {node.id: node for node in nodes}
    for node in record.nodes:
        for field in ("cpus", "memory_bytes", "free_bytes", "distances"):
            assert getattr(node, field) in (None, {}, getattr(expected[node.id], field)), field


WORDS = st.sampled_from(
    [
        *("available: 2 nodes (0-1)", "node 0 cpus:", "node 1 size: 5 MB", "node 1 free:", "node distances:", "node"),
        *("0:", " 10", "...", "\n", "0-3", "7", "  ", "> ", "99999999", "(3)", "\t", "x"),
        "No NUMA available on this system",
    ]
)


@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(WORDS, max_size=40).map(" ".join), st.lists(WORDS, max_size=40).map("".join)))
def test_any_text_gives_a_record_or_a_parse_error(text: str) -> None:
    try:
        record = parse_numactl(text)
    except ParseError:
        return
    assert record.nodes
    assert [node.id for node in record.nodes] == sorted({node.id for node in record.nodes})


SIZE = 50_000_000


@pytest.mark.parametrize(
    "text",
    [
        "lorem ipsum dolor sit amet, consectetur: 12 34\n" * (SIZE // 47),
        "node 0 cpus: 0 1 2 3\n" * (SIZE // 21),
        "node 0 cpus: " * (SIZE // 13),
        "node distances:\nnode" + " 1 2" * (SIZE // 4),
        "available: 1 nodes (" * (SIZE // 20),
        " " * SIZE,
        "\x1b[" * (SIZE // 2),
    ],
    ids=["noise", "same node", "one line", "table", "parentheses", "blanks", "escapes"],
)
@pytest.mark.fuzz
def test_a_large_text_takes_seconds(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_numactl(text)


def test_an_output_within_a_large_text_is_found() -> None:
    noise = "lorem ipsum dolor sit amet\n" * 200_000
    assert told(parse_numactl(noise + TWO_NODES + noise)) == [NODE_0, NODE_1]
