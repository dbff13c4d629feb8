"""Interrupt tables: which interrupt is which NVMe queue's, where it fired, and what must not be guessed."""

import re
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.parsers.interrupts import Interrupt, Interrupts, NvmeVector, parse_interrupts
from tests.support.render_interrupts import Line, nvme_line, one_hot, render_interrupts

FOUR = (0, 1, 2, 3)
TABLE = render_interrupts(
    FOUR,
    [
        Line("0", (38, 0, 0, 0), "IR-IO-APIC    2-edge      timer"),
        Line("16", (0, 0, 7, 0), "IR-IO-APIC   16-fasteoi   ehci_hcd:usb1, snd_hda_intel"),
        Line("24", (0, 0, 0, 0), "IR-PCI-MSI 458752-edge"),
        Line("120", (0, 9, 0, 0), "IR-PCI-MSIX-0000:5e:00.0    0-edge      nvme0q0"),
        Line("121", (5, 0, 0, 6), "IR-PCI-MSIX-0000:5e:00.0    1-edge      nvme0q1"),
        Line("122", (0, 0, 0, 0), "IR-PCI-MSIX-0000:5e:00.0    2-edge      nvme0q2"),
        Line("140", (0, 3, 0, 0), "IR-PCI-MSIX-0000:3b:00.0    4-edge      mlx5_comp3@pci:0000:3b:00.0"),
        Line("NMI", (1, 1, 1, 1), "  Non-maskable interrupts"),
        Line("LOC", (1, 1, 1, 1), "  Local timer interrupts"),
        Line("ERR", (0,), ""),
    ],
)
VECTORS = (
    NvmeVector(controller="nvme0", queue=0, irq=120, fired_cpus="1", total=9, bdf="0000:5e:00.0"),
    NvmeVector(controller="nvme0", queue=1, irq=121, fired_cpus="0,3", total=11, bdf="0000:5e:00.0"),
    NvmeVector(controller="nvme0", queue=2, irq=122, fired_cpus="", total=0, bdf="0000:5e:00.0"),
)


def queues(text: str) -> dict[str, int]:
    return {f"{v.controller}q{v.queue}": v.irq for v in parse_interrupts(text).vectors}


def reasons(interrupts: Interrupts) -> dict[str, str]:
    return {gap.fact: gap.reason for gap in interrupts.gaps}


def test_a_whole_table() -> None:
    parsed = parse_interrupts(TABLE)
    assert parsed.cpus == FOUR
    assert parsed.vectors == VECTORS
    assert parsed.gaps == ()
    assert parsed.interrupts[:2] == (
        Interrupt(irq=0, name="timer", chip="IR-IO-APIC"),
        Interrupt(irq=16, name="ehci_hcd:usb1, snd_hda_intel", chip="IR-IO-APIC"),
    )
    assert parsed.interrupts[-1] == Interrupt(
        irq=140, name="mlx5_comp3@pci:0000:3b:00.0", chip="IR-PCI-MSIX-0000:3b:00.0"
    )
    assert 24 not in {i.irq for i in parsed.interrupts}


def test_rows_alone_tell_no_cpus() -> None:
    parsed = parse_interrupts("\n".join(x for x in TABLE.splitlines() if "nvme" in x))
    assert [v.irq for v in parsed.vectors] == [120, 121, 122]
    assert {v.fired_cpus for v in parsed.vectors} == {None}
    assert [v.total for v in parsed.vectors] == [9, 11, 0]
    assert "interrupts.cpus" in reasons(parsed)


def test_offline_cpus_leave_holes_in_the_header() -> None:
    text = render_interrupts((0, 2, 8, 10, 11), [nvme_line(30, (0, 1, 0, 1, 1), "nvme3q1")])
    assert parse_interrupts(text).vectors[0].fired_cpus == "2,10-11"


