import contextlib
import re

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.parsers.lscpu import LscpuRecord, parse_lscpu
from tests.support.mangle import MANGLINGS
from tests.support.render_lscpu import LANGUAGES, Machine, render_grouped, render_json, render_lscpu

XEON = Machine()
EPYC_VM = Machine(
    model_name="AMD EPYC 9554 64-Core Processor",
    vendor="AuthenticAMD",
    family=25,
    model=1,
    stepping="1",
    threads=1,
    cores=16,
    sockets=4,
    online="0-63",
    nodes=((0, "0-31"), (8, "32-63"), (250, "")),
    hypervisor="KVM",
)
ARM = Machine(
    model_name="Kunpeng-920",
    vendor="HiSilicon",
    family=None,
    model=0,
    stepping="0x1",
    threads=1,
    cores=64,
    sockets=2,
    nodes=tuple((node, f"{32 * node}-{32 * node + 31}") for node in range(4)),
)


def nodes(record: LscpuRecord) -> dict[int, str | None]:
    return {node.id: node.cpus for node in record.nodes}


def gaps(record: LscpuRecord) -> dict[str, str]:
    return {gap.fact: gap.reason for gap in record.gaps}


def assert_is(record: LscpuRecord, machine: Machine) -> None:
    """Assert that a record tells everything of a machine, and leaves no gap."""
    assert record == LscpuRecord(
        architecture="x86_64",
        model_name=machine.model_name,
        cpus=machine.threads * machine.cores * machine.sockets,
        online=machine.online,
        sockets=machine.sockets,
        cores_per_socket=machine.cores,
        threads_per_core=machine.threads,
        numa_node_count=len(machine.nodes),
        nodes=record.nodes,
        hypervisor_vendor=machine.hypervisor,
        virtualization_type="full" if machine.hypervisor else None,
    )
    assert tuple(nodes(record).items()) == machine.nodes


@pytest.mark.parametrize("machine", [XEON, EPYC_VM, ARM], ids=["xeon", "epyc in a VM", "arm"])
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "old"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_reads_every_language(language: str, is_new: bool, machine: Machine) -> None:
    assert_is(parse_lscpu(render_lscpu(machine, language, is_new=is_new)), machine)


@pytest.mark.parametrize("language", LANGUAGES)
def test_labels_may_touch_their_values(language: str) -> None:
    if not any(not label.endswith((":", "：")) for label in LANGUAGES[language][:-1]):
        assert_is(parse_lscpu(render_lscpu(XEON, language, width=0)), XEON)


@pytest.mark.parametrize("language", LANGUAGES)
def test_node_lines_alone_tell_the_nodes(language: str) -> None:
    text = "\n".join(line for line in render_lscpu(EPYC_VM, language).splitlines() if "NUMA" in line)
    record = parse_lscpu(text + "\n")
    assert tuple(nodes(record).items()) == EPYC_VM.nodes
    assert record.numa_node_count == 3
    assert {"system.cpu_model", "system.packages", "cpus", "online", "system.virtualization"} <= set(gaps(record))


@pytest.mark.parametrize("columns", [0, 50, 60, 80, 132])
@pytest.mark.parametrize("machine", [XEON, EPYC_VM, ARM], ids=["xeon", "epyc in a VM", "arm"])
def test_reads_the_grouped_form_wrapped_at_the_terminal(machine: Machine, columns: int) -> None:
    record = parse_lscpu(render_grouped(machine, columns))
    if columns == 0:
        assert_is(record, machine)
    assert tuple(nodes(record).items()) == machine.nodes


def test_a_long_list_wrapped_inside_numbers_is_whole() -> None:
    odd = ",".join(str(cpu) for cpu in range(1, 128, 2))
    even = ",".join(str(cpu) for cpu in range(0, 128, 2))
    machine = msgspec.structs.replace(XEON, nodes=((0, even), (1, odd)))
    for columns in range(43, 90):
        record = parse_lscpu(render_grouped(machine, columns))
        assert tuple(nodes(record).items()) == machine.nodes, columns


