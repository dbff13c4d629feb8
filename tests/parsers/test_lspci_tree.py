"""The tree of ``lspci -t``: made-up machines drawn as pciutils draws them, whole, mangled, cut and hostile."""

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.lspci_tree import LspciTree, parse_lspci_tree
from tests.support.mangle import MANGLINGS
from tests.support.render_lspci import Root, expected_tree, machines, render_tree

STYLES = st.sampled_from(["", "v", "vn", "vnn"])
SWITCH = r"""
-+-[0000:15]-+-00.0  Intel Corporation Sky Lake-E MM/Vt-d Configuration Registers
 |           \-01.0-[17-1b]----00.0-[18-1b]--+-00.0-[19]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
 |                                           +-04.0-[1a]--+-00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
 |                                           |            \-00.1  Mellanox Technologies MT2910 Family [ConnectX-7]
 |                                           \-08.0-[1b]--
 \-[0000:00]-+-00.0  Intel Corporation Sky Lake-E DMI3 Registers
             \-1c.0-[01]----00.0  Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO
""".lstrip("\n")
ROOT_PORT, UPSTREAM_PORT = "0000:15:01.0", "0000:17:00.0"


def upstream(tree: LspciTree) -> dict[str, tuple[str, ...]]:
    return {function.bdf: function.upstream for function in tree.functions}


def reasons(tree: LspciTree) -> str:
    return "; ".join(gap.reason for gap in tree.gaps)


def test_a_switch_with_a_gpu_and_a_nic() -> None:
    tree = parse_lspci_tree(SWITCH)
    assert tree.gaps == ()
    assert upstream(tree)["0000:19:00.0"] == (ROOT_PORT, UPSTREAM_PORT, "0000:18:00.0")
    assert upstream(tree)["0000:1a:00.1"] == (ROOT_PORT, UPSTREAM_PORT, "0000:18:04.0")
    assert upstream(tree)["0000:01:00.0"] == ("0000:00:1c.0",)
    assert upstream(tree)["0000:15:00.0"] == ()
    by_bdf = {function.bdf: function for function in tree.functions}
    assert by_bdf["0000:19:00.0"].name == "NVIDIA Corporation GH100 [H100 SXM5 80GB]"
    assert {by_bdf[bdf].root_complex for bdf in ("0000:15:01.0", "0000:19:00.0")} == {"0000:15"}
    assert [function.bdf for function in tree.functions if function.is_bridge] == [
        ROOT_PORT,
        UPSTREAM_PORT,
        "0000:18:00.0",
        "0000:18:04.0",
        "0000:18:08.0",
        "0000:00:1c.0",
    ]


@given(machines(), STYLES)
def test_reads_back_what_was_drawn(roots: list[Root], style: str) -> None:
    tree = parse_lspci_tree(render_tree(roots, style))
    assert tree.functions == expected_tree(roots, style)
    assert tree.gaps == ()


@pytest.mark.parametrize("mangling", [name for name in MANGLINGS if name != "on one line"])
@settings(max_examples=25)
@given(machines(), STYLES)
def test_mangled_trees_give_no_wrong_place(mangling: str, roots: list[Root], style: str) -> None:
    expected = {function.bdf: (function.upstream, function.root_complex) for function in expected_tree(roots, style)}
    try:
        tree = parse_lspci_tree(MANGLINGS[mangling](render_tree(roots, style)))
    except ParseError:
        assert not expected
        return
    found = {function.bdf: (function.upstream, function.root_complex) for function in tree.functions}
    assert {bdf: place for bdf, place in found.items() if expected.get(bdf) != place} == {}
    assert len(found) == len(expected) or tree.gaps