@pytest.mark.parametrize(
    ("tail", "chip", "name"),
    [
        ("PCI-MSI-edge      nvme0q0, nvme0q1", "PCI-MSI", "nvme0q0, nvme0q1"),
        ("  ITS-MSI 65537 Edge      nvme0q1", "ITS-MSI", "nvme0q1"),
        ("    GICv3  27 Level     arch_timer", "GICv3", "arch_timer"),
        ("ITS-PCI-MSIX-0002:01:00.0   1 Edge      nvme0q1", "ITS-PCI-MSIX-0002:01:00.0", "nvme0q1"),
        ("VMD-PCI-MSIX-10000:e1:00.0    4  nvme0q4", "VMD-PCI-MSIX-10000:e1:00.0", "nvme0q4"),
        ("xen-pirq    -msi-x     nvme0q2", "xen-pirq", "nvme0q2"),
        ("MIPS   7  timer", "MIPS", "timer"),
        ("MIPS  timer", "MIPS", "timer"),
        ("SiFive PLIC  33 Edge      nvme0q0", "SiFive PLIC", "nvme0q0"),
        ("Hyper-V PCIe MSI 4026531840-edge      nvme0q0", "Hyper-V PCIe MSI", "nvme0q0"),
        ("30a20000.gpio   3 Edge      30b50000.mmc cd", "30a20000.gpio", "30b50000.mmc cd"),
        ("XICS 512 Edge      nvme0q0", "XICS", "nvme0q0"),
        ("PCI-MSIX-0000:00:05.0 1-edge nvme0q1 affinity: 4-5", "PCI-MSIX-0000:00:05.0", "nvme0q1"),
    ],
)
def test_chips_of_many_machines(tail: str, chip: str, name: str) -> None:
    text = render_interrupts((0, 1), [Line("42", (1, 2), tail)])
    expected = (Interrupt(irq=42, name=name, chip=chip),)
    assert parse_interrupts(text).interrupts == expected
    assert parse_interrupts(re.sub(" +", " ", text)).interrupts == expected


def test_bdf_only_where_the_chip_carries_one() -> None:
    rows = [
        Line("1", (0,), "VMD-PCI-MSIX-10000:e1:00.0    0  nvme0q0"),
        Line("2", (0,), "PCI-MSI 524288-edge      nvme1q0"),
    ]
    assert [v.bdf for v in parse_interrupts(render_interrupts((0,), rows)).vectors] == ["10000:e1:00.0", None]


def test_queues_that_share_an_interrupt() -> None:
    text = render_interrupts((0, 1), [nvme_line(39, (94, 0), "nvme0q0, nvme0q1, nvme1q0")])
    parsed = parse_interrupts(text)
    assert queues(text) == {"nvme0q0": 39, "nvme0q1": 39, "nvme1q0": 39}
    assert {v.fired_cpus for v in parsed.vectors} == {"0"}


def test_controllers_sort_by_number() -> None:
    rows = [nvme_line(90 - i, (0,), f"nvme{c}q{q}") for i, (c, q) in enumerate([(10, 0), (2, 10), (2, 9)])]
    assert list(queues(render_interrupts((0,), rows))) == ["nvme2q9", "nvme2q10", "nvme10q0"]


def test_a_queue_with_two_interrupts_has_none() -> None:
    text = render_interrupts((0,), [nvme_line(30, (1,), "nvme0q1"), nvme_line(39, (1,), "nvme0q1")])
    parsed = parse_interrupts(text + "\n" + render_interrupts((0,), [nvme_line(31, (1,), "nvme0q2")]))
    assert [(v.queue, v.irq) for v in parsed.vectors] == [(2, 31)]
    assert "nvme[nvme0].queues[1].irq" in reasons(parsed)


def test_the_later_of_two_readings_counts() -> None:
    before, after = (render_interrupts((0, 1), [nvme_line(30, (n, 0), "nvme0q1")]) for n in (0, 8))
    parsed = parse_interrupts(before + "\n" + after)
    assert [(v.fired_cpus, v.total) for v in parsed.vectors] == [("0", 8)]
    assert parsed.gaps == ()


def test_two_machines_in_one_text_are_told_apart() -> None:
    text = render_interrupts((0, 1), [nvme_line(30, (1, 0), "nvme0q1")])
    parsed = parse_interrupts(text + render_interrupts((0, 1, 2), [nvme_line(31, (1, 0, 0), "nvme1q1")]))
    assert "interrupts.cpus" in reasons(parsed)


