"""HD901, HD902, HD903."""

from typing import Any

import pytest

from hostdoctor.facts import Gap, Host, NvidiaDriver
from tests.support.build_memory import fires, gap, load, quiet

source_missing = load("doctor", "source_missing")
source_timeout = load("doctor", "source_timeout")
source_unreadable = load("doctor", "source_unreadable")

NUMACTL = gap("source:numactl", "numactl --hardware", "numactl: command not found", "missing")
LSPCI = gap("source:lspci", "lspci -D -nn -v", "lspci: command not found", "missing")
BAD = gap("source:numactl", "n.txt", "n.txt, line 3: not understood: 'node 0 size: many'", "unreadable")
LATE = gap("source:topo-matrix", "nvidia-smi topo -m", "did not answer in time", "timeout")


class TestMissing:
    def test_all_missing_sources_are_one_line(self) -> None:
        found = fires(source_missing, Host(gaps=(NUMACTL, LSPCI, NUMACTL), is_live=True))
        assert found.severity == "info"
        assert found.subject == "numactl --hardware, lspci -D -nn -v"
        assert [seen.value for seen in found.evidence] == ["numactl: command not found", "lspci: command not found"]
        assert "install" in found.remedy.text

    def test_a_capture_needs_the_output_not_the_command(self) -> None:
        assert "--from" in fires(source_missing, Host(gaps=(NUMACTL,))).remedy.text

    @pytest.mark.parametrize(
        "other",
        [
            gap("numa_nodes[1].memory_bytes", "/sys/devices/system/node/node1/meminfo", "no such file", "missing"),
            gap("source:lspci", "lspci -D -nn -v", "exit status 1: no message", "error"),
            gap("gpus[0].numa_node", "nvidia-smi topo -m", "N/A"),
            BAD,
            LATE,
        ],
    )
    def test_other_gaps_are_not_missing_sources(self, other: Gap) -> None:
        assert quiet(source_missing, Host(gaps=(other,))) is None


class TestUnreadable:
    def test_the_line_is_quoted(self) -> None:
        found = fires(source_unreadable, Host(gaps=(BAD, BAD)))
        assert found.severity == "warning"
        assert found.subject == "n.txt"
        assert "node 0 size: many" in found.evidence[0].value
        assert len(found.evidence) == 1

    def test_quiet(self) -> None:
        assert quiet(source_unreadable, Host(gaps=(NUMACTL, LATE))) is None


class TestTimeout:
    def test_the_source_is_named_and_it_is_never_critical(self) -> None:
        found = fires(source_timeout, Host(gaps=(LATE,)))
        assert found.severity == "info"
        assert "nvidia-smi topo -m" in found.message

    def test_a_driver_that_hangs_without_a_gap(self) -> None:
        late = NvidiaDriver(state="timeout", reason="did not answer in time", gpu_count=8)
        found = fires(source_timeout, Host(nvidia=late, gaps=(LATE,)))
        assert found.subject == "nvidia-smi topo -m, NVML"

    def test_a_driver_that_hangs_with_a_gap_is_named_once(self) -> None:
        late = NvidiaDriver(state="timeout")
        found = fires(source_timeout, Host(nvidia=late, gaps=(gap("nvidia", "NVML", "no answer in 60 s", "timeout"),)))
        assert found.subject == "NVML"

    @pytest.mark.parametrize("state", ["ok", "error", "absent", None])
    def test_quiet(self, state: Any) -> None:
        assert quiet(source_timeout, Host(nvidia=NvidiaDriver(state=state), gaps=(NUMACTL, BAD))) is None
