"""NVIDIA bug reports: the map that they give is the host's, as far as they know it; hostile ones end in one line."""

import gzip
import io
import json
import resource
import subprocess  # noqa: TID251  a process of its own, whose memory is limited
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostdoctor.errors import SourceError
from hostdoctor.facts import Host
from hostdoctor.parsers import bug_report as parser
from hostdoctor.sources import bug_report as module
from hostdoctor.sources.base import LSPCI
from hostdoctor.sources.bug_report import BugReportSource, read_bug_report, source_of
from hostdoctor.sources.opening import open_source
from hostdoctor.survey import survey_map
from tests.cli.support import hostdoctor
from tests.support.bug_report import of_machine, pack, padded
from tests.support.built_bug_report import built_source, of_built
from tests.support.hostbuilder import build_files, host_names, load_host

GPU_FIELDS = ("index", "bdf", "name", "uuid", "numa_node", "link", "upstream", "root_complex", "memory_bytes", "driver")
LIMIT_BYTES = 400 << 20  # of address space, most of it libraries
MIB = 1 << 20


def report(name: str, **more: object) -> str:
    return of_built(build_files(load_host(name)), name, **more)


def read(text: str) -> Host:
    return survey_map(source_of(io.BytesIO(text.encode()), "report"))


def known_alike(ours: tuple[object, ...], theirs: tuple[object, ...]) -> bool:
    """Tell whether two records agree wherever both know."""
    return all(a == b for a, b in zip(ours, theirs, strict=True) if a not in (None, ()) and b not in (None, ()))


@pytest.mark.parametrize("name", host_names())
def test_a_report_gives_the_map_of_its_host(name: str) -> None:
    files = build_files(load_host(name))
    host, found = survey_map(built_source(files, name)), read(of_built(files, name))
    assert len(found.gpus) == len(host.gpus)
    for ours, theirs in zip(host.gpus, found.gpus, strict=True):
        assert ours.bdf == theirs.bdf
        if host.system.container is None:
            values = [tuple(getattr(gpu, field) for field in GPU_FIELDS) for gpu in (ours, theirs)]
            assert known_alike(*values)
    assert [(n.id, n.cpus, n.distances, n.kind) for n in found.numa_nodes] == [
        (n.id, n.cpus, n.distances, "memory-only" if n.kind == "gpu-memory" else n.kind) for n in host.numa_nodes
    ]
    for node, other in zip(host.numa_nodes, found.numa_nodes, strict=True):
        assert known_alike((node.package,), (other.package,))
        assert abs((node.memory_bytes or 0) - (other.memory_bytes or 0)) <= MIB
    assert {nic.bdf for nic in host.nics} <= {nic.bdf for nic in found.nics}
    assert {drive.bdf for drive in host.nvme} <= {drive.bdf for drive in found.nvme}
    assert found.system.hostname == host.system.hostname
    assert found.system.nvidia_driver == host.system.nvidia_driver
    assert found.settings.get("kernel.numa_balancing") == host.settings.get("kernel.numa_balancing")
    assert not found.disagreements


def test_a_report_of_this_machine_gives_its_map(tmp_path: Path) -> None:
    path = tmp_path / "nvidia-bug-report.log.gz"
    path.write_bytes(pack(of_machine()))
    live = hostdoctor("topo", "--format", "json")
    found, host = (survey_map(open_source([str(path)])), live.out)
    assert live.status == 0
    told = json.loads(host)
    assert [(n.id, n.cpus) for n in found.numa_nodes] == [(n["id"], n["cpus"]) for n in told["numa_nodes"]]
    ours = [(d.bdf, d.vendor_id, d.device_id, d.root_complex, list(d.upstream)) for d in found.pci_devices]
    assert ours == [
        (d["bdf"], d["vendor_id"], d["device_id"], d["root_complex"], d["upstream"]) for d in told["pci_devices"]
    ]
    assert (found.system.hostname, found.system.kernel) == (told["system"]["hostname"], told["system"]["kernel"])


@pytest.mark.parametrize("form", ["fence", "quote", "crlf", "old", "cut gzip", "one gzip"])
def test_forms_in_which_a_report_arrives(form: str, tmp_path: Path) -> None:
    text = report("l40s-4")
    data = {
        "fence": f"My GPU is slow:\n\n```\n{text}```\n".encode(),
        "quote": "".join(f"> {line}\n" for line in text.splitlines()).encode(),
        "crlf": text.replace("\n", "\r\n").encode(),
        "old": "\n".join(
            line.removeprefix("*** ") for line in text.split("\n") if not line.startswith("*** ls: ")
        ).encode(),
        "cut gzip": pack(text)[:-200],
        "one gzip": gzip.compress(text.encode()),
    }[form]
    path = tmp_path / "anything"
    path.write_bytes(data)
    found, whole = survey_map(open_source([str(path)])), read(text)
    assert [(g.bdf, g.numa_node, g.name, g.link) for g in found.gpus] == [
        (g.bdf, g.numa_node, g.name, g.link) for g in whole.gpus
    ]
    assert found.numa_nodes == whole.numa_nodes