@pytest.mark.parametrize("name", ["nvme0q", "nvme0", "nvme"])
def test_a_name_cut_at_the_right(name: str) -> None:
    parsed = parse_interrupts(render_interrupts((0,), [nvme_line(30, (1,), name)]))
    assert parsed.vectors == ()
    assert "nvme.queues" in reasons(parsed)


def test_a_row_with_other_columns_than_the_header_has_no_cpus() -> None:
    parsed = parse_interrupts(render_interrupts(FOUR, [nvme_line(30, (1, 2, 3), "nvme0q1")]))
    assert [(v.irq, v.fired_cpus, v.total) for v in parsed.vectors] == [(30, None, None)]
    assert "interrupts.fired_cpus" in reasons(parsed)


@pytest.mark.parametrize("mark", ["...", "…"])
def test_columns_left_out_by_a_person(mark: str) -> None:
    text = f"243:         22       {mark}         0  ITS-MSI   0 Edge      nvme0q0\n244: 0 0 ITS-MSI 1 Edge nvme0q1\n"
    parsed = parse_interrupts(text)
    assert [(v.irq, v.total) for v in parsed.vectors] == [(243, None), (244, None)]
    (vector,) = parse_interrupts("  CPU0 CPU1 CPU2\n243: 22 ... 0 ITS-MSI 0 Edge nvme0q0\n").vectors
    assert (vector.fired_cpus, vector.total) == (None, None)


def test_rows_of_unequal_length_without_a_header_have_no_total() -> None:
    text = "30: 1 2 3 PCI-MSI 1-edge nvme0q0\n31: 1 2 PCI-MSI 2-edge nvme0q1\n"
    assert [v.total for v in parse_interrupts(text).vectors] == [None, None]


def test_a_cut_tail_keeps_the_rows_above() -> None:
    cut = TABLE[: TABLE.index("nvme0q2") - 60]
    parsed = parse_interrupts(cut)
    assert parsed.vectors == VECTORS[:2]


MANGLINGS: dict[str, Callable[[str], str]] = {
    "crlf": lambda t: t.replace("\n", "\r\n"),
    "bom": lambda t: "\ufeff" + t,
    "collapsed": lambda t: re.sub(" +", " ", t),
    "tabs": lambda t: t.replace("  ", "\t"),
    "fence": lambda t: f"```\n$ cat /proc/interrupts\n{t}```\n",
    "quoted": lambda t: re.sub("^", "> ", t, flags=re.MULTILINE),
    "quoted twice": lambda t: re.sub("^", ">> ", t, flags=re.MULTILINE),
    "indented": lambda t: re.sub("^", "      ", t, flags=re.MULTILINE),
    "logged": lambda t: re.sub(
        "^", "2025-06-03 16:33:56.542[6724][DEBUG] node[0].cmd[1].stdout ", t, flags=re.MULTILINE
    ),
    "ray": lambda t: re.sub("^", "(pid=123, ip=10.0.0.1) ", t, flags=re.MULTILINE),
    "rank": lambda t: re.sub("^", "[rank0]: ", t, flags=re.MULTILINE),
    "numbered": lambda t: re.sub("^", "17:", t, flags=re.MULTILINE),
    "coloured": lambda t: t.replace("nvme", "\x1b[01;31m\x1b[Knvme\x1b[m\x1b[K"),
    "escape lost": lambda t: t.replace("CPU0", "[4mCPU0[0m"),
    "literals": lambda t: "".join(f"    '{line}\\n'\n" for line in t.splitlines()),
    "prose after": lambda t: t + "Why does nvme0q9 not fire on my machine?\n",
}


@pytest.mark.parametrize("mangling", MANGLINGS)
def test_pasting_does_no_harm(mangling: str) -> None:
    parsed = parse_interrupts(MANGLINGS[mangling](TABLE))
    assert parsed.cpus == FOUR
    assert parsed.vectors == VECTORS
    assert parsed.interrupts == parse_interrupts(TABLE).interrupts


