"""lspci's lists: made-up functions printed as pciutils prints them, whole, mangled, cut and hostile."""

import contextlib
import re
import time

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.facts import Link
from hostdoctor.parsers.lspci import LspciFunction, LspciListing, parse_lspci, root_complex, upstream_from_buses
from tests.support.mangle import MANGLINGS
from tests.support.render_lspci import Root, expected_tree, listings, machines, render_list

GPU = """
41:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:16c1]
\tPhysical Slot: 7-1
\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ Stepping- SERR+ FastB2B- DisINTx+
\tStatus: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-
\tInterrupt: pin A routed to IRQ 18
\tNUMA node: 1
\tIOMMU group: 65
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\t\tClockPM+ Surprise- LLActRep- BwNot- ASPMOptComp+
\t\tLnkCtl:\tASPM Disabled; RCB 128 bytes, Disabled- CommClk+
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-
\t\tLnkCap2: Supported Link Speeds: 2.5-32GT/s, Crosslink- Retimer+ 2Retimers+ DRS-
\t\tLnkSta2: Current De-emphasis Level: -6dB, EqualizationComplete+ EqualizationPhase1+
\tKernel driver in use: nvidia
\tKernel modules: nvidia_drm, nouveau
""".lstrip("\n")
ADDRESS = re.compile(r"[0-9a-f:]{4,}\.[0-7] ")


def one(text: str) -> LspciFunction:
    (function,) = parse_lspci(text).functions
    return function


def linked(capability: str, status: str) -> LspciListing:
    return parse_lspci(f"41:00.0 3D controller: X\n\tLnkCap:\tPort #0, {capability}\n\tLnkSta:\t{status}\n\t\tTrErr-\n")


def as_named(function: LspciFunction, ids: bool) -> LspciFunction:
    return function if ids else msgspec.structs.replace(function, vendor_id=None, device_id=None, class_code=None)


def test_a_gpu_in_full() -> None:
    assert parse_lspci(GPU) == LspciListing(
        functions=(
            LspciFunction(
                bdf="0000:41:00.0",
                name="NVIDIA Corporation GH100 [H100 SXM5 80GB]",
                vendor_id="10de",
                device_id="2330",
                class_code="0302",
                class_name="3D controller",
                numa_node=1,
                link=Link(width_lanes=8, max_width_lanes=16, speed_gts=2.5, max_speed_gts=32.0),
                driver="nvidia",
                iommu_group=65,
                physical_slot="7-1",
                port_type="Endpoint",
            ),
        )
    )


@given(listings(), st.booleans(), st.booleans())
def test_reads_back_what_was_printed(functions: list[LspciFunction], ids: bool, hex_dump: bool) -> None:
    listing = parse_lspci(render_list(functions, ids=ids, hex_dump=hex_dump))
    assert listing.functions == tuple(as_named(function, ids) for function in functions)


@pytest.mark.parametrize("mangling", [name for name in MANGLINGS if name != "on one line"])
@settings(max_examples=25)
@given(listings(), st.booleans())
def test_mangled_lists_give_no_other_link_or_node(mangling: str, functions: list[LspciFunction], ids: bool) -> None:
    expected = {function.bdf: function for function in functions}
    for found in parse_lspci(MANGLINGS[mangling](render_list(functions, ids=ids))).functions:
        assert found.numa_node == expected[found.bdf].numa_node
        assert found.link == expected[found.bdf].link
        assert found.denied == expected[found.bdf].denied


@given(listings(), st.data())
def test_cut_lists_give_no_other_link(functions: list[LspciFunction], data: st.DataObject) -> None:
    text = render_list(functions)
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, len(text)))
    cut = first > 0 and text[first - 1] != "\n"
    assume(not (cut and ADDRESS.match(text, first)))  # without its domain an address is another function's
    expected = {function.bdf: function.link for function in functions}
    try:
        listing = parse_lspci(text[first:last])
    except ParseError:
        return
    for found in listing.functions:
        for field in Link.__struct_fields__:
            assert getattr(found.link, field) in {None, getattr(expected.get(found.bdf, Link()), field)}


