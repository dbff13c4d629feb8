"""The matrix of ``nvidia-smi topo -m``: every driver's columns, and what pasting does to them."""

import time
from collections.abc import Callable
from textwrap import dedent

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.topo_matrix import TopoGpu, TopoMatrix, TopoNic, parse_topo_matrix
from tests.support.render_topo import render_topo, square

TITLES = "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"
PAIR = f"\tGPU0\tGPU1\t{TITLES}\nGPU0\t X \tPHB\t0-7,16-23\t0\t\tN/A\nGPU1\tPHB\t X \t8-15,24-31\t1\t\tN/A\n"
FABRIC = dedent(
    """\
            GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      NV6     PIX     SYS     0-19,40-59      0               N/A
    GPU1    NV6      X      SYS     PIX     20-39,60-79     1               N/A
    NIC0    PIX     SYS      X      SYS
    NIC1    SYS     PIX     SYS      X

    Legend:

      X    = Self

    NIC Legend:

      NIC0: mlx5_2
      NIC1: rocep65s0f1
    """
)


def paths(matrix: TopoMatrix) -> dict[str, str]:
    return {f"{path.a}-{path.b}": path.kind for path in matrix.paths}


def near(matrix: TopoMatrix) -> list[tuple[str | None, tuple[int, ...], int | None]]:
    return [(gpu.cpus, gpu.numa_nodes, gpu.memory_numa_node) for gpu in matrix.gpus]


def gaps(matrix: TopoMatrix) -> dict[str, str]:
    return {gap.fact: gap.reason for gap in matrix.gaps}


def test_a_matrix_as_the_driver_prints_it() -> None:
    matrix = parse_topo_matrix(PAIR)
    assert matrix.gpus == (
        TopoGpu(label="GPU0", index=0, cpus="0-7,16-23", numa_nodes=(0,)),
        TopoGpu(label="GPU1", index=1, cpus="8-15,24-31", numa_nodes=(1,)),
    )
    assert paths(matrix) == {"GPU0-GPU1": "PHB"}
    assert matrix.nics == ()
    assert matrix.gaps == ()


def test_nics_take_their_names_from_the_legend() -> None:
    matrix = parse_topo_matrix(FABRIC)
    assert matrix.nics == (TopoNic(label="NIC0", name="mlx5_2"), TopoNic(label="NIC1", name="rocep65s0f1"))
    assert paths(matrix) == {
        "GPU0-GPU1": "NV6",
        "GPU0-NIC0": "PIX",
        "GPU0-NIC1": "SYS",
        "GPU1-NIC0": "SYS",
        "GPU1-NIC1": "PIX",
        "NIC0-NIC1": "SYS",
    }
    assert near(matrix) == [("0-19,40-59", (0,), None), ("20-39,60-79", (1,), None)]
    assert matrix.gaps == ()


# --- generations of the driver


def test_oldest_driver_says_soc_and_has_no_numa_column() -> None:
    text = dedent(
        """\
        \tGPU0\tGPU1\tmlx4_0\tCPU Affinity
        GPU0\t X \tSOC\tPHB\t0-3,4-7
        GPU1\tSOC\t X \tSOC\t8-15
        mlx4_0\tPHB\tSOC\t X
        """
    )
    matrix = parse_topo_matrix(text)
    assert paths(matrix) == {"GPU0-GPU1": "SYS", "GPU0-mlx4_0": "PHB", "GPU1-mlx4_0": "SYS"}
    assert near(matrix) == [("0-7", (), None), ("8-15", (), None)]
    assert matrix.nics == (TopoNic(label="mlx4_0", name="mlx4_0"),)
    assert gaps(matrix) == {"gpus[0].numa_node": "no such column", "gpus[1].numa_node": "no such column"}


def test_driver_450_has_a_numa_column_and_device_names() -> None:
    text = "\tGPU0\tmlx5_bond_0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNODE\t4-7\t1\nmlx5_bond_0\tNODE\t X \t\t\n"
    matrix = parse_topo_matrix(text)
    assert near(matrix) == [("4-7", (1,), None)]
    assert paths(matrix) == {"GPU0-mlx5_bond_0": "NODE"}


def test_driver_535_underlines_the_header_even_into_a_pipe() -> None:
    text = PAIR.replace("GPU0\tGPU1", "\x1b[4mGPU0\tGPU1").replace("ID\n", "ID\x1b[0m\n")
    assert parse_topo_matrix(text) == parse_topo_matrix(PAIR)