EIGHT = tuple(range(8, 16))
WIDE = render_interrupts(
    EIGHT,
    [
        nvme_line(130, one_hot(EIGHT, {9: 1234567, 15: 1}), "nvme0q1"),
        nvme_line(131, one_hot(EIGHT, {8: 4000000000}), "nvme0q2, nvme0q3"),
        nvme_line(132, one_hot(EIGHT, {}), "nvme12q104"),
        Line("NMI", (1,) * 8, "  Non-maskable interrupts"),
    ],
)


def wrapped_hard(text: str, width: int, strip: bool) -> str:
    pieces = (line[i : i + width] for line in text.splitlines() for i in range(0, len(line), width))
    return "\n".join(piece.rstrip() if strip else piece for piece in pieces)


def wrapped_at_blanks(text: str, width: int) -> str:
    out: list[str] = []
    for line in text.splitlines():
        while len(line) > width and " " in line[:width].strip():
            cut = line.rindex(" ", 0, width)
            out.append(line[:cut])
            line = line[cut + 1 :]
        out.append(line)
    return "\n".join(out)


@pytest.mark.parametrize("width", range(40, 112))
def test_wrapped_by_a_mailer(width: int) -> None:
    assert parse_interrupts(wrapped_at_blanks(WIDE, width)) == parse_interrupts(WIDE)


def test_wrapped_and_quoted_by_a_mailer() -> None:
    quoted = re.sub("^", "> > ", wrapped_at_blanks(WIDE, 72), flags=re.MULTILINE)
    assert parse_interrupts(quoted) == parse_interrupts(WIDE)


@pytest.mark.parametrize("strip", [True, False])
@pytest.mark.parametrize("width", range(40, 140))
def test_wrapped_by_a_terminal(width: int, strip: bool) -> None:
    truth = {(v.controller, v.queue): v for v in parse_interrupts(WIDE).vectors}
    try:
        parsed = parse_interrupts(wrapped_hard(WIDE, width, strip))
    except ParseError:
        return
    for vector in parsed.vectors:
        expected = truth[vector.controller, vector.queue]
        assert vector.irq == expected.irq
        assert vector.fired_cpus in (None, expected.fired_cpus)
        assert vector.total in (None, expected.total)


@pytest.mark.parametrize("strip", [True, False])
@pytest.mark.parametrize("width", [64, 72, 76, 79, 80, 100])
def test_wrapped_by_a_terminal_of_usual_width(width: int, strip: bool) -> None:
    assert parse_interrupts(wrapped_hard(WIDE, width, strip)).vectors == parse_interrupts(WIDE).vectors


LSIRQ = """$ lsirq
IRQ     TOTAL NAME
LOC 273312682 Local timer interrupts
 58     21947 IR-PCI-MSIX-0000:07:00.0 9-edge nvme1q9
 38       592 IR-PCI-MSIX-0000:04:00.0 0-edge nvme0q0
  0        38 IR-IO-APIC 2-edge timer
 16         5 IR-PCI-MSI 475136-edge      PCIe PME, aerdrv
ERR         0
"""


