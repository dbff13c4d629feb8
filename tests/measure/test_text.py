"""Results as text: every figure with its unit and what it is; nothing that was not measured."""

from typing import Any

import msgspec
import pytest

from hostdoctor.measure.against_near import AgainstNear
from hostdoctor.measure.comparison import Verdict
from hostdoctor.measure.documents import (
    Bandwidth,
    BatchLatency,
    CacheHits,
    Circumstances,
    Clock,
    DiskMeans,
    DiskWatch,
    LatencyDifference,
    MemoryCell,
    MemoryDocument,
    NodeBuffer,
    NvmeDocument,
    NvmeRun,
    ReadLatency,
    WatchDocument,
)
from hostdoctor.measure.memory_verdict import MemoryComparison
from hostdoctor.measure.nvme_verdict import NvmeComparison
from hostdoctor.measure.placing import Placement
from hostdoctor.measure.quantiles import quantile
from hostdoctor.outputs.measure_text import render_memory, render_nvme, render_watch
from hostdoctor.outputs.style import Style

HERE = Circumstances(at="2026-01-01T00:00:00+00:00", hostdoctor="1", hostname="gpu7")
PLAIN = Style()


def latency(p50: float) -> BatchLatency:
    return BatchLatency(
        batches=900,
        loads_per_batch=10_000,
        p50_of_batch_means_ns=p50,
        p99_of_batch_means_ns=p50 + 9,
        visits_p50_ns=(p50,),
    )


def memory(*cells: MemoryCell, **changes: Any) -> MemoryDocument:
    placement = Placement(pages={0: 100}, asked=100, total=100, source="move_pages")
    return msgspec.structs.replace(
        MemoryDocument(
            circumstances=HERE,
            method="native",
            clock=Clock(reading_ns=40, call_ns=130),
            size_bytes=1 << 30,
            wanted_bytes=1 << 30,
            stride_bytes=256,
            l3_bytes=32 << 20,
            buffers=(NodeBuffer(node=0, huge_bytes=1 << 29, placement_before=placement),),
            cells=cells,
        ),
        **changes,
    )


def test_a_matrix_of_latencies() -> None:
    cells = [
        MemoryCell(cpu_node=cpu, memory_node=node, latency=latency(90 + 60 * abs(cpu - node)))
        for cpu in (0, 1)
        for node in (0, 1, 2)
    ]
    assert render_memory(memory(*cells), PLAIN).splitlines() == [
        "gpu7: CPUs of 2 nodes, memory of 3 nodes",
        "1.0 GiB a node, a line every 256 bytes touched in random order; last cache 32 MiB",
        "memory of node 0: 100% of 100 pages asked about are there (move_pages), 50% in huge pages",
        "Latency of a dependent load, ns: p50 (p99) of means of 10000 loads",
        "                       memory 0       memory 1       memory 2",
        "  CPUs of node 0    90.0 (99.0)  150.0 (159.0)  210.0 (219.0)",
        "  CPUs of node 1  150.0 (159.0)    90.0 (99.0)  150.0 (159.0)",
        "clock: 40 ns a reading, 130 ns a call",
    ]