@pytest.mark.parametrize("escape", ["", "\ufffd"])
def test_underlining_whose_escape_was_lost(escape: str) -> None:
    text = PAIR.replace("\tGPU0\tGPU1", f"{escape}[4mGPU0\tGPU1").replace("ID\n", f"ID{escape}[0m\n")
    assert parse_topo_matrix(text) == parse_topo_matrix(PAIR)


def test_grace_gpus_memory_is_a_node_of_its_own() -> None:
    text = f"\tGPU0\tGPU1\t{TITLES}\nGPU0\t X \tNV18\t0-71\t0\t\t4\nGPU1\tNV18\t X \t72-143\t1\t\t12\n"
    assert near(parse_topo_matrix(text)) == [("0-71", (0,), 4), ("72-143", (1,), 12)]
    assert near(parse_topo_matrix(text.expandtabs())) == [("0-71", (0,), 4), ("72-143", (1,), 12)]


def test_pcie_only_matrix() -> None:
    assert paths(parse_topo_matrix(f"$ nvidia-smi topo -mp\n{PAIR}")) == {"GPU0-GPU1": "PHB"}


def test_a_column_of_a_later_driver_leaves_the_paths_alone() -> None:
    matrix = parse_topo_matrix(PAIR.replace("GPU NUMA ID", "GPU NUMA ID\tFabric Clique").replace("N/A", "N/A\tabc"))
    assert paths(matrix) == {"GPU0-GPU1": "PHB"}
    assert near(matrix) == [(None, (), None)] * 2
    assert "gpus[0].numa_node" in gaps(matrix)


def test_columns_are_found_by_name() -> None:
    text = "\tGPU0\tNUMA Affinity\tGPU NUMA ID\tCPU Affinity\nGPU0\t X \t1\t\t9\t4-7\n"
    assert near(parse_topo_matrix(text)) == [("4-7", (1,), 9)]


# --- cells that tell nothing


@pytest.mark.parametrize(
    ("tail", "told", "unknown"),
    [
        ("0-15\t\tN/A\t\tN/A", ("0-15", (), None), {"gpus[0].numa_node": "N/A"}),
        ("\t0\t\tN/A", (None, (0,), None), {"gpus[0].cpus": "blank"}),
        ("\t\t\tN/A", (None, (), None), {"gpus[0].cpus": "blank", "gpus[0].numa_node": "blank"}),
        ("\t\tN/A\t\tN/A", (None, (), None), {"gpus[0].cpus": "blank", "gpus[0].numa_node": "N/A"}),
        ("\t\t\t6", (None, (), 6), {"gpus[0].cpus": "blank", "gpus[0].numa_node": "blank"}),
        ("0-15\t\t\tN/A", ("0-15", (), None), {"gpus[0].numa_node": "blank"}),
        ("0-15\t0-1\t\tN/A", ("0-15", (0, 1), None), {}),
        ("0-15\t0,2-3\t\tN/A", ("0-15", (0, 2, 3), None), {}),
        ("5\t0\t\tN/A", ("5", (0,), None), {}),
        ("", (None, (), None), {"gpus[0].cpus": "blank", "gpus[0].numa_node": "blank"}),
    ],
)
@pytest.mark.parametrize("tab_width", [0, 8, 4])
def test_blanks_and_na(
    tail: str, told: tuple[str | None, tuple[int, ...], int | None], unknown: dict[str, str], tab_width: int
) -> None:
    text = f"\tGPU0\tGPU1\t{TITLES}\nGPU0\t X \tSYS\t{tail}\nGPU1\tSYS\t X \t{tail}\n"
    matrix = parse_topo_matrix(text.expandtabs(tab_width) if tab_width else text)
    assert near(matrix) == [told, told]
    assert {fact: reason for fact, reason in gaps(matrix).items() if fact.startswith("gpus[0]")} == unknown


def test_a_memory_node_that_does_not_exist_is_no_gap() -> None:
    assert not parse_topo_matrix(PAIR).gaps


@pytest.mark.parametrize("cell", ["-1", "0-", "7-3", "3,1", "0,0", "65536", "2000"])
def test_a_numa_cell_that_is_no_node_list(cell: str) -> None:
    matrix = parse_topo_matrix(PAIR.replace("\t0\t\t", f"\t{cell}\t\t"))
    assert near(matrix)[0] == ("0-7,16-23", (), None)
    assert "gpus[0].numa_node" in gaps(matrix)