@given(st.text() | st.text(alphabet="0123456789abcdef:. \n\tLnkSta:CpSpeedWidthx[]()"))
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    with contextlib.suppress(ParseError):
        assert parse_lspci(text).functions


@given(listings(), st.data())
def test_any_damage_is_a_list_or_an_error(functions: list[LspciFunction], data: st.DataObject) -> None:
    text = list(render_list(functions, ids=True))
    for _ in range(data.draw(st.integers(1, 20))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from("[]():. \n\t0f"))
    with contextlib.suppress(ParseError):
        parse_lspci("".join(text))


HEADERS = {
    "01:00.0 0302: 10de:2330 (rev a1)": (None, "10de", "2330", "0302", None),
    "01:00.0 Class 0604: Device 10b5:9716 (rev aa)": (None, "10b5", "9716", "0604", None),
    "01:00.0 Memory controller [0508]: Device [1e0f:0001] (prog-if 02 [X])": (
        *(None, "1e0f", "0001", "050802", "Memory controller"),
    ),
    "01:00.0 VGA compatible controller: NVIDIA Corporation Device 2b85 (rev a1)": (
        *("NVIDIA Corporation Device 2b85", None, None, None, "VGA compatible controller"),
    ),
    "01:00.0 Unassigned class [ff00]: Red Hat, Inc. Device 1110": (
        *("Red Hat, Inc. Device 1110", None, None, "ff00", "Unassigned class"),
    ),
    "01:00.0 PCI bridge [0604]: AMD GPP Bridge [6:0] [1022:15d3] (rev ff) (prog-if ff)": (
        *("AMD GPP Bridge [6:0]", "1022", "15d3", "0604", "PCI bridge"),
    ),
    "01:00.0 FireWire (IEEE 1394): Texas Instruments XIO2213A (Low Power) [OHCI]": (
        *("Texas Instruments XIO2213A (Low Power) [OHCI]", None, None, None, "FireWire (IEEE 1394)"),
    ),
}


@pytest.mark.parametrize("line", HEADERS)
def test_headers(line: str) -> None:
    function = one(line + "\n")
    told = (function.name, function.vendor_id, function.device_id, function.class_code, function.class_name)
    assert told == HEADERS[line]


def test_domains() -> None:
    text = "10000:e1:00.0 Mass storage controller: X\n0008:01:00.0 3D controller: Y\nC1:00.0 3D controller: Z\n"
    assert [function.bdf for function in parse_lspci(text).functions] == [
        "10000:e1:00.0",
        "0008:01:00.0",
        "0000:c1:00.0",
    ]


LINKS = {
    ("Speed 64GT/s, Width x16, ASPM not supported", "Speed 64GT/s, Width x16"): (16, 16, 64.0, 64.0),
    ("Speed 8GT/s, Width x4, ASPM L1, Exit", "Speed 8GT/s (ok), Width x2 (downgraded)"): (2, 4, 8.0, 8.0),
    ("Speed 2.5GT/s, Width x1, ASPM unknown", "Speed 2.5GT/s, Width x1, TrErr- Train-"): (1, 1, 2.5, 2.5),
    ("Speed 32GT/s, Width x16, ASPM L1", "Speed unknown (downgraded), Width x0 (downgraded)"): (None, 16, None, 32.0),
    ("Speed unknown, Width x0, ASPM not supported", "Speed unknown, Width x0"): (None, None, None, None),
    ("Speed 16GT/s, Width x255, ASPM L1", "Speed 12GT/s, Width x3"): (None, None, None, 16.0),
}


@pytest.mark.parametrize("lines", LINKS)
def test_links(lines: tuple[str, str]) -> None:
    listing = linked(*lines)
    assert msgspec.structs.astuple(listing.functions[0].link) == LINKS[lines]
    assert len(listing.gaps) == LINKS[lines].count(None)


def test_links_as_pciutils_2_printed_them() -> None:
    old = "01:00.0 VGA compatible controller: X\n\tLink: Supported Speed 2.5Gb/s, Width x16, ASPM L0s, Port 0\n"
    link = one(old + "\tLink: Latency L0s <256ns, L1 <2us\n\tLink: Speed 2.5Gb/s, Width x8\n\n").link
    assert msgspec.structs.astuple(link) == (8, 16, 2.5, 2.5)