@given(machines(), STYLES, st.data())
def test_cut_trees_give_no_wrong_place(roots: list[Root], style: str, data: st.DataObject) -> None:
    lines = render_tree(roots, style).splitlines()
    first = data.draw(st.integers(0, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    width = data.draw(st.sampled_from([300, 60, 30]))
    expected = {function.bdf: (function.upstream, function.root_complex) for function in expected_tree(roots, style)}
    try:
        tree = parse_lspci_tree("\n".join(line[:width] for line in lines[first:last]))
    except ParseError:
        return
    found = {function.bdf: (function.upstream, function.root_complex) for function in tree.functions}
    assert {bdf: place for bdf, place in found.items() if expected.get(bdf) != place} == {}


@given(machines(), st.data())
def test_what_was_elided_is_not_guessed(roots: list[Root], data: st.DataObject) -> None:
    lines = render_tree(roots, "v").splitlines()
    first = data.draw(st.integers(0, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    expected = {function.bdf: function.upstream for function in expected_tree(roots, "v")}
    try:
        tree = parse_lspci_tree("\n".join([*lines[:first], "[...]", *lines[last:]]))
    except ParseError:
        return
    assert upstream(tree).items() <= expected.items()


@given(st.text() | st.text(alphabet="-+\\|[]0123456789abcdef:. \n\t>"))
def test_any_text_is_a_tree_or_an_error(text: str) -> None:
    with contextlib.suppress(ParseError):
        assert isinstance(parse_lspci_tree(text), LspciTree)


@given(machines(), st.data())
def test_any_damage_is_a_tree_or_an_error(roots: list[Root], data: st.DataObject) -> None:
    text = list(render_tree(roots, "vnn"))
    for _ in range(data.draw(st.integers(1, 20))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from("-+\\|[]0f:. \n"))
    with contextlib.suppress(ParseError):
        parse_lspci_tree("".join(text))


def test_old_pciutils_without_domains() -> None:
    tree = parse_lspci_tree("-[00]-+-00.0\n      +-01.0-[01]----00.0\n      \\-1e.0-[02-03]----0c.0\n")
    assert upstream(tree)["0000:01:00.0"] == ("0000:00:01.0",)
    assert upstream(tree)["0000:02:0c.0"] == ("0000:00:1e.0",)
    assert tree.gaps == ()


def test_an_old_tree_without_devices() -> None:
    assert parse_lspci_tree("-[00]-\n") == LspciTree(functions=())


@pytest.mark.parametrize("end", ["", "-", "---", "----0", "----00", "-[", "[01"])
def test_a_line_cut_on_the_right_is_a_gap(end: str) -> None:
    tree = parse_lspci_tree(f"-[0000:00]-+-01.0-[01]--\n           \\-02.0-[02]{end}\n")
    assert upstream(tree)["0000:00:02.0"] == ()
    assert "cut short" in reasons(tree)


def test_domains_inside_the_bridges_brackets() -> None:
    tree = parse_lspci_tree("-[0000:00]-+-00.0\n           \\-1c.0-[0000:02-03]----00.0  Broadcom BCM5761\n")
    assert upstream(tree)["0000:02:00.0"] == ("0000:00:1c.0",)


def test_a_domain_above_sixteen_bits() -> None:
    tree = parse_lspci_tree("-+-[10000:e0]---02.0-[e1]----00.0  Intel Corporation NVMe\n \\-[0000:00]-\n")
    assert upstream(tree)["10000:e1:00.0"] == ("10000:e0:02.0",)
    assert tree.functions[0].root_complex == "10000:e0"


def test_ids_with_names_and_alone() -> None:
    (named,) = parse_lspci_tree("-[0000:00]---00.0  NVIDIA Corporation GH100 [H100] [10de:2330]\n").functions
    assert (named.name, named.vendor_id, named.device_id) == ("NVIDIA Corporation GH100 [H100]", "10de", "2330")
    (bare,) = parse_lspci_tree("-[0000:00]---00.0  10de:2330\n").functions
    assert (bare.name, bare.vendor_id, bare.device_id) == (None, "10de", "2330")


def test_a_bus_whose_bridge_is_not_shown() -> None:
    tree = parse_lspci_tree(
        "-[0000:5d]---02.0-[5e-60]----00.0-[5f-60]--+-[0000:5f]-\n"
        "                                           \\-[0000:60]---00.0  Intel Corporation X722\n"
    )
    assert upstream(tree)["0000:60:00.0"] == ("0000:5d:02.0", "0000:5e:00.0")
    assert [gap.fact for gap in tree.gaps] == ["pci_devices[0000:60:00.0].upstream"]


def test_unconfigured_bridges_are_bridges() -> None:
    tree = parse_lspci_tree("-[0000:00]-+-01.0-[00]--\n           \\-02.0\n")
    assert [(function.bdf, function.is_bridge) for function in tree.functions] == [
        ("0000:00:01.0", True),
        ("0000:00:02.0", False),
    ]


@pytest.mark.parametrize(
    ("lines", "missing", "reason"),
    [
        (["-[0000:00]-+-01.0-[05-06]----00.0-[09]----00.0  X", "           \\-02.0"], "0000:09:00.0", "outside"),
        (["-[0000:00]-+-01.0-[02]----00.0", "           \\-02.0-[02]----00.0  X"], "0000:02:00.1", "outside"),
        (["-[0000:00]-+-1f.0", "           \\-01.0  X"], "0000:00:01.0", "backwards"),
        (["-[0000:00]-+-01.0", "                        \\-02.0  X"], "0000:00:02.0", "cannot be told"),
        (["-[0000:00]-+-01.0-[01]--+-00.0", "\\-00.1", "+-02.0"], "0000:00:02.0", "cannot be told"),
        (["-+-[0000:00]---01.0-[30]----00.0", " \\-[0000:20]---00.0"], "0000:30:00.0", "two different roots"),
    ],
)
def test_contradictions_are_left_out(lines: list[str], missing: str, reason: str) -> None:
    tree = parse_lspci_tree("\n".join(lines) + "\n")
    assert missing not in upstream(tree)
    assert reason in reasons(tree)


def test_columns_shifted_by_lost_blanks() -> None:
    lines = SWITCH.splitlines()
    shifted = "\n".join(line.replace("           ", "  ") for line in lines)
    assert upstream(parse_lspci_tree(shifted)) == upstream(parse_lspci_tree(SWITCH))


def test_bars_that_were_lost_are_not_guessed() -> None:
    tree = parse_lspci_tree(SWITCH.replace("|", " "))
    assert upstream(tree).items() <= upstream(parse_lspci_tree(SWITCH)).items()
    assert "cannot be told" in reasons(tree)


def test_backslashes_that_markdown_swallowed() -> None:
    assert upstream(parse_lspci_tree(SWITCH.replace("\\-", "-"))) == upstream(parse_lspci_tree(SWITCH))


def test_a_function_shown_below_two_bridges_is_dropped() -> None:
    other = "-[0000:00]---02.0-[01]----00.0\n"
    tree = parse_lspci_tree("-[0000:00]---01.0-[01]----00.0\n" + other)
    assert "0000:01:00.0" not in upstream(tree)


def test_a_head_that_was_cut_off() -> None:
    lines = SWITCH.splitlines()
    tree = parse_lspci_tree("\n".join(lines[3:]))
    assert {function.root_complex for function in tree.functions} == {"0000:00"}
    with pytest.raises(ParseError, match="root bus is cut off") as caught:
        parse_lspci_tree("\n".join(lines[1:5]))
    assert caught.value.line == 1


@pytest.mark.parametrize(
    "text", ["", "\n\n", "hello", "GPU0 X", "00:00.0 Host bridge: Intel Corporation\n", "+---+\n|a|\n"]
)
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(ParseError, match="no tree"):
        parse_lspci_tree(text)


@pytest.mark.parametrize(
    "text",
    [
        "-[0000:00]-+-00.0\n" + "+-\n" * 700_000,
        "-[0000:00]-+-" + "00.0-[01]--+-" * 200_000,
        "-[0000:00]-+-00.0\n" + "           +-01.0-[01]--+-00.0\n" * 70_000,
        "-[0000:00]-+-00.0\n" + (" " * 900 + "|\n") * 2000,
        " |" * 1_000_000 + "+-00.0",
    ],
)
def test_hostile_texts_are_quick(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(ParseError):
        parse_lspci_tree(text)
    assert time.process_time() - start < 10