def test_words_behind_a_row_make_its_affinity_unknown() -> None:
    matrix = parse_topo_matrix(f"\tGPU0\t{TITLES}\nGPU0\t X \t\t0\t\tN/A\t<- look here\n")
    assert near(matrix) == [(None, (), None)]
    assert gaps(matrix)["gpus[0].numa_node"].startswith("cells missing")


@pytest.mark.parametrize(
    ("cpus", "cut"),
    [
        ("0,2,4,6,8,10", True),
        ("1,9,17,25", False),
        ("16,24,32,40", True),
        ("0-27,56-83", False),
        ("112-127,240-255", False),
        ("0-1,4,6-7", False),
        ("0,2,4", False),
    ],
)
def test_a_list_that_may_go_on(cpus: str, cut: bool) -> None:
    matrix = parse_topo_matrix(f"\tGPU0\t{TITLES}\nGPU0\t X \t{cpus}\t0\t\tN/A\n")
    assert matrix.gpus == (TopoGpu(label="GPU0", index=0, cpus=cpus, cpus_cut=cut, numa_nodes=(0,)),)
    assert ("gpus[0].cpus" in gaps(matrix)) is cut


def test_cpu_lists_come_out_canonical() -> None:
    matrix = parse_topo_matrix(f"\tGPU0\t{TITLES}\nGPU0\t X \t0-0,1-3,8-8\t0\t\tN/A\n")
    assert matrix.gpus[0].cpus == "0-3,8"


# --- what pasting does


def test_expanded_tabs() -> None:
    assert parse_topo_matrix(PAIR.expandtabs()) == parse_topo_matrix(PAIR)


def test_tabs_expanded_to_four() -> None:
    assert parse_topo_matrix(PAIR.expandtabs(4)) == parse_topo_matrix(PAIR)


def test_folded_blanks_with_every_cell_told() -> None:
    text = "\n".join(" ".join(line.split()) for line in FABRIC.split("\n"))
    assert parse_topo_matrix(text) == parse_topo_matrix(FABRIC)


@pytest.mark.parametrize("tail", ["0-15 N/A", "0 N/A", "0 5", "0-15 0"])
def test_folded_blanks_with_a_cell_missing_tell_nothing(tail: str) -> None:
    matrix = parse_topo_matrix(
        f"GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X SYS {tail}\nGPU1 SYS X {tail}"
    )
    assert near(matrix) == [(None, (), None)] * 2
    assert paths(matrix) == {"GPU0-GPU1": "SYS"}
    assert gaps(matrix)["gpus[0].numa_node"] == "cells missing or cut off"


def test_folded_blanks_with_nothing_told() -> None:
    matrix = parse_topo_matrix("GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X PIX N/A\nGPU1 PIX X N/A\n")
    assert near(matrix) == [(None, (), None)] * 2
    assert gaps(matrix)["gpus[1].cpus"] == "N/A or blank"


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.lstrip(),
        lambda text: f"Some prose about GPU0 and GPU1.\n\n```\n{text}```\nMore prose: GPU0 X is fine\n",
        lambda text: "".join(f"> {line}\n" for line in text.split("\n")),
        lambda text: "".join(f"    {line}\n" for line in text.split("\n")),
        lambda text: "".join(f"2025-06-03 16:33:56.542[6724][DEBUG] x stdout {line}\n" for line in text.split("\n")),
        lambda text: "".join(f"(Worker pid={i}, ip=192.0.2.7) {line}\n" for i, line in enumerate(text.split("\n"))),
        lambda text: "".join(f"[rank0]: {line}\n" for line in text.split("\n")),
        lambda text: "".join(f"{line}\n\n" for line in text.split("\n")),
        lambda text: text.replace("NIC1    CPU", "NIC1CPU"),
        lambda text: text.replace("GPU1    NIC0", "GPU1NIC0").replace("NV6     PIX", "NV6PIX"),
        lambda text: text.replace("0               N/A", "0N/A"),
        lambda text: text.replace("SYS     0-19", "SYS0-19"),
        lambda text: text + PAIR,
        lambda text: text.replace("Affinity   GPU NUMA ID", "Affini\nty   GPU NUMA ID"),
        lambda text: text.replace("NIC1    CPU", "NI\nC1      CPU"),
        lambda text: text.replace("CPU Affinity    NUMA", "CPU Affinity\nNUMA"),
        lambda text: text.replace("       N/A\nGPU1", "       N/A\nINFO 12:00:01 something else\nGPU1"),
    ],
)
def test_mangled(mangle: Callable[[str], str]) -> None:
    matrix = parse_topo_matrix(mangle(FABRIC))
    assert matrix == parse_topo_matrix(FABRIC)