def test_safe_mode_and_a_missing_tool_are_gaps() -> None:
    for more, reason in (
        ({"flags": "--safe-mode"}, "made with --safe-mode, which leaves nvidia-smi out"),
        ({"query": None}, "nvidia-smi not found"),
    ):
        found = read(report("l40s-4", **more))
        gap = next(gap for gap in found.gaps if gap.fact == "source:nvidia-smi-q")
        assert (gap.reason, gap.kind) == (reason, "missing")
        assert [gpu.numa_node for gpu in found.gpus] == [gpu.numa_node for gpu in read(report("l40s-4")).gpus]


def test_a_driver_that_fails_is_said() -> None:
    words = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    found = read(report("l40s-4", query=words + "\n"))
    assert (found.nvidia.state, found.nvidia.reason) == ("error", words)


def test_the_same_command_twice_is_compared() -> None:
    text = report("l40s-4")
    rule = text.partition("\n")[0]
    first = text.index("/usr/bin/numactl -H")
    block = text[first : text.index(rule, first)]
    again = block.replace(" cpus: 0 2 ", " cpus: 2 ", 1)
    found = read(text.replace(block, f"{block}{rule}\n\n{again}", 1))
    assert found.numa_nodes == read(text).numa_nodes
    assert "numa_nodes[0].cpus" in [d.fact for d in found.disagreements]


def test_missing_files_say_so() -> None:
    source = source_of(io.BytesIO(report("l40s-4").encode()), "report")
    assert source.why_unreadable("/proc/pci") == ("missing", "does not exist")
    assert source.why_unreadable("/proc/zoneinfo") == ("missing", "not in the bug report")