def test_lsirq() -> None:
    parsed = parse_interrupts(LSIRQ)
    assert [(v.controller, v.queue, v.irq, v.total, v.fired_cpus, v.bdf) for v in parsed.vectors] == [
        ("nvme0", 0, 38, 592, None, "0000:04:00.0"),
        ("nvme1", 9, 58, 21947, None, "0000:07:00.0"),
    ]
    assert [i.name for i in parsed.interrupts] == ["nvme1q9", "nvme0q0", "timer", "PCIe PME, aerdrv"]
    assert "interrupts.cpus" in reasons(parsed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "            CPU0       CPU1\n",
        "                    CPU0       CPU1\n          HI:          1          2\n       TIMER:  5 6\n",
        "node distances:\nnode   0   1\n  0:  10  21\n  1:  21  10\n",
        "available: 1 nodes (0)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 1 MB\n",
        "nvme0q1 is slow on CPU0 CPU1",
        "00: 86 80 0c 09 06 00 10 00 07\n10: 04 10 00 f1 00 04 06 00 00 81 00\n",
        "Device r/s w/s\nnvme0n1 1.0 2.0\n",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_interrupts(text, source="paste")
    assert error.value.source == "paste"


cpu_sets = st.sets(st.integers(0, 2000), min_size=1, max_size=40).map(sorted)


@given(st.data(), cpu_sets)
def test_round_trip(data: st.DataObject, cpus: list[int]) -> None:
    names = data.draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 130)), unique=True, max_size=8))
    irqs = data.draw(st.lists(st.integers(0, 9999), unique=True, min_size=len(names) + 1, max_size=len(names) + 1))
    irqs.sort()
    rows, expected = [], set()
    for irq, (controller, queue) in zip(irqs[:-1], names, strict=True):
        fired = data.draw(st.dictionaries(st.sampled_from(cpus), st.integers(1, 2**32 - 1), max_size=4))
        rows.append(nvme_line(irq, one_hot(cpus, fired), f"nvme{controller}q{queue}"))
        total = sum(fired.values())
        expected.add((f"nvme{controller}", queue, irq, format_cpulist(fired), total))
    rows.append(Line(str(irqs[-1]), one_hot(cpus, {}), "IR-PCI-MSI 1-edge      eth0"))
    parsed = parse_interrupts(render_interrupts(cpus, rows))
    assert parsed.cpus == tuple(cpus)
    assert {(v.controller, v.queue, v.irq, v.fired_cpus, v.total) for v in parsed.vectors} == expected
    assert parsed.gaps == ()


pieces = st.sampled_from(
    [
        "CPU0",
        "CPU1",
        "CPU99999999",
        "12:",
        "NMI:",
        " 7",
        "...",
        "nvme0q1",
        "nvme0q",
        "-edge",
        "PCI-MSI",
        "IRQ TOTAL NAME",
        *(
            " ",
            "\n",
            "\t",
            "\r",
            "\x1b[0m",
            "[4m",
            ":",
            ",",
            "²",
            "٣",
            "9" * 30,
            "0000:01:00.0",
            "Edge",
            ">",
            "'",
            "\\n",
        ),
    ]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=60).map(" ".join), st.lists(pieces, max_size=60).map("".join)))
@settings(max_examples=400)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parsed = parse_interrupts(text)
    except ParseError:
        return
    assert isinstance(parsed, Interrupts)
    assert all(v.total is None or v.total >= 0 for v in parsed.vectors)


@given(st.integers(0, len(TABLE)), st.integers(0, len(TABLE)), st.text(max_size=5))
def test_a_damaged_table_tells_nothing_false_of_whole_rows(start: int, length: int, put: str) -> None:
    try:
        parsed = parse_interrupts(TABLE[:start] + put + TABLE[start + length :])
    except ParseError:
        return
    assert isinstance(parsed, Interrupts)


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "unit",
    [
        "x",
        "1",
        "1:\n",
        "1: 0 ",
        "12: 0 nvme0q1\n",
        "nvme0q1,",
        "CPU1 ",
        " ",
        "\n",
        "\t\n",
        "[1",
        "CPU1 CPU1",
        "...",
        "\x1b",
    ],
)
def test_fifty_megabytes_of_noise(unit: str) -> None:
    text = unit * (50_000_000 // len(unit))
    begin = time.process_time()
    with suppress(ParseError):
        parse_interrupts(text)
    parse_interrupts("  CPU0 CPU1\n 5: 1 1 PCI-MSI 1-edge\n" + text)
    assert time.process_time() - begin < 30


def test_a_large_machine_is_read_at_once() -> None:
    cpus = range(512)
    zeros = [0] * 512
    rows = [Line(str(i), zeros, f"IR-PCI-MSIX-0000:3b:00.0 {i}-edge      mlx5_comp{i}") for i in range(3000)]
    rows += [nvme_line(3000 + i, one_hot(cpus, {i % 512: 7}), f"nvme{i // 129}q{i % 129}") for i in range(1000)]
    text = render_interrupts(cpus, rows)
    begin = time.process_time()
    parsed = parse_interrupts(text)
    assert time.process_time() - begin < 1.0
    assert len(parsed.vectors) == 1000
    assert parsed.vectors[5].fired_cpus == "5"