def test_a_current_value_above_the_maximum_makes_the_maximum_doubtful() -> None:
    listing = linked("Speed 2.5GT/s, Width x8, ASPM L1", "Speed 8GT/s (strange), Width x16 (overdriven)")
    assert msgspec.structs.astuple(listing.functions[0].link) == (16, 8, 8.0, 2.5)
    assert [gap.fact.rpartition(".")[2] for gap in listing.gaps] == ["max_speed_gts", "max_width_lanes"]


def test_node_and_group_in_the_flags_of_a_single_v() -> None:
    function = one(
        "01:00.0 3D controller: NVIDIA Corporation GH100\n"
        "\tFlags: bus master, fast devsel, latency 0, IRQ 126, NUMA node 0, IOMMU group 12\n"
        "\tCapabilities: [60] Express Endpoint, MSI 00\n"
        "\tCapabilities: [100] Power Management version 3\n"
        "\t\tFlags: PMEClk- DSI- D1- D2-, NUMA node 5\n"
    )
    assert (function.numa_node, function.iommu_group, function.port_type) == (0, 12, "Endpoint")


@pytest.mark.parametrize("shown", ["<access denied>", "", "&lt;access denied&gt;", "<access\n\tdenied>"])
def test_what_root_alone_may_read_is_a_gap(shown: str) -> None:
    listing = parse_lspci(f"01:00.0 3D controller: X\n\tCapabilities: {shown}\n\tKernel driver in use: nvidia\n")
    (function,) = listing.functions
    assert (function.denied, function.link, function.driver) == (True, Link(), "nvidia")
    assert [(gap.fact, gap.kind) for gap in listing.gaps] == [("pci_devices[0000:01:00.0].link", "denied")]


def test_a_node_that_is_not_told_is_unknown() -> None:
    assert one("01:00.0 3D controller: X\n\tNUMA node: -1\n\tLatency: 0\n").numa_node is None
    assert one("01:00.0 3D controller: X\n").numa_node is None


def test_a_list_and_its_details_are_merged() -> None:
    bare = "41:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n42:00.0 Ethernet controller: Y\n"
    listing = parse_lspci(bare + "\n" + GPU)
    assert listing.functions[0] == one(GPU)
    assert [function.bdf for function in listing.functions] == ["0000:41:00.0", "0000:42:00.0"]
    assert listing.gaps == ()


def test_two_readings_that_differ_are_unknown() -> None:
    listing = parse_lspci(GPU + "\n" + GPU.replace("2.5GT/s (downgraded)", "32GT/s").replace("node: 1", "node: 0"))
    (function,) = listing.functions
    assert (function.numa_node, function.link.speed_gts, function.link.max_speed_gts) == (None, None, 32.0)
    assert [gap.fact for gap in listing.gaps] == [
        "pci_devices[0000:41:00.0].numa_node",
        "pci_devices[0000:41:00.0].link.speed_gts",
    ]


@pytest.mark.parametrize(
    "between", ["", "xx:00.0 Ethernet controller: Mellanox\n", "--\n", "...\n", "$ lspci -vv -s 42:\n"]
)
def test_details_of_a_function_whose_line_is_missing(between: str) -> None:
    bare = "40:00.0 VGA compatible controller: ASPEED Graphics\n\tSubsystem: ASPEED Graphics\n"
    listing = parse_lspci(bare + (between or "\n") + GPU.partition("\n")[2])
    (function,) = listing.functions
    assert (function.numa_node, function.link, function.driver) == (None, Link(), None)
    assert "own line is not shown" in listing.gaps[-1].reason or not between


def test_a_filtered_list_gives_no_link_twice() -> None:
    listing = parse_lspci(
        "41:00.0 3D controller: X\n\tLnkSta: Speed 16GT/s, Width x8\n\tLnkSta: Speed 8GT/s, Width x4\n"
    )
    assert listing.functions[0].link == Link()
    assert len(listing.gaps) == 2