@pytest.mark.parametrize("is_nested", [True, False])
def test_reads_json(is_nested: bool) -> None:
    assert_is(parse_lscpu("$ lscpu -J\n" + render_json(EPYC_VM, is_nested=is_nested)), EPYC_VM)


def test_reads_json_that_is_cut_or_quoted() -> None:
    text = render_json(EPYC_VM, is_nested=True)
    assert nodes(parse_lscpu(text[text.index("On-line") - 20 :])) == dict(EPYC_VM.nodes)
    assert_is(parse_lscpu("\n".join("> " + line for line in text.splitlines())), EPYC_VM)
    assert_is(parse_lscpu(text.replace("\n", "")), EPYC_VM)


@pytest.mark.parametrize("mangling", MANGLINGS)
@pytest.mark.parametrize("machine", [XEON, EPYC_VM, ARM], ids=["xeon", "epyc in a VM", "arm"])
def test_survives_pasting(machine: Machine, mangling: str) -> None:
    for is_new in (True, False):
        assert_is(parse_lscpu(MANGLINGS[mangling](render_lscpu(machine, is_new=is_new))), machine)


@pytest.mark.parametrize("language", ["Chinese", "German"])
@pytest.mark.parametrize("mangling", ["CRLF", "escapes", "indented", "blanks collapsed", "blank lines", "quoted"])
def test_survives_pasting_in_other_languages(mangling: str, language: str) -> None:
    assert_is(parse_lscpu(MANGLINGS[mangling](render_lscpu(EPYC_VM, language))), EPYC_VM)


def test_tables_that_follow_are_no_part_of_it() -> None:
    table = "# CPU,Core,Socket,Node,,L1d,L1i\n0,0,0,0,,0,0\n1,0,0,0,,0,0\n"
    extended = "CPU NODE SOCKET CORE L1d:L1i:L2 ONLINE\n  0    0      0    0 0:0:0    yes\n"
    assert_is(parse_lscpu(render_lscpu(EPYC_VM) + "\n" + table + extended), EPYC_VM)
    bare = render_lscpu(EPYC_VM).replace("Vulnerability Mds:                      KVM: Mitigation: none\n", "")
    assert nodes(parse_lscpu(bare + "0,0,0,0,,0,0\n1,0,0,0,,0,0\n")) == dict(EPYC_VM.nodes)


def test_other_tools_around_it_are_no_part_of_it() -> None:
    lstopo = "Machine (62GB total)\n  NUMANode L#0 (P#0 31GB)\n  Package L#0 + L3 L#0 (15MB)\n    PU L#0 (P#0)\n"
    lspci = "17:00.0 3D controller: NVIDIA Corporation Device 2330\n\tNUMA node: 1\n\tIOMMU group: 3\n"
    matrix = "GPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU NUMA ID: 3\n"
    assert_is(parse_lscpu(lstopo + lspci + matrix + "CPU:\n" + render_lscpu(XEON) + lstopo + lspci + matrix), XEON)


def test_strided_lists_and_masks() -> None:
    text = "CPU(s): 8\nOn-line CPU(s) list: 0-7\nNUMA node0 CPU(s): 0-6:2\nNUMA node1 CPU(s): 1-7:2\n"
    assert nodes(parse_lscpu(text)) == {0: "0,2,4,6", 1: "1,3,5,7"}
    text = "CPU(s): 8\nOn-line CPU(s) mask: ff\nNUMA node0 CPU(s): 0f\nNUMA node1 CPU(s): f0\nNUMA node2 CPU(s):\n"
    assert nodes(parse_lscpu(text)) == {0: "0-3", 1: "4-7", 2: ""}
    assert nodes(parse_lscpu("NUMA node(s): 1\nNUMA node0 CPU(s): 0xff\n")) == {0: "0-7"}


def test_offline_cpus_leave_the_count_as_it_is() -> None:
    text = render_lscpu(XEON).replace("0-127\n", "0-3,8-127\nOff-line CPU(s) list: 4-7\n", 1)
    record = parse_lscpu(text)
    assert (record.cpus, record.online, record.sockets) == (128, "0-3,8-127", 2)