def wrap(text: str, width: int) -> str:
    lines = [line[i : i + width].rstrip() for line in text.split("\n") for i in range(0, max(len(line), 1), width)]
    return "\n".join(lines)


@pytest.mark.parametrize("width", [50, 54, 60, 63, 66, 70, 72, 75])
def test_header_and_rows_wrapped_at_a_terminals_edge(width: int) -> None:
    matrix = parse_topo_matrix(wrap(FABRIC, width))
    assert matrix.paths == parse_topo_matrix(FABRIC).paths
    for wrapped, whole in zip(matrix.gpus, parse_topo_matrix(FABRIC).gpus, strict=True):
        assert wrapped.cpus in (whole.cpus, None)
        assert wrapped.numa_nodes in (whole.numa_nodes, ())
    assert matrix.nics == parse_topo_matrix(FABRIC).nics


def test_a_number_that_met_the_edge_is_not_two() -> None:
    text = (
        "        GPU0    GPU1    CPU Affinity    NUMA Affin\nity   GPU NUMA ID\n"
        "GPU0     X      PIX     0-1\n27    0               N/A\n"
        "GPU1    PIX      X      128-255\n1               N/A\n"
    )
    assert near(parse_topo_matrix(text)) == [("0-127", (0,), None), ("128-255", (1,), None)]


@pytest.mark.parametrize(
    ("row", "fused"),
    [
        ("0-19,40-59      0               N/A", "0-19,40-590               N/A"),
        ("0-19,40-59      0               N/A", "0-19,40-59      0"),
        ("0-19,40-59      0               N/A", "0-19,40-590N/A"),
        ("SYS     0-19,40-59      0               N/A", "SYS     0-19,40"),
    ],
)
def test_fused_numbers_are_unknown(row: str, fused: str) -> None:
    matrix = parse_topo_matrix(FABRIC.replace(row, fused))
    assert near(matrix) == [(None, (), None), ("20-39,60-79", (1,), None)]
    assert matrix.paths == parse_topo_matrix(FABRIC).paths


def test_nvlinks_fused_with_cpus_are_unknown() -> None:
    matrix = parse_topo_matrix("GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X NV120-31 0\nGPU1 NV12 X 0-31 0\n")
    assert near(matrix) == [(None, (), None), ("0-31", (0,), None)]
    assert matrix.paths == ()


def test_a_markdown_table() -> None:
    text = dedent(
        """\
        | | GPU0 | GPU1 | CPU Affinity | NUMA Affinity | GPU NUMA ID |
        |---|---|---|---|---|---|
        | GPU0 | X | NODE | 0-7 | 0 | N/A |
        | GPU1 | NODE | X | 0-7 | 0 | N/A |
        """
    )
    matrix = parse_topo_matrix(text)
    assert near(matrix) == [("0-7", (0,), None)] * 2
    assert paths(matrix) == {"GPU0-GPU1": "NODE"}


# --- what is cut off


def test_rows_missing_at_the_end() -> None:
    matrix = parse_topo_matrix("\n".join(FABRIC.split("\n")[:2]))
    assert paths(matrix) == {"GPU0-GPU1": "NV6", "GPU0-NIC0": "PIX", "GPU0-NIC1": "SYS"}
    assert near(matrix) == [("0-19,40-59", (0,), None), (None, (), None)]
    assert gaps(matrix)["gpus[1]"] == gaps(matrix)["gpus[1].numa_node"] == gaps(matrix)["nics[0]"] == "row missing"
    assert gaps(matrix)["nics[1].name"] == "not in a NIC legend"


@pytest.mark.parametrize("end", range(len(FABRIC.split("Legend")[0])))
def test_a_cut_text_never_tells_what_the_whole_one_does_not(end: int) -> None:
    whole = parse_topo_matrix(FABRIC)
    try:
        matrix = parse_topo_matrix(FABRIC[:end])
    except ParseError:
        return
    assert paths(matrix).items() <= paths(whole).items()
    for part, full in zip(matrix.gpus, whole.gpus, strict=False):
        assert part.cpus in (full.cpus, None)
        assert part.numa_nodes in (full.numa_nodes, ())
    assert len(matrix.gaps) > 0