def test_verdicts_promise_no_more_than_the_visits() -> None:
    told = MemoryComparison(
        cpu_node=0,
        memory_node=1,
        statistic="latency",
        result=AgainstNear(
            pairs=20,
            pairs_needed=6,
            ratio=1.674,
            ratio_ci=(1.6, 1.75),
            p_value=1e-6,
            verdict="near-faster",
        ),
    )
    same = MemoryComparison(
        cpu_node=0,
        memory_node=1,
        statistic="read",
        result=AgainstNear(
            pairs=6,
            pairs_needed=6,
            ratio=1.01,
            ratio_ci=(0.95, 1.06),
            p_value=0.4,
            detectable_ratio=1.08,
            verdict="no-measurable-difference",
        ),
    )
    few = MemoryComparison(
        cpu_node=0,
        memory_node=2,
        statistic="latency",
        result=AgainstNear(pairs=1, pairs_needed=6, verdict="insufficient", reason="1 of 6 pairs"),
    )
    rate = Bandwidth(p50_gbytes_per_s=10.0, visits_gbytes_per_s=(10.0,))
    cell = MemoryCell(cpu_node=0, memory_node=0, latency=latency(90), read=rate)
    text = render_memory(memory(cell, comparisons=(told, same, few)), PLAIN)
    lines = [line for line in text.splitlines() if line.startswith("from node")]
    assert lines == [
        "from node 0, memory of node 1: 1.67 times the near time [1.60-1.75], near is faster by 67 %",
        "from node 0, memory of node 2: insufficient (1 of 6 pairs)",
        "from node 0, memory of node 1: 1.01 times the near time [0.95-1.06], no measurable difference"
        " (would have seen ≥ 8.0 %)",
    ]


def test_differences_are_not_dressed_up_as_latency() -> None:
    far = LatencyDifference(p50_ns=63.25, visits_ns=(63.25,), batches=5, loads_per_batch=2000)
    cells = (MemoryCell(cpu_node=0, memory_node=0), MemoryCell(cpu_node=0, memory_node=1, latency_difference=far))
    text = render_memory(memory(*cells, method="interpreted", interpreter_overhead_ns=18.4), PLAIN)
    assert "difference to the near memory, ns (median over visits)" in text
    assert "  CPUs of node 0      near     +63.2" in text
    assert "18 ns of each load are the interpreter's" in text
    assert "times the near" not in text


def test_what_was_not_measured_is_a_dash_and_a_reason() -> None:
    cells = (
        MemoryCell(
            cpu_node=0,
            memory_node=0,
            latency=latency(90),
            read=Bandwidth(p50_gbytes_per_s=12.34, visits_gbytes_per_s=(12.34,)),
        ),
        MemoryCell(cpu_node=0, memory_node=1, skipped="node 1 is outside this process's cpuset (Mems_allowed_list 0)"),
    )
    text = render_memory(memory(*cells, notes=("no second CPU node: near only",)), PLAIN)
    assert "not measured: CPUs of node 0, memory of node 1: node 1 is outside this process's cpuset" in text
    assert "  CPUs of node 0      12.3         -" in text
    assert "Bandwidth of write" not in text
    assert "note: no second CPU node: near only" in text


def run(node: int, near: bool | None, repeat: int, p99: int, samples: int = 100_000) -> NvmeRun:
    told = ReadLatency(samples=samples, p50_ns=68_096, p99_ns=p99, p999_ns=1_712_128, iops=13_824.5)
    disk = DiskMeans(r_await_ms=0.0541, queue_depth=0.87)
    return NvmeRun(
        cpu_node=node,
        near=near,
        block_bytes=16384,
        queue_depth=1,
        repeat=repeat,
        command=("fio",),
        latency=told,
        disk=disk,
    )


def drive(*runs: NvmeRun, node: int | None = 1) -> str:
    document = NvmeDocument(
        circumstances=HERE,
        drive="nvme0",
        path="/dev/nvme0n1",
        drive_node=node,
        fio="fio-3.33",
        runs=runs,
        notes=("a note",),
    )
    return render_nvme(document, PLAIN)


def test_each_runs_own_figures_stand_side_by_side() -> None:
    text = drive(
        run(1, True, 0, 146_432), run(0, False, 0, 150_528), run(0, False, 1, 150_529), run(1, True, 1, 146_433)
    )
    assert text.startswith("/dev/nvme0n1 (nvme0, node 1), fio-3.33: random reads, direct\n")
    assert "1 near  68.096 / 68.096  146.432 / 146.433  1712.128 / 1712.128  0.054 / 0.054  0.870 / 0.870" in text
    assert "0 far  68.096 / 68.096  150.528 / 150.529" in text
    assert "note: a note" in text


