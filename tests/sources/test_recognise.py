import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.sources.recognise import MAX_SECTIONS, Section, recognise
from tests.sources.samples import (
    BANNERS,
    INTERRUPTS,
    LSCPU,
    LSCPU_ZH,
    LSPCI,
    NUMACTL,
    NVME_JSON,
    PLAIN,
    REPORT,
    SGLANG,
    TOPO,
    TREE,
)


def kinds(text: str) -> list[str]:
    return [section.kind for section in recognise(text)]


def text_of(text: str, kind: str) -> str:
    (section,) = [section for section in recognise(text) if section.kind == kind]
    return section.text


def rstripped(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


@pytest.mark.parametrize("kind", PLAIN)
def test_hands_out_a_whole_output(kind: str) -> None:
    assert recognise(PLAIN[kind]) == (Section(kind=kind, text=rstripped(PLAIN[kind]), first_line=1),)  # type: ignore[arg-type]


@pytest.mark.parametrize("first", PLAIN)
@pytest.mark.parametrize("second", PLAIN)
@pytest.mark.parametrize("between", ["", "\n", "\n$ next command\n"])
def test_tells_two_outputs_apart(first: str, second: str, between: str) -> None:
    text = PLAIN[first] + between + PLAIN[second]
    assert kinds(text) == [first, second]
    assert rstripped(PLAIN[first]) in "".join(section.text for section in recognise(text))
    assert recognise(text)[1].text.endswith(rstripped(PLAIN[second]))
    assert recognise(text)[1].first_line == (PLAIN[first] + between).count("\n") + 1


@given(
    st.permutations(list(PLAIN)), st.lists(st.sampled_from(["", "\n", "\n\nprose\n\n", "```\n", "$ cmd\n"]), min_size=7)
)
def test_finds_every_output_in_any_order(order: list[str], between: list[str]) -> None:
    assert kinds("".join(PLAIN[kind] + gap for kind, gap in zip(order, between, strict=False))) == order


PREFIXES: dict[str, Callable[[int], str]] = {
    "quote": lambda i: "> ",
    "double quote": lambda i: ">> ",
    "quote without blank": lambda i: ">",
    "rank": lambda i: "[rank0]: ",
    "ray": lambda i: "(Worker pid=4711, ip=10.0.0.7) ",
    "kubernetes": lambda i: f"2025-06-03T16:33:{i % 60:02d}.{i * 7919 % 1000:03d}Z stdout F ",
    "logger": lambda i: f"2025-06-03 16:33:{i % 60:02d}.542[{6000 + i}][DEBUG] a.env[one_3].node[0].stdout ",
    "syslog": lambda i: f"Jun  3 16:33:{i % 60:02d} node-01 bash[99]: ",
    "level": lambda i: f"INFO 06-03 16:33:{i % 60:02d} [env.py:{i}] ",
    "compose": lambda i: "vllm-1  | ",
    "srun": lambda i: "0: ",
    "comment": lambda i: "# ",
    "indent": lambda i: "    ",
}


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_takes_a_log_prefix_off(kind: str, prefix: str) -> None:
    mark = PREFIXES[prefix]
    lines = rstripped(PLAIN[kind]).splitlines()
    logged = "".join(mark(i) + line + "\n" for i, line in enumerate(["$ command", *lines, "", "$ next"]))
    (section,) = recognise(f"before\n{logged}after\n")
    if prefix == "indent":
        assert "\n".join(lines) in f"\n{section.text}".replace("\n    ", "\n")
    else:
        assert section.text.strip("\n") == "\n".join(lines)


@pytest.mark.parametrize("text", [REPORT, BANNERS])
def test_takes_a_report_to_pieces(text: str) -> None:
    for mangled in (text, text.replace("\n", "\r\n"), f"> ```text\n{text}> ```\n", f"\ufeff{text}"):
        assert kinds(mangled) == ["collect-env", "lscpu", "topo-matrix"]
        assert text_of(mangled, "topo-matrix") == rstripped(TOPO)
        assert text_of(mangled, "lscpu").startswith((rstripped(LSCPU), rstripped(LSCPU_ZH)))


def test_takes_a_report_to_pieces_that_a_cluster_logged() -> None:
    logged = "".join(f"(test pid=17527, ip=192.0.2.1) {line}\n" for line in REPORT.splitlines())
    assert recognise(logged)[1:] == recognise(REPORT)[1:]


@pytest.mark.parametrize(
    "who", ["(run pid={}, ip=192.0.2.{}) ", "[rank{}]: ", "2025-06-03T16:33:56Z [pod/a-{}/b] ", "[1,{}]<stdout>:"]
)
def test_sorts_what_several_processes_wrote_in_turn(who: str) -> None:
    other = TOPO.replace("NV6", "SYS").replace("\t0-15", "\t8-9")
    lines = [
        who.format(writer, writer) + line
        for pair in zip(TOPO.splitlines(), other.splitlines(), strict=True)
        for writer, line in enumerate(pair)
    ]
    first, second = recognise("before\n" + "\n".join(lines) + "\nafter\n")
    assert (first.text, second.text) == (rstripped(TOPO), rstripped(other))
    assert (first.first_line, second.first_line) == (2, 3)


def test_takes_an_sglang_report_to_pieces() -> None:
    assert kinds(SGLANG) == ["collect-env", "topo-matrix"]
    assert "Hypervisor vendor: KVM" in recognise(SGLANG)[0].text


@pytest.mark.parametrize(
    "said", ["Could not collect", "  Could not collect", "(w pid=1, ip=192.0.2.1) Could not collect"]
)
def test_recognises_that_there_is_no_matrix(said: str) -> None:
    assert kinds(f"GPU Topology:\n{said}\n\nHOME=/root\n") == ["collect-env"]


def test_does_not_take_a_heading_for_a_report() -> None:
    assert kinds("GPU Topology:\n" + TOPO) == ["topo-matrix"]


def test_recognises_lscpu_in_any_language() -> None:
    german = LSCPU.replace("Architecture:", "Architektur: ").replace("Byte Order:", "Byte-Reihenfolge:")
    german = german.replace("NUMA node(s): ", "NUMA-Knoten:  ").replace("On-line CPU(s) list", "Liste der Online-CPUs")
    german = german.replace("NUMA node0 CPU(s):", "NUMA-Knoten0 CPU(s):").replace("NUMA node1", "NUMA-Knoten1")
    for text in (LSCPU_ZH, german):
        assert text_of(f"root@host:~# lscpu\n{text}root@host:~#\n", "lscpu") == rstripped(text)


def test_recognises_grepped_lines_of_lscpu_in_any_language() -> None:
    chinese = "NUMA 节点0 CPU：    0-63\nNUMA 节点1 CPU：    64-127\n"
    spanish = "Modo(s) NUMA:                        1\nCPU(s) del nodo NUMA 0:              0-3\n"
    assert kinds(chinese) == ["lscpu"]
    assert kinds("[0]: " + spanish.replace("\n", "\n[0]: ")) == ["lscpu"]
    assert kinds(chinese + chinese) == ["lscpu", "lscpu"]


def test_recognises_lscpu_as_json() -> None:
    pairs = [line.split(":", 1) for line in LSCPU.splitlines()]
    entries = ",".join(f'{{\n         "field": "{k}:",\n         "data": "{v.strip()}"\n      }}' for k, v in pairs)
    section = text_of(f'{{\n   "lscpu": [\n      {entries}\n   ]\n}}\n', "lscpu")
    assert section.count('"field"') == len(pairs)


def test_recognises_grepped_lines() -> None:
    assert kinds("NUMA node0 CPU(s):     0-31\nNUMA node1 CPU(s):     32-63\n") == ["lscpu"]
    assert kinds("No NUMA available on this system\n") == ["numactl"]
    assert kinds("".join(line + "\n" for line in INTERRUPTS.splitlines() if "nvme" in line)) == ["interrupts"]


def test_recognises_a_matrix_of_one_gpu_only_with_its_header() -> None:
    rows = "GPU0\t X \t\t\t\tN/A\n"
    assert kinds("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n" + rows) == ["topo-matrix"]
    assert kinds("\tGPU0\n" + rows) == []


@pytest.mark.parametrize("escape", ["\x1b[4m", "[4m"])
def test_sees_through_terminal_escapes(escape: str) -> None:
    assert text_of("\t" + escape + TOPO[1:].replace("ID\n", "ID\x1b[0m\n"), "topo-matrix") == rstripped(TOPO)


def test_keeps_a_wrapped_header_and_the_legend_with_their_matrix() -> None:
    wrapped = TOPO.replace("CPU Affinity\tNUMA Affinity\tGPU NUMA ID\n", "CPU Affini\nty\tNUMA Affinity\tGPU NUMA ID\n")
    assert text_of("$ nvidia-smi topo -m\n" + wrapped + "$\n", "topo-matrix") == rstripped(wrapped)


def test_splits_several_matrices_and_drops_status_tables() -> None:
    status = "\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
    text = f"$ nvidia-smi topo -p2p r\n{status}$ nvidia-smi topo -m\n{TOPO}\nnode 2:\n{TOPO}{status}"
    assert [section.first_line for section in recognise(text)] == [11, 26]
    assert {section.text for section in recognise(text)} == {rstripped(TOPO)}


def test_splits_listings_that_show_a_function_twice() -> None:
    first, second = recognise(LSPCI + "\n" + LSPCI)
    assert first.text.strip() == second.text.strip() == LSPCI.strip()


def test_keeps_devices_asked_one_by_one_in_one_listing() -> None:
    text = LSPCI.replace("\n\n", "\n```\n\nThe other one:\n```\n$ sudo lspci -vvv -s 00:1f.0\n")
    assert text_of(f"# hardware\n```\n{text}```\n", "lspci") == text + "```\n" or kinds(text) == ["lspci"]


def test_gives_the_whole_json_without_the_messages_above_it() -> None:
    text = f"Failed to open /sys/class/nvme/nvme1 with errno 2\n{NVME_JSON}bye\n"
    assert recognise(text) == (Section(kind="nvme-list", text=NVME_JSON, first_line=2),)
    assert kinds('{"Devices":[{"NameSpace":1,"DevicePath":"/dev/nvme0n1","ModelNumber":"x"}]}') == ["nvme-list"]


NOT_KNOWN = {
    "nothing": "",
    "prose": "Run nvidia-smi topo -m; GPU0 and GPU1 should show NV12, not SYS. See lspci -tv and numactl -H.\n",
    "p2p": "        GPU0    GPU1\n GPU0   X       NS\n GPU1   CNS     X\n",
    "p2p in a comment": "//        GPU0 GPU1\n//   GPU0 X    OK\n//   GPU1 OK   X\n",
    "p2p of one": " \tGPU0\n GPU0\tX\n",
    "rocm": "       GPU0         GPU1\nGPU0   0            XGMI\nGPU1   XGMI         0\nGPU[0]\t: Numa Node: 0\n",
    "iostat": "Device            r/s     rMB/s  %util\nnvme1n1       6221.00    956.09  99.00\n",
    "fio": '{\n  "fio version" : "fio-3.33",\n  "jobs" : [\n    {\n      "jobname" : "x"\n    }\n  ]\n}\n',
    "df": "/dev/nvme0n1p2  916G  500G  370G  58% /\n",
    "bench": "============ Serving Benchmark Result ============\nP99 TTFT (ms):    1353.17\n",
    "nccl": '<cpu numaid="0" arch="x86_64" vendor="GenuineIntel">\n<pci busid="0000:01:00.0" class="0x030200"/>\n',
    "hwloc": "Machine (62GB total)\n  NUMANode L#0 (P#0 62GB)\n    L1d L#0 (32KB)\n      PCI 01:00.0 (VGA)\n",
    "hex": "00: 86 80 10 9d 07 04 10 00 f1 00 04 06 00 00 81 00\n10: 00 00 00 00 00 00 00 00 00 02 02 00 d0 d0 00 20\n",
    "cpuinfo": "vendor_id\t: GenuineIntel\nmodel name\t: Example\nflags\t\t: fpu\nbogomips\t: 6000.00\n",
    "virsh": "CPU model:           x86_64\nCPU(s):              8\nCore(s) per socket:  4\nThread(s) per core:  2\n",
    "softirqs": "                CPU0   CPU1\n      HI:         1          0\n  TIMER:     3000       2000\n",
    "dmesg": "[  1.0] pci 0000:00:1f.0: [8086:1234] type 00\n[  2.0] nvme nvme0: 8/0/0 default/read/poll queues\n",
    "times": "10:05.3 Controller: started\n12:30:05.1 bridge: up\n",
    "code": 'if "NUMA node0 CPU(s):" in line:\n    re.match(r"node (\\d+) cpus:", line)\n    run(smi)\n',
    "table": "+-----+-----+\n| a   | b   |\n+-----+-----+\n",
    "node sizes": "NUMA node 0: 128\nCPU time on NUMA node 1: 12 s\n",
    "numbers": "  0:  10  20\n  1:  20  10\n",
    "os-release": 'NAME="Example"\nVERSION_ID="9"\n',
    "compose file": "services:\n  gpu:\n    environment:\n      - CUDA_VISIBLE_DEVICES=0\n",
    "pip": "[pip3] torch==2.7.0\n[conda] Could not collect\n",
}


@pytest.mark.parametrize("what", NOT_KNOWN)
def test_does_not_take_something_else_for_an_output(what: str) -> None:
    assert kinds(NOT_KNOWN[what]) == []


@given(st.text(max_size=2000))
def test_never_raises(text: str) -> None:
    assert isinstance(recognise(text), tuple)


LINES = sorted(
    {line for sample in (*PLAIN.values(), *NOT_KNOWN.values(), REPORT, SGLANG) for line in sample.split("\n")}
)


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from([*LINES, "\r", "\t", "\x1b[", ">", "> ", "(a pid=1)", "2025-06-03 16:33:56 "]), max_size=60
    )
)
def test_sections_lie_within_the_text_in_order(lines: list[str]) -> None:
    sections = recognise("\n".join(lines))
    starts = [section.first_line for section in sections]
    assert starts == sorted(starts)
    for section in sections:
        assert section.text.endswith("\n")
        assert (
            section.first_line + section.text.count("\n") - 1
            <= "\n".join(lines).count("\n") + "\r".join(lines).count("\r") + 1
        )