@pytest.mark.parametrize("start", range(len(FABRIC.split("\n")[0]) + 1))
def test_a_header_without_its_head_never_tells_what_the_whole_one_does_not(start: int) -> None:
    whole = parse_topo_matrix(FABRIC)
    matrix = parse_topo_matrix(FABRIC[start:])
    assert [gpu.label for gpu in matrix.gpus] == ["GPU0", "GPU1"]
    assert matrix.paths == whole.paths
    for part, full in zip(matrix.gpus, whole.gpus, strict=False):
        assert part.cpus in (full.cpus, None)
        assert part.numa_nodes in (full.numa_nodes, ())


@pytest.mark.parametrize("width", range(14, len(FABRIC.split("\n")[0])))
def test_lines_cropped_at_a_width_never_tell_what_the_whole_ones_do_not(width: int) -> None:
    whole = parse_topo_matrix(FABRIC)
    try:
        matrix = parse_topo_matrix("\n".join(line[:width] for line in FABRIC.split("\n")))
    except ParseError:
        return
    assert paths(matrix).items() <= paths(whole).items()
    for part, full in zip(matrix.gpus, whole.gpus, strict=False):
        assert part.cpus in (full.cpus, None)
        assert part.numa_nodes in (full.numa_nodes, ())


def test_no_header_at_all() -> None:
    matrix = parse_topo_matrix(FABRIC.split("\n", 1)[1])
    assert matrix.paths == parse_topo_matrix(FABRIC).paths
    assert near(matrix) == [(None, (), None)] * 2
    assert gaps(matrix)["gpus[0].numa_node"] == "header cut off"


def test_the_first_complete_matrix_counts() -> None:
    partial = "\n".join(FABRIC.split("\n")[:3])
    assert parse_topo_matrix(f"{partial}\n\nagain:\n{PAIR}") == parse_topo_matrix(PAIR)
    assert parse_topo_matrix(f"{PAIR}\n{FABRIC}") == parse_topo_matrix(PAIR)
    assert len(parse_topo_matrix(f"{partial}\n\n{partial}").gpus) == 2


# --- what contradicts itself


def test_directions_that_disagree_are_no_path() -> None:
    matrix = parse_topo_matrix(FABRIC.replace("GPU1    NV6", "GPU1    NV5"))
    assert "GPU0-GPU1" not in paths(matrix)
    assert gaps(matrix) == {"paths[GPU0,GPU1]": "the two rows say NV6/NV5"}
    assert len(matrix.paths) == 5


def test_an_unknown_link_is_no_path() -> None:
    matrix = parse_topo_matrix(FABRIC.replace("NV6 ", "XGMI"))
    assert gaps(matrix) == {"paths[GPU0,GPU1]": "the two rows say XGMI/XGMI"}
    assert len(matrix.paths) == 5


def test_a_row_whose_diagonal_is_elsewhere_is_not_read() -> None:
    matrix = parse_topo_matrix(PAIR.replace("GPU1\tPHB\t X ", "GPU1\t X \tPHB"))
    assert gaps(matrix)["gpus[1]"] == "row does not fit the header"
    assert near(matrix)[1] == (None, (), None)
    assert paths(matrix) == {"GPU0-GPU1": "PHB"}


def test_a_row_with_a_cell_too_many_or_too_few_is_not_read() -> None:
    for cells in ("PHB\t X \tPHB", "PHB", " X "):
        matrix = parse_topo_matrix(PAIR.replace("GPU1\tPHB\t X ", f"GPU1\t{cells}"))
        assert near(matrix)[1] == (None, (), None)


def test_a_legend_that_contradicts_itself_names_nothing() -> None:
    matrix = parse_topo_matrix(FABRIC + "  NIC0: mlx5_9\n")
    assert [nic.name for nic in matrix.nics] == [None, "rocep65s0f1"]
    assert gaps(matrix) == {"nics[0].name": "the legend gives it several names"}


@pytest.mark.parametrize(("last", "name"), [("mlx5_3", "mlx5_3"), ("mlx5_1", None), ("mlx5_bond_0", "mlx5_bond_0")])
def test_a_legend_that_ends_within_a_name(last: str, name: str | None) -> None:
    matrix = parse_topo_matrix(FABRIC.replace("rocep65s0f1\n", last))
    assert matrix.nics == (TopoNic(label="NIC0", name="mlx5_2"), TopoNic(label="NIC1", name=name))