@pytest.mark.parametrize(
    ("samples", "p99", "p999"), [(367, "n/a", "n/a"), (3687, "146.432", "n/a"), (3688, "146.432", "1712.128")]
)
def test_quantiles_of_too_few_reads_are_not_shown(samples: int, p99: str, p999: str) -> None:
    row = drive(run(1, None, 0, 146_432, samples), node=None).splitlines()[2].replace(" (N too small)", "")
    assert row.split()[2:6] == ["1", "68.096", p99, p999]


def compared(pairs: int, verdict: Verdict, reason: str = "") -> str:
    result = AgainstNear(pairs=pairs, pairs_needed=8, ratio=1.25, ratio_ci=(1.1, 1.42), verdict=verdict, reason=reason)
    told = NvmeComparison(cpu_node=0, block_bytes=16384, queue_depth=8, statistic="p99", result=result)
    return render_nvme(NvmeDocument(circumstances=HERE, path="/dev/nvme0n1", drive_node=1, comparisons=(told,)), PLAIN)


def test_verdicts_on_a_drive_need_repeats() -> None:
    assert "no verdict on near and far from so few runs: --repeats 8 or more" in compared(2, "insufficient", "2 of 8")
    assert (
        "16 KiB, depth 8, p99, from node 0: 1.25 times the near time [1.10-1.42], near is faster by 25 %"
        in compared(10, "near-faster")
    )
    assert "verdict" not in drive(run(1, None, 0, 5), node=None)


def test_a_run_that_failed_says_why() -> None:
    failed = NvmeRun(
        cpu_node=0,
        near=False,
        block_bytes=16384,
        queue_depth=1,
        repeat=0,
        command=("fio",),
        failed="fio: exit status 1: no memory",
    )
    text = drive(run(1, True, 0, 5), failed)
    assert "failed from node 0: fio: exit status 1: no memory" in text
    assert text.splitlines()[2].split() == ["16", "1", "0", "far", "-", "-", "-", "-", "-", "-"]


def test_what_was_watched() -> None:
    document = WatchDocument(
        circumstances=HERE,
        seconds=10.04,
        disks=(
            DiskWatch(disk="nvme0n1", means=DiskMeans(r_await_ms=0.0832, queue_depth=1.5)),
            DiskWatch(disk="nvme1n1"),
        ),
        caches=(
            CacheHits(cache="vLLM prefix cache", queries=2000, hits=500, hit_percent=25.0),
            CacheHits(cache="vLLM external prefix cache", queries=0, hits=0),
            CacheHits(cache="another"),
        ),
    )
    assert render_watch(document, PLAIN).splitlines() == [
        "10.0 s without load of our own",
        "disk     r_await ms  w_await ms  queue",
        "nvme0n1       0.083           -  1.500",
        "nvme1n1           -           -      -",
        "-: too little I/O to tell (less than 100 ms of it in all)",
        "vLLM prefix cache: 25.0 % of 2000 tokens found",
        "vLLM external prefix cache: nothing was looked up",
        "another: its counters went backwards or do not add up: was the engine restarted?",
    ]


def test_an_engine_without_cache_counters() -> None:
    document = WatchDocument(circumstances=HERE, seconds=1.0, metrics_url="http://127.0.0.1:8000/metrics")
    assert "no cache counters of vLLM at that address" in render_watch(document, PLAIN)


@pytest.mark.parametrize(
    ("values", "share", "quantile_"),
    [((), 0.5, None), ((7,), 0.99, 7), ((1, 2, 3, 4), 0.5, 2), (range(1, 101), 0.99, 99), (range(1, 102), 0.99, 100)],
)
def test_quantiles_are_samples(values: Any, share: float, quantile_: int | None) -> None:
    assert quantile(list(values)[::-1], share) == quantile_