@pytest.mark.parametrize(
    ("line", "node", "reason"),
    [
        ("NUMA node1 CPU(s): 4,2", 1, "ids do not ascend: '4,2'"),
        ("NUMA node1 CPU(s): 4-7,9,...", 1, "not a cpulist: '4-7,9,...'"),
        ("NUMA node1 CPU(s): 4-", 1, "not a cpulist: '4-'"),
        ("NUMA node1 CPU(s): 3-5", 1, "a CPU is listed under several nodes"),
    ],
)
def test_a_list_that_cannot_be_trusted_is_a_gap(line: str, node: int, reason: str) -> None:
    record = parse_lscpu(f"NUMA node(s): 2\nNUMA node0 CPU(s): 0-3\n{line}\n")
    assert nodes(record)[node] is None
    assert gaps(record)[f"numa_nodes[{node}].cpus"] == reason


def test_a_text_that_ends_inside_a_list_leaves_a_gap() -> None:
    text = "CPU(s): 64\nOn-line CPU(s) list: 0-63\nNUMA node(s): 2\nNUMA node0 CPU(s): 0-31\nNUMA node1 CPU(s): 32-63"
    assert nodes(parse_lscpu(text)) == {0: "0-31", 1: "32-63"}
    assert nodes(parse_lscpu(text[:-1])) == {0: "0-31", 1: None}
    assert nodes(parse_lscpu(text[text.index("NUMA") :])) == {0: "0-31", 1: "32-63"}
    assert nodes(parse_lscpu(text[text.index("NUMA") : -1])) == {0: "0-31", 1: None}
    assert parse_lscpu("Thread(s) per core: 1\n" + text[: text.index("3\nNUMA")]).online is None


def test_node_lines_that_do_not_fit_their_count_are_a_gap() -> None:
    record = parse_lscpu("NUMA node(s): 4\nNUMA node0 CPU(s): 0-3\nNUMA node1 CPU(s): 4-7\n")
    assert record.numa_node_count == 4
    assert gaps(record)["numa_nodes"] == "4 nodes counted, 2 listed"


def test_without_numa_lines_nothing_is_said_of_nodes() -> None:
    text = "".join(line for line in render_lscpu(EPYC_VM).splitlines(keepends=True) if "NUMA" not in line)
    record = parse_lscpu(text)
    assert (record.numa_node_count, record.nodes, record.hypervisor_vendor) == (None, (), "KVM")
    assert {"numa_nodes", "numa_node_count"} <= set(gaps(record))


def test_the_cpus_own_virtualization_is_no_hypervisor() -> None:
    record = parse_lscpu(render_lscpu(XEON))
    assert (record.hypervisor_vendor, record.virtualization_type, record.gaps) == (None, None, ())
    cut = parse_lscpu(render_lscpu(XEON).partition("BogoMIPS")[0])
    assert gaps(cut)["system.virtualization"] == "not printed"


@pytest.mark.parametrize(
    ("vendor", "word", "expected"),
    [
        ("pHyp", "para", "para"),
        ("Windows Subsystem for Linux", "container", "container"),
        ("Xen", "none", "none"),
        ("VMware", "", None),
        ("Made Up", "sideways", None),
    ],
)
def test_virtualization_is_full_or_para_or_told_as_a_gap(vendor: str, word: str, expected: str | None) -> None:
    text = f"CPU(s): 4\nOn-line CPU(s) list: 0-3\nHypervisor vendor: {vendor}\nVirtualization type: {word}\nFlags: a\n"
    record = parse_lscpu(text)
    assert (record.hypervisor_vendor, record.virtualization_type) == (vendor, expected)
    assert ("virtualization_type" in gaps(record)) == (expected is None)


def test_blanks_dashes_and_zeros_are_unknown() -> None:
    text = (
        "Architecture: aarch64\nCPU(s): 48\nOn-line CPU(s) list: 0-47\nThread(s) per core: 0\n"
        "Core(s) per cluster: 12\nSocket(s): -\nCluster(s): 4\nModel name: -\nNUMA node(s): x\n"
    )
    record = parse_lscpu(text)
    unknown = (record.threads_per_core, record.cores_per_socket, record.sockets, record.model_name)
    assert unknown == (None, None, None, None)
    assert gaps(record)["system.packages"] == "printed as '-'"
    assert gaps(record)["threads_per_core"] == "printed as '0'"
    assert gaps(record)["system.cpu_model"] == "printed as '-'"


