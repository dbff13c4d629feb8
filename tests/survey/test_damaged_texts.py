"""Texts that a paste cut, glued or shifted: what cannot be right must be missing, never wrong."""

from contextlib import suppress

import pytest

from hostdoctor.errors import ParseError
from hostdoctor.parsers.interrupts import parse_interrupts
from hostdoctor.parsers.lscpu import parse_lscpu
from hostdoctor.parsers.lspci import parse_lspci
from hostdoctor.parsers.lspci_lines import split_name
from hostdoctor.parsers.lspci_tree import parse_lspci_tree
from hostdoctor.parsers.numactl import parse_numactl
from hostdoctor.parsers.nvme_list import parse_nvme_list
from hostdoctor.parsers.topo_matrix import parse_topo_matrix


def test_an_interrupt_row_that_keeps_its_indent_takes_a_fragment() -> None:
    header = " " * 11 + "".join(f"CPU{i:<8}" for i in range(8)).rstrip() + "\n"
    row = " 12:" + "".join(f"{i:11}" for i in range(8)) + " e i\n"
    for tail in ("2", "2\n", "7,"):
        with suppress(ParseError):
            parse_interrupts(header + "1: 3\n" + row + tail)


def test_a_name_with_an_open_bracket_is_cut() -> None:
    assert split_name("Acme Corporation AC100 [A100 N").name is None
    assert split_name("Acme Corporation AC100 [A100] (rev a1)").name == "Acme Corporation AC100 [A100]"
    assert split_name(r"Acme Bridge +-00.1  Acme Audio").name is None
    tree = "-[0000:00]-+-00.0  Acme Host Bridge\n           \\-01.0  NVIDIA Corporation GH100 [H100 NVS\n"
    assert [f.name for f in parse_lspci_tree(tree).functions] == ["Acme Host Bridge", None]


def test_a_maximum_width_at_the_end_of_its_line_may_be_cut() -> None:
    text = (
        "01:00.0 Non-Volatile memory controller: Acme Drive\n"
        "\tCapabilities: [70] Express (v2) Endpoint, MSI 00\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x{}\n"
        "\t\tLnkSta:\tSpeed 16GT/s, Width x1\n"
        "\tKernel driver in use: nvme\n"
    )
    cut = parse_lspci(text.format("1"))
    assert cut.functions[0].link.max_width_lanes is None
    assert [gap.fact for gap in cut.gaps] == ["pci_devices[0000:01:00.0].link.max_width_lanes"]
    assert parse_lspci(text.format("1, ASPM L1")).functions[0].link.max_width_lanes == 1
    assert parse_lspci(text.format("16")).functions[0].link.max_width_lanes == 16


LSCPU = """\
Architecture:                    x86_64
CPU(s):                          8
On-line CPU(s) list:             0-7
Thread(s) per core:              1
Core(s) per socket:              8
Socket(s):                       1
Model name:                      Acme 9000 16-Core Processor
Hypervisor vendor:               KVM
Virtualization type:             full
L1d cache:                       256 KiB
NUMA node(s):                    2
NUMA node0 CPU(s):               0-3
NUMA node1 CPU(s):               4-7
Vulnerability Retbleed:          Not affected
"""


def test_lscpu_node_lists_that_leave_out_an_online_cpu() -> None:
    record = parse_lscpu(LSCPU.replace("4-7", "4"))
    assert [node.cpus for node in record.nodes] == ["0-3", None]
    assert [gap.fact for gap in record.gaps] == ["numa_nodes[1].cpus"]
    record = parse_lscpu(LSCPU.replace("4-7", "4").replace("0-3", "0-2"))
    assert [node.cpus for node in record.nodes] == [None, None]
    assert parse_lscpu(LSCPU).gaps == ()


@pytest.mark.parametrize(
    "foreign",
    [
        "[pip3] mypy-extensions==1.0.0",
        "==============================\n          CPU Info",
        "        CUDA / GPU Info",
        "       PyTorch Info",
        "GPU2   1            1            0",
        "[conda] acme   2.21.5   pypi_0    pypi",
    ],
)
@pytest.mark.parametrize("value", ["x86_64", "Acme 9000 16-Core Processor", "KVM"])
def test_lscpu_values_take_no_foreign_line(foreign: str, value: str) -> None:
    record = parse_lscpu(LSCPU.replace(f"{value}\n", f"{value}\n{foreign}\n"))
    assert (record.architecture, record.model_name) == ("x86_64", "Acme 9000 16-Core Processor")
    assert record.hypervisor_vendor == "KVM"


def test_lscpu_lines_run_together() -> None:
    text = LSCPU.replace("x86_64\n", "x86_64 [pip3] a==1\n").replace("KVM\n", "KVM ==== CPU\n")
    record = parse_lscpu(text.replace("Processor\n", "Processor CUDA / GPU Info\n"))
    assert (record.architecture, record.model_name, record.hypervisor_vendor) == (None, None, None)
    assert {gap.fact for gap in record.gaps} == {"system.architecture", "system.cpu_model", "system.virtualization"}


MATRIX = """\
\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tNV18\tNODE\t0-7\t0\t\tN/A
GPU1\tNV18\t X \tNV18\tNODE\t0-7\t0\t\tN/A
GPU2\tNV18\tNV18\t X \tSYS\t8-15\t1\t\tN/A
NIC0\tNODE\tNODE\tSYS\t X \t\t\t\t
"""