def test_a_report_on_standard_input(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hostdoctor", "topo", "--from", "-"],
        input=report("workstation").encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert b"1 GPU" in done.stdout


def test_a_bomb_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNPACKED_BYTES", 8 << 20)
    path = tmp_path / "bomb.log.gz"
    path.write_bytes(pack(report("workstation")) + gzip.compress(bytes(9 << 20)))
    ran = hostdoctor("topo", "--from", str(path))
    assert ran.status == 3
    assert ran.err.count("\n") == 1
    assert "refused: unpacks to more than 8 MiB" in ran.err


def test_a_report_with_nothing_in_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.write_text(report("workstation")[:500], encoding="utf-8")
    with pytest.raises(SourceError, match="nothing known in this bug report"):
        open_source([str(path)])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_reports_give_a_host_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    text = SMALL
    packed = pack(text) if data.draw(st.booleans()) else text.encode()
    at, length = data.draw(st.integers(0, len(packed))), data.draw(st.integers(0, 2000))
    damaged = packed[:at] + data.draw(st.binary(max_size=50)) + packed[at + length :]
    path = tmp_path / "report.log"
    path.write_bytes(damaged)
    assert_host_or_one_line(lambda: read_bug_report(path, "report"))


def assert_host_or_one_line(opened: Callable[[], BugReportSource]) -> None:
    message = ""
    try:
        survey_map(opened())
    except SourceError as error:
        message = str(error)
    assert "\n" not in message


@settings(max_examples=200)
@given(st.lists(st.integers(0, 10_000) | st.text(max_size=60), max_size=40))
def test_sections_in_any_order_give_a_host_or_one_line(drawn: list[int | str]) -> None:
    lines = [LINES[line % len(LINES)] if isinstance(line, int) else line for line in drawn]
    stream = io.BytesIO("\n".join(lines).encode("utf-8", "replace"))
    assert_host_or_one_line(lambda: source_of(stream, "report"))


@pytest.mark.parametrize("line", [b"", b"\0" * 5000 + b"\n", b"x" * 100_000])
def test_a_large_report_is_read_within_little_memory(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "large.log"
    text = padded(report("l40s-4"), 30 << 20).encode()
    at = text.index(b"dmesg:\n\n") + 8
    path.write_bytes(text[:at] + line * 100 + text[at:])
    done = subprocess.run(
        [sys.executable, "-m", "hostdoctor", "topo", "--from", str(path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES)),
    )
    assert done.returncode == 0, done.stderr
    assert "4 GPUs" in done.stdout


SMALL = report("workstation")
LINES = SMALL.splitlines()[:400] + [line for line in SMALL.splitlines() if line.startswith(("_", "*** ", "/usr"))]


def test_a_report_packed_in_several_pieces_is_whole(tmp_path: Path) -> None:
    data = report("workstation").encode()
    path = tmp_path / "report.log.gz"
    path.write_bytes(b"".join(gzip.compress(data[at : at + 1000]) for at in range(0, len(data), 1000)))
    whole = source_of(io.BytesIO(data), "report")
    assert survey_map(read_bug_report(path, "report")) == survey_map(whole)


def test_a_report_packed_in_crumbs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.log.gz"
    path.write_bytes(pack(report("workstation")) + gzip.compress(b"a") * 100_000)
    with pytest.raises(SourceError, match="too many pieces"):
        open_source([str(path)])


def test_a_report_of_countless_sections_is_read_as_far_as_any_report_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_OUTPUTS", 9)
    rule = "_" * 44 + "\n\n"
    commands = "".join(f"{rule}/usr/bin/lspci -nn{'v' * i}\n\n00:0{i}.0 Host bridge\n" for i in range(1, 99))
    found = source_of(io.BytesIO((report("workstation") + commands).encode()), "report")
    assert 0 < len(found.run(LSPCI)) <= 9
    monkeypatch.setattr(parser, "MAX_TOTAL_BYTES", 1 << 20)
    files = "".join(f"{rule}*** /proc/f{i}\n*** ls: x\n1\n" for i in range(9999))
    missing = "".join(f"{rule}*** /proc/m{i} does not exist\n" for i in range(9999))
    found = source_of(io.BytesIO((report("workstation") + files + missing).encode()), "report")
    assert 0 < len(found.listdir("/proc")) < 9999
    assert found.why_unreadable("/proc/m9998") == ("missing", "not in the bug report")


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("length", [1, 64])
def test_a_damaged_report_is_refused_for_nobody_knows_what_in_it_is_wrong(
    tmp_path: Path, share: float, length: int
) -> None:
    """A bit that flipped may unpack to another digit long before anything shows: only a sum at the end does."""
    packed = bytearray(pack(SMALL))
    at = int(len(packed) * share)
    packed[at : at + length] = bytes(byte ^ 0x10 for byte in packed[at : at + length])
    path = tmp_path / "report.log.gz"
    path.write_bytes(packed)
    with pytest.raises(SourceError, match="unreadable archive: Error"):
        open_source([str(path)])


@pytest.mark.parametrize("lost", range(1, 14))
def test_a_report_whose_sum_is_cut_off_is_whole(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "report.log.gz"
    path.write_bytes(pack(SMALL)[:-lost])
    found = survey_map(read_bug_report(path, "report"))
    assert [(gpu.name, gpu.bdf) for gpu in found.gpus] == [("NVIDIA GeForce RTX 4090", "0000:01:00.0")]


def test_a_cut_within_a_file_costs_the_file(tmp_path: Path) -> None:
    """Half a list of CPUs is a host with one package and no second threads."""
    text = report("l40s-4")
    whole = read(text)
    start = text.index("*** /proc/cpuinfo")
    end = text.index("_" * 40, start)
    for share in (0.1, 0.5, 0.9, 0.99):
        source = source_of(io.BytesIO(text[: int(start + (end - start) * share)].encode()), "report")
        assert source.read("/proc/cpuinfo") is None
        assert source.why_unreadable("/proc/cpuinfo") == ("missing", "the report ends within it")
        found = survey_map(source)
        assert found.system.packages in (None, whole.system.packages)
        assert {core.cpus for core in found.cores} <= {core.cpus for core in whole.cores}


def test_a_line_that_is_cut_is_left_out() -> None:
    text = report("l40s-4")
    start = text.index("0000:27:00.0 3D controller [0302]: NVIDIA L40S")
    for length in range(40, 46):  # "NVIDI", "NVIDIA L4"
        names = {device.name for device in read(text[: start + length]).pci_devices}
        assert names <= {device.name for device in read(text).pci_devices} | {None}


def test_reports_of_two_hosts_are_not_one() -> None:
    both = report("workstation") + "\n" + report("l40s-4")
    with pytest.raises(SourceError, match="report: bug reports of several hosts in one file"):
        source_of(io.BytesIO(both.encode()), "report")
    assert read(SMALL + "\n" + SMALL).system.hostname == "workstation"


def test_of_a_file_that_is_too_large_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_SECTION_BYTES", 2000)
    source = source_of(io.BytesIO(report("l40s-4").encode()), "report")
    assert source.read("/proc/cpuinfo") is None
    assert source.why_unreadable("/proc/cpuinfo") == ("missing", "too large")