def test_a_legend_amid_wide_blanks() -> None:
    legend = "NIC Legend:\n" + " " * 90 + "\n  NIC0: mlx5_2" + " " * 90 + "NIC1: rocep65s0f1" + " " * 90 + "\n"
    assert parse_topo_matrix(FABRIC.split("NIC Legend")[0] + legend) == parse_topo_matrix(FABRIC)


# --- what is no matrix


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no nvidia-smi topo -m matrix"),
        ("GPU0 and GPU1 are joined by NVLink.\nGPU0 X\n", "no nvidia-smi topo -m matrix"),
        ("GPU Topology:\nCould not collect\n", "not collected"),
        ("GPU Topology:\n(x pid=1, ip=192.0.2.1)   Could not collect\n", "not collected"),
        ("\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n\n  X    = Self\n", "not of links"),
        ("\tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n", "not of links"),
        ("\tGPU0\n GPU0\tX\n", "no nvidia-smi topo -m matrix"),
        ("       GPU0         GPU1\nGPU0   0            XGMI\nGPU1   XGMI         0\n", "no nvidia-smi topo -m matrix"),
        ("       GPU0         GPU1\nGPU0   0            15\nGPU1   15           0\n", "no nvidia-smi topo -m matrix"),
        (f"\tGPU0\tGPU1\t{TITLES}\n", "no nvidia-smi topo -m matrix"),
        (f"\tGPU0\tGPU1\t{TITLES}\nNo devices were found\n", "no nvidia-smi topo -m matrix"),
    ],
)
def test_no_matrix(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_topo_matrix(text)


def test_a_matrix_behind_peer_to_peer_states() -> None:
    states = "\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\n"
    assert parse_topo_matrix(states * 5 + PAIR) == parse_topo_matrix(PAIR)


def test_links_without_affinity_columns() -> None:
    matrix = parse_topo_matrix("\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n")
    assert paths(matrix) == {"GPU0-GPU1": "NV2"}
    assert gaps(matrix)["gpus[0].cpus"] == "no such column"


def test_errors_and_gaps_name_their_source() -> None:
    with pytest.raises(ParseError, match=r"^a paste, line 2: .*'Could not collect'$"):
        parse_topo_matrix("GPU Topology:\nCould not collect\n", source="a paste")
    assert {gap.source for gap in parse_topo_matrix(FABRIC[:300], source="a paste").gaps} == {"a paste"}


# --- properties


def parses(text: str) -> TopoMatrix | None:
    try:
        return parse_topo_matrix(text)
    except ParseError:
        return None


WORDS = st.sampled_from(
    [
        "GPU0",
        "GPU1",
        "NIC0",
        "mlx5_0",
        "GPU",
        "CPU Affinity",
        "NUMA Affinity",
        "GPU NUMA ID",
        "X",
        "SYS",
        "NV18",
        "PIX",
        "OK",
        "0-3",
        "0",
        "N/A",
        "0-3,8",
        "|",
        "Legend:",
        "NIC Legend:",
        "NIC0:",
        "\t",
        " ",
        "\t\t",
        "\n",
        "\n\n",
    ]
)


@given(st.text() | st.lists(WORDS, max_size=60).map(" ".join) | st.lists(WORDS, max_size=60).map("\t".join))
def test_any_text_is_a_matrix_or_an_error(text: str) -> None:
    parses(text)


@given(st.text(max_size=6), st.integers(0, len(FABRIC)), st.integers(0, 6))
def test_a_damaged_matrix_is_read_or_refused(text: str, at: int, dropped: int) -> None:
    matrix = parses(FABRIC[:at] + text + FABRIC[at + dropped :])
    assert matrix is None or msgspec.json.decode(msgspec.json.encode(matrix), type=TopoMatrix) == matrix


@st.composite
def cpu_lists(draw: st.DrawFn) -> str:
    width, start, siblings = draw(st.integers(1, 64)), draw(st.integers(0, 100)), draw(st.booleans())
    first = f"{start}-{start + width}"
    return f"{first},{start + 200}-{start + 200 + width}" if siblings else first


@st.composite
def matrices(draw: st.DrawFn, *, told: bool = False, device_names: bool = False) -> TopoMatrix:
    count, adapters = draw(st.integers(1, 9)), draw(st.integers(0, 12))
    missing = st.nothing() if told else st.none()
    gpus = tuple(
        TopoGpu(
            label=f"GPU{i}",
            index=i,
            cpus=draw(cpu_lists() | missing),
            numa_nodes=draw(st.sampled_from([(0,), (1,), (13,), (0, 1), (4, 5, 6)] + ([] if told else [()]))),
            memory_numa_node=draw(st.none() | st.integers(2, 34)),
        )
        for i in range(count)
    )
    names = [f"mlx5_{i}" for i in range(adapters)]
    nics = tuple(TopoNic(label=name if device_names else f"NIC{i}", name=name) for i, name in enumerate(names))
    labels = [gpu.label for gpu in gpus] + [nic.label for nic in nics]
    pairs = len(labels) * (len(labels) - 1) // 2
    kinds = draw(
        st.lists(st.sampled_from(["NV1", "NV18", "SYS", "NODE", "PHB", "PXB", "PIX"]), min_size=pairs, max_size=pairs)
    )
    return TopoMatrix(gpus=gpus, nics=nics, paths=square(labels, kinds))


def same(read: TopoMatrix, drawn: TopoMatrix) -> bool:
    unknown = {f"gpus[{i}].cpus" for i, gpu in enumerate(drawn.gpus) if gpu.cpus is None}
    unknown |= {f"gpus[{i}].numa_node" for i, gpu in enumerate(drawn.gpus) if not gpu.numa_nodes}
    return msgspec.structs.replace(read, gaps=()) == drawn and {gap.fact for gap in read.gaps} == unknown


@given(matrices(), st.booleans(), st.booleans(), st.sampled_from([0, 8]))
def test_round_trip(matrix: TopoMatrix, underlined: bool, soc: bool, tab_width: int) -> None:
    assert same(parse_topo_matrix(render_topo(matrix, underlined=underlined, soc=soc, tab_width=tab_width)), matrix)


@given(matrices(device_names=True), st.booleans(), st.sampled_from([0, 8]))
def test_round_trip_without_the_newer_columns(matrix: TopoMatrix, numa: bool, tab_width: int) -> None:
    text = render_topo(
        matrix, numa=numa, memory=False, underlined=False, soc=not numa, tab_width=tab_width if numa else 0
    )
    gpus = [msgspec.structs.replace(gpu, memory_numa_node=None) for gpu in matrix.gpus]
    gpus = gpus if numa else [msgspec.structs.replace(gpu, numa_nodes=()) for gpu in gpus]
    assert same(parse_topo_matrix(text), msgspec.structs.replace(matrix, gpus=tuple(gpus)))


@given(matrices(told=True))
def test_round_trip_with_folded_blanks(matrix: TopoMatrix) -> None:
    text = "\n".join(f"x y] {' '.join(line.split())}" for line in render_topo(matrix).split("\n"))
    assert same(parse_topo_matrix(text), matrix)


@given(matrices(told=True), st.integers(60, 130))
def test_wrapping_loses_at_most_affinity(matrix: TopoMatrix, width: int) -> None:
    read = parses(wrap(render_topo(matrix, underlined=False, tab_width=8), width))
    if read is None:
        return
    assert set(read.paths) <= set(matrix.paths)
    for part, full in zip(read.gpus, matrix.gpus, strict=False):
        assert part.cpus in (full.cpus, None)
        assert part.numa_nodes in (full.numa_nodes, ())
        assert part.memory_numa_node in (full.memory_numa_node, None)


# --- hostile sizes

MEGABYTES = 50


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "unit",
    [
        "nothing to see here, move along\n",
        "GPU0 is busy at step 123 mlx5_0\n",
        "GPU0 GPU1 CPU Affinity\n",
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-9\n",
        "GPU0 X SYS\n",
        "GPU0",
        "GPU0 ",
        "GPU0 GPU1 NIC0 NUMA Aff\n0-1 0\n0-1 0\n0-1 0\n",
        "GPU0 GPU1 " * 750 + "\n",
        " ".join(f"GPU{i}" for i in range(250)) + " CPU Affinity\nGPU0 X " + "NV1 " * 249 + "\n\n\n",
    ],
)
def test_fifty_megabytes_take_seconds(unit: str) -> None:
    text = unit * (MEGABYTES * 1_000_000 // len(unit))
    start = time.process_time()
    parses(text)
    assert time.process_time() - start < 20