def test_a_width_at_a_cut_end_is_not_trusted() -> None:
    text = GPU[: GPU.index("Width x8") + len("Width x")]
    assert one(text + "1").link.width_lanes is None
    assert one(text + "16").link.width_lanes == 16


def test_wrapped_link_lines() -> None:
    text = GPU.replace("(downgraded), Width x8", "(downgraded), Width\nx8").replace("Width x16,", "Width x1\n6,")
    assert one(text).link == one(GPU).link


def test_a_name_that_was_wrapped() -> None:
    wrapped = GPU.replace("[H100 SXM5 80GB]", "[H100\nSXM5 80GB]", 1)
    assert one(wrapped) == one(GPU)


@pytest.mark.parametrize(
    "text", ["", "\n \n", "hello", "12:30.5 Meeting: lunch", "-[0000:00]-+-00.0  Intel", "GPU0 X SYS"]
)
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(ParseError, match="no line of lspci"):
        parse_lspci(text)


def bridge(bdf: str, secondary: int, subordinate: int, port_type: str | None = None) -> LspciFunction:
    return LspciFunction(bdf=bdf, secondary_bus=secondary, subordinate_bus=subordinate, port_type=port_type)


def test_upstream_from_the_bridges_buses() -> None:
    gpu = LspciFunction(bdf="0000:19:00.0")
    switch = [bridge("0000:15:01.0", 0x17, 0x1B, port_type="Root Port"), bridge("0000:17:00.0", 0x18, 0x1B)]
    chain = upstream_from_buses([*switch, bridge("0000:18:00.0", 0x19, 0x19), gpu])
    assert chain[gpu.bdf] == ("0000:15:01.0", "0000:17:00.0", "0000:18:00.0")
    assert chain["0000:15:01.0"] == ()
    assert root_complex(gpu.bdf, chain[gpu.bdf]) == "0000:15"
    assert root_complex("0000:15:01.0", ()) == "0000:15"


@pytest.mark.parametrize(
    "bridges",
    [
        [],
        [bridge("0000:15:01.0", 0x19, 0x19)],
        [bridge("0000:00:01.0", 0x19, 0x19), bridge("0000:00:02.0", 0x19, 0x1A)],
        [bridge("0000:00:01.0", 0x18, 0x18), bridge("0000:18:00.0", 0x19, 0x19)],
        [bridge("0000:19:01.0", 0x19, 0x19)],
        [bridge("0001:00:01.0", 0x19, 0x19)],
    ],
)
def test_upstream_that_is_not_certain_is_left_out(bridges: list[LspciFunction]) -> None:
    assert "0000:19:00.0" not in upstream_from_buses([*bridges, LspciFunction(bdf="0000:19:00.0")])


@given(machines())
def test_upstream_agrees_with_the_tree(roots: list[Root]) -> None:
    tree = expected_tree(roots)
    buses = {(f.upstream[-1], f.bdf[-7:-5]) for f in tree if f.upstream}
    secondary = {parent: int(bus, 16) for parent, bus in buses}
    listed = [
        LspciFunction(
            bdf=f.bdf,
            secondary_bus=secondary.get(f.bdf),
            subordinate_bus=0xFF if f.bdf in secondary else None,
            port_type=None if f.upstream else "Root Port",
        )
        for f in tree
    ]
    assert upstream_from_buses(listed).items() <= {f.bdf: f.upstream for f in tree}.items()


@pytest.mark.parametrize(
    "text",
    [
        "00:00.0 VGA controller: x\n" * 500_000,
        "00:00.0 VGA controller: x\n" + "LnkSta: Speed\n" * 300_000,
        "00:00.0 VGA controller: " + "[10de:2330]" * 1_000_000,
        "00:00.0 VGA controller: x\n" + ("$ " * 900 + "\n") * 4000,
        ("00:00.0 " + "A " * 900 + "\n") * 4000,
    ],
)
def test_hostile_texts_are_quick(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(ParseError):
        parse_lspci(text)
    assert time.process_time() - start < 10