def test_sockets_of_a_book_are_not_the_machines() -> None:
    text = "CPU(s): 8\nOn-line CPU(s) list: 0-7\nCore(s) per socket: 8\nSocket(s) per book: 3\nBook(s): 2\n"
    assert parse_lscpu(text).sockets is None


def test_several_cpu_types_are_added_up() -> None:
    kinds = "".join(
        f"Model name: Cortex-{kind}\nThread(s) per core: 1\nCore(s) per socket: 10\nSocket(s): 1\nStepping: r0p1\n"
        for kind in ("X925", "A725")
    )
    head = "Architecture: aarch64\nCPU(s): 20\nOn-line CPU(s) list: 0-19\nVendor ID: ARM\n"
    record = parse_lscpu(head + kinds + "NUMA node(s): 1\nNUMA node0 CPU(s): 0-19\n")
    assert record.model_name == "Cortex-X925 + Cortex-A725"
    assert (record.sockets, record.cores_per_socket, record.threads_per_core) == (1, 20, 1)
    uneven = parse_lscpu(head.replace("20", "16") + kinds + "NUMA node(s): 1\nNUMA node0 CPU(s): 0-15\n")
    assert uneven.cores_per_socket is None


def test_labels_that_contain_a_known_one_are_not_it() -> None:
    text = (
        "CPU(s): 4\nOn-line CPU(s) list: 0-3\nBIOS Vendor ID: QEMU\nBIOS Model name: pc-q35\nCPU(s) scaling MHz: 45%\n"
        "Skalierung der CPU(s): 77%\nPhysical sockets: 9\nModel name: Some CPU\n"
    )
    record = parse_lscpu(text)
    assert (record.cpus, record.model_name, record.sockets) == (4, "Some CPU", None)


def test_a_blank_node_line_only_counts_among_its_like() -> None:
    assert nodes(parse_lscpu("NUMA node(s): 1\nNUMA 3:\nNUMA node0 CPU(s): 0-3\n")) == {0: "0-3"}


def test_the_first_complete_output_counts() -> None:
    cut = render_lscpu(ARM).partition("NUMA node2")[0] + "\n"
    assert_is(parse_lscpu(cut + render_lscpu(EPYC_VM) + render_lscpu(XEON)), EPYC_VM)
    assert_is(parse_lscpu(render_lscpu(XEON) + render_lscpu(EPYC_VM)), XEON)
    assert nodes(parse_lscpu(cut + "Architecture: x86_64\n")) == dict(ARM.nodes[:2])


