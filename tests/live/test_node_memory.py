"""On this machine the nodes' figures add up to the kernel's own MemAvailable."""

import re
from pathlib import Path

import pytest

from hostdoctor.budget.available import node_available
from hostdoctor.sources.live import LiveSource
from hostdoctor.survey import survey


def test_the_nodes_add_up_to_mem_available() -> None:
    host = survey(LiveSource(10.0))
    told = dict(re.findall(r"^(\w+): +(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE))
    if not host.numa_nodes or "MemAvailable" not in told:
        pytest.skip("this kernel shows neither nodes nor MemAvailable")
    left = [node_available(node).available_bytes for node in host.numa_nodes]
    free = [node.memory.free_bytes if node.memory else None for node in host.numa_nodes]
    assert None not in left
    assert None not in free
    # some guests' global counter holds free memory that no node has: that much is not any node's
    of_no_node = int(told["MemFree"]) * 1024 - sum(size or 0 for size in free)
    of_no_node = 0 if of_no_node < int(told["MemTotal"]) * 1024 // 100 else of_no_node
    expected = int(told["MemAvailable"]) * 1024 - of_no_node
    assert sum(size or 0 for size in left) == pytest.approx(expected, rel=0.02)