@pytest.mark.fuzz
@given(st.data())
def test_survives_any_damage(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([*PLAIN.values(), REPORT, BANNERS, SGLANG]))
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    recognise(text[:start] + data.draw(st.text(max_size=50)) + text[end:])


def test_stops_where_no_host_has_that_many() -> None:
    assert len(recognise(NUMACTL * 1000)) == MAX_SECTIONS


@pytest.mark.parametrize(
    "unit",
    [
        *(
            TOPO,
            TREE,
            LSCPU,
            INTERRUPTS,
            "\n",
            " ",
            ">",
            "GPU0 ",
            "CPU0 ",
            "1: 1 ",
            "\x1b[",
            '{"Devices" : ',
            "00:1f.0 ",
        ),
        *("(a pid=1) node 0 cpus: 1\n", "NUMA", "GPU 0,", "a:b:", "OS  ", "NV1", "\t", "---", "/dev/nvme0n1 "),
    ],
)
def test_takes_time_in_proportion_to_the_text(unit: str) -> None:
    text = unit * (3_000_000 // len(unit))
    start = time.process_time()
    recognise(text)
    assert time.process_time() - start < 5


def test_is_quick_with_a_large_log() -> None:
    rng = random.Random(7)
    words = ("GPU", "CPU", "usage:", "NCCL", "INFO", "Channel", "00/0", "P2P", "nvme0", "node", "0.0", "lorem", "ipsum")
    noise = "".join(" ".join(rng.choices(words, k=12)) + "\n" for _ in range(50_000))
    start = time.process_time()
    assert kinds(noise + TOPO) == ["topo-matrix"]
    assert time.process_time() - start < 3