def test_numbers_of_which_one_cannot_tell_what_they_are_stay_unknown() -> None:
    text = render_lscpu(XEON, "Chinese").replace("座：", "座数未知：").replace("  32\n", "  31\n")
    record = parse_lscpu(text)
    assert (record.threads_per_core, record.cores_per_socket, record.sockets) == (None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lscpu: command not found\n",
        "# CPU,Core,Socket,Node\n0,0,0,0\n",
        "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n  0    0      0    0 0:0:0:0          yes\n",
        "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 4442 MB\n",
        "\tNUMA node: 1\n\tNUMA node: 0\n",
        "GPU NUMA ID : 1\nNUMA Affinity: 0-3\n",
        "processor\t: 0\nmodel name\t: AMD EPYC\ncpu cores\t: 4\nBogoMIPS\t: 200.00\n",
        "Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\n",
        '{"cpus": [{"cpu": 0, "node": 0}]}',
        '{"field": "x", "data": "1"}',
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_lscpu(text, "some.txt")
    assert caught.value.source == "some.txt"


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Draw machines whose CPUs are all online and each on one node."""
    threads, cores, sockets = draw(st.integers(1, 4)), draw(st.integers(2, 20)), draw(st.integers(1, 4))
    node_ids = sorted(draw(st.sets(st.integers(0, 255), min_size=1, max_size=8)))
    count = threads * cores * sockets
    owners = draw(st.lists(st.sampled_from(node_ids), min_size=count, max_size=count))
    lists = ((n, format_cpulist(cpu for cpu, owner in enumerate(owners) if owner == n)) for n in node_ids)
    return Machine(
        model_name=draw(st.sampled_from([XEON.model_name, EPYC_VM.model_name, "11th Gen Intel(R) Core(TM) i7"])),
        family=draw(st.integers(6, 31)),
        model=draw(st.integers(0, 200)),
        stepping=str(draw(st.integers(0, 15))),
        threads=threads,
        cores=cores,
        sockets=sockets,
        online=format_cpulist(range(count)),
        nodes=tuple(lists),
        hypervisor=draw(st.sampled_from([None, "KVM", "Microsoft", "VMware"])),
    )


@given(machines(), st.sampled_from(sorted(LANGUAGES)), st.booleans())
def test_reads_back_what_lscpu_writes(machine: Machine, language: str, is_new: bool) -> None:
    assert_is(parse_lscpu(render_lscpu(machine, language, is_new=is_new)), machine)


@given(machines(), st.booleans(), st.sampled_from(sorted(MANGLINGS)), st.integers(0, 3000), st.integers(0, 3000))
def test_mangled_and_cut_output_gives_no_other_value(
    machine: Machine, is_new: bool, mangling: str, start: int, length: int
) -> None:
    text = MANGLINGS[mangling](render_lscpu(machine, is_new=is_new))[start : start + length]
    assume(not re.match(r"\W*CPU\(s\):", text))  # what remains of a node's label is the label of the count
    try:
        record = parse_lscpu(text)
    except ParseError:
        return
    whole = parse_lscpu(render_lscpu(machine, is_new=is_new))
    for field in ("cpus", "online", "sockets", "cores_per_socket", "threads_per_core", "numa_node_count"):
        assert getattr(record, field) in (None, getattr(whole, field)), field
    for node, cpus in nodes(record).items():
        assert cpus in (None, nodes(whole)[node])


WORDS = st.sampled_from(
    [
        *(
            "NUMA node0 CPU(s):",
            "NUMA node(s):",
            "CPU(s):",
            "On-line CPU(s) list:",
            "Architecture:",
            "NUMA 节点1 CPU：",
        ),
        *(
            "BogoMIPS: 1",
            "Little Endian",
            "0-3",
            "4",
            "\n",
            "  ",
            "x86_64",
            '"field": "CPU(s):",',
            '"data": "4"',
            "KVM",
        ),
        *("full", ",", "-", "> ", "0x3", "999999999", "Core(s) per socket: 2", "Thread(s) per core: 1", "Socket(s): 2"),
    ]
)


@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(WORDS, max_size=40).map(" ".join), st.lists(WORDS, max_size=40).map("".join)))
def test_any_text_gives_a_record_or_a_parse_error(text: str) -> None:
    try:
        record = parse_lscpu(text)
    except ParseError:
        return
    assert [node.id for node in record.nodes] == sorted({node.id for node in record.nodes})


SIZE = 50_000_000


@pytest.mark.parametrize(
    "text",
    [
        "lorem ipsum dolor sit amet, consectetur: 12 34\n" * (SIZE // 47),
        "NUMA node0 CPU(s): 0-1048576\n" * (SIZE // 29),
        "NUMA node0 CPU(s): 0-3 CPU(s): 4 " * (SIZE // 33),
        "NUMA node0 CPU(s): " + "1,\n" * (SIZE // 3),
        "Model name: x\n" + "                abc def\n" * (SIZE // 24),
        '"field": "CPU(s):", "data": "4",' * (SIZE // 32),
        '"lscpu" "field": "' + '\\"' * (SIZE // 2),
        "NUMA node0 CPU(s): 0x" + "f" * SIZE,
        "NUMA" + " " * SIZE,
    ],
    ids=["noise", "same node", "one line", "list", "wrapped name", "json", "open string", "mask", "blanks"],
)
@pytest.mark.fuzz
def test_a_large_text_takes_seconds(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_lscpu(text)


def test_an_output_within_a_large_text_is_found() -> None:
    noise = "lorem ipsum dolor sit amet\n" * 200_000
    assert_is(parse_lscpu(noise + render_lscpu(XEON) + noise), XEON)