def test_a_matrix_row_that_ends_in_another_ones_tail() -> None:
    matrix = parse_topo_matrix(MATRIX.replace("NODE\t0-7\t0\t\tN/A\nGPU2\tNV18\tNV18\t X \t", ""))
    assert [(gpu.cpus, gpu.numa_nodes) for gpu in matrix.gpus] == [("0-7", (0,)), (None, ()), (None, ())]
    assert {(path.a, path.b, path.kind) for path in matrix.paths} == {
        ("GPU0", "GPU1", "NV18"),
        ("GPU0", "GPU2", "NV18"),
        ("GPU0", "NIC0", "NODE"),
    }


def test_a_matrix_row_with_its_x_elsewhere() -> None:
    damaged = MATRIX.replace("GPU1\tNV18\t X \tNV18", "GPU1\tNV18\tNV18\t X ")
    assert [gpu.cpus for gpu in parse_topo_matrix(damaged).gpus] == ["0-7", None, "8-15"]


NUMACTL = """\
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("14 15\nnode 1 size: ", "14 node 1 size: "),
        ("12 13 14 15\nnode 1 size: 16100 MB\nnode 1 free: 15000 MB\n", "12\n"),
        ("13 14 15\nnode 1 size: ", "13 "),
        ("13 14 15\nnode 1 size: 16100", ""),
    ],
)
def test_numactl_lists_that_run_into_the_next_line(before: str, after: str) -> None:
    assert before in NUMACTL
    assert [node.cpus for node in parse_numactl(NUMACTL.replace(before, after)).nodes] == ["0-3,8-11", None]


def test_numactl_list_that_is_whole_in_spite_of_a_lost_line_end() -> None:
    record = parse_numactl(NUMACTL.replace("15\nnode 1 size", "15 node 1 size"))
    assert [node.cpus for node in record.nodes] == ["0-3,8-11", "4-7,12-15"]


def test_numactl_lists_cut_at_a_common_column() -> None:
    def text(width: int) -> str:
        lists = [" ".join(map(str, (*range(n * 16, n * 16 + 16), *range(n * 16 + 64, n * 16 + 80)))) for n in range(4)]
        nodes = "".join(f"node {n} cpus: {x}\nnode {n} size: 16000 MB\n" for n, x in enumerate(lists))
        return "".join(line[:width].rstrip() + "\n" for line in f"available: 4 nodes (0-3)\n{nodes}".splitlines())

    assert next(node.cpus for node in parse_numactl(text(500)).nodes) == "0-15,64-79"
    for width in range(50, 100):
        for n, node in enumerate(parse_numactl(text(width)).nodes):
            assert node.cpus in {None, f"{n * 16}-{n * 16 + 15},{n * 16 + 64}-{n * 16 + 79}"}, width


@pytest.mark.parametrize("label", ["  0", "  2", "11211"])
def test_an_interrupt_number_out_of_order(label: str) -> None:
    rows = [f"{120 + i}:{i:11} PCI-MSI-0000:01:00.0 {i}-edge nvme0q{i}" for i in range(4)]
    rows[2] = label + rows[2][3:]
    parsed = parse_interrupts("           CPU0\n" + "\n".join(rows) + "\n")
    assert {v.queue: v.irq for v in parsed.vectors} == {0: 120, 1: 121, 3: 123}
    assert [gap.fact for gap in parsed.gaps] == ["nvme[nvme0].queues[2].irq"]


def test_interrupts_of_two_tables_are_in_order() -> None:
    row = "{}:{:11} PCI-MSI-0000:0{}:00.0 {}-edge nvme{}q{}"
    rows = [row.format(120 + i - 3 * n, 1, n + 1, i, n, i) for n in range(2) for i in range(4)]
    assert len(parse_interrupts("           CPU0\n" + "\n".join(rows) + "\n").vectors) == 8


def test_nvme_firmware_holds_no_blank() -> None:
    widths = (16, 20, 40, 9, 26, 16, 8)
    names = ("Node", "SN", "Model", "Namespace", "Usage", "Format", "FW Rev")
    cells = ("/dev/nvme0n1", "S1", "Acme Drive", "1", "1.00 TB / 1.00 TB", "512 B + 0 B", "0 B 1.")

    def line(words: tuple[str, ...]) -> str:
        return " ".join(word.ljust(width) for word, width in zip(words, widths, strict=True))

    table = "\n".join((line(names), " ".join("-" * width for width in widths), line(cells), ""))
    assert [(d.model, d.firmware) for d in parse_nvme_list(table).drives] == [("Acme Drive", None)]


@pytest.mark.parametrize("model", ["13", "Acme 9000 16-Core Processor 50,12,12,0,,12,12"])
def test_lscpu_model_that_is_none(model: str) -> None:
    assert parse_lscpu(LSCPU.replace("Acme 9000 16-Core Processor", model)).model_name is None


def test_lscpu_hypervisor_that_a_wrap_cut() -> None:
    assert parse_lscpu(LSCPU.replace("KVM", "mi crosoft")).hypervisor_vendor is None
    assert parse_lscpu(LSCPU.replace("KVM", "User-mode Linux")).hypervisor_vendor == "User-mode Linux"
