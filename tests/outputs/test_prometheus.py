"""A report as Prometheus metrics: numbers, escapes, limits."""

import time
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hostdoctor.budget.pinned import Budget, NodeBudget
from hostdoctor.diagnosis import Report
from hostdoctor.facts import Gpu, Host, Link, NumaNode, Process, Sample, System
from hostdoctor.outputs.metric_names import METRICS, PREFIX
from hostdoctor.outputs.prometheus import MAX_LABEL_CHARACTERS, MAX_SERIES, Row, families, number, render_prometheus
from hostdoctor.outputs.report_metrics import Made, report_families
from tests.cli.support import hostdoctor
from tests.hosts.test_verdicts import report_on
from tests.support.build_memory import drive, two_nodes
from tests.support.hostbuilder import host_names
from tests.support.promtool import promtool

MADE = Made(version="0.1.0")
GIB = 1 << 30


def text_of(host: Host, budget: Budget | None = None) -> str:
    return render_prometheus(report_families(Report(host=host), MADE, budget))


@pytest.mark.parametrize("name", host_names())
def test_promtool_finds_nothing_to_say_about_any_host(name: str) -> None:
    text = render_prometheus(report_families(report_on(name), MADE))
    promtool("check", "metrics", text=text)
    assert 0 < len([line for line in text.splitlines() if not line.startswith("#")]) < 1000


def test_the_demo_is_told_to_the_lane() -> None:
    ran = hostdoctor("check", "--demo", "--format", "prometheus")
    assert ran.status == 2
    gpu5 = '{device="GPU5",kind="gpu",bdf="0000:aa:00.0"}'
    for line in (
        f"hostdoctor_pcie_link_width_lanes{gpu5} 8",
        f"hostdoctor_pcie_link_max_width_lanes{gpu5} 16",
        f"hostdoctor_pcie_link_transfers_per_second{gpu5} 32000000000",
        'hostdoctor_check_finding{check="HD201",name="gpu-link-narrow",subject="GPU5",severity="critical"} 1',
        'hostdoctor_status{status="critical"} 1',
        'hostdoctor_status{status="ok"} 0',
        "hostdoctor_gpus 8",
    ):
        assert f"\n{line}\n" in ran.out


def test_a_capture_has_no_time() -> None:
    assert "survey_timestamp" not in hostdoctor("check", "--demo", "--format", "prometheus").out


def test_this_host_has_one() -> None:
    before = time.time()
    ran = hostdoctor("check", "--format", "prometheus", "--select", "HD302")
    told = {family.name: family.samples for family in text_string_to_metric_families(ran.out)}
    assert before <= told["hostdoctor_survey_timestamp_seconds"][0].value <= time.time()
    assert told["hostdoctor_survey_duration_seconds"][0].value > 0


def test_output_goes_to_a_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "hostdoctor.prom"
    common = ("check", "--demo", "--format", "prometheus", "--output", str(path))
    assert hostdoctor(*common).status == 2
    assert path.read_text(encoding="utf-8") == hostdoctor("check", "--demo", "--format", "prometheus").out
    assert hostdoctor(*common).status == 64
    assert hostdoctor(*common, "--force").status == 2


def test_an_unknown_node_has_no_label_and_unknown_sizes_no_series() -> None:
    text = text_of(Host(gpus=(Gpu(index=0, name="X"),), numa_nodes=(NumaNode(id=3),)))
    assert 'hostdoctor_gpu_info{device="GPU0",model="X"} 1\n' in text
    assert "hostdoctor_numa_node" not in text
    assert "hostdoctor_pcie_link" not in text


def test_chip_to_chip_gpus_have_no_pcie_link() -> None:
    gpu = Gpu(index=0, c2c=True, link=Link(width_lanes=1, max_width_lanes=16))
    assert "hostdoctor_pcie_link" not in text_of(Host(gpus=(gpu,)))


def test_the_budget_of_each_node_and_of_all() -> None:
    node = NodeBudget(
        id=1,
        memory_bytes=GIB,
        available_bytes=GIB,
        own_bytes=GIB,
        pinnable_bytes=GIB // 2,
        bound_by=None,
        cache_bytes=0,
        growth_bytes=0,
        reserve_bytes=0,
        weights_bytes=None,
        kv_bytes=None,
    )
    budget = Budget(nodes=(node,), ranks=(), limits=(), pinnable_bytes=GIB // 4, bound_by=None)
    text = text_of(Host(), budget)
    assert f'hostdoctor_numa_node_memory_budget_bytes{{node="1"}} {GIB // 2}\n' in text
    assert f"hostdoctor_memory_budget_bytes {GIB // 4}\n" in text


def test_a_drive_by_its_counters() -> None:
    names = ("read_ios", "read_ticks_ms", "write_ios", "write_ticks_ms", "time_in_queue_ms", "read_sectors")
    rises = (1000, 500, 0, 0, 2000, 8000)
    before = {f"block.nvme0n1.{name}": 7 for name in names}
    after = {f"block.nvme0n1.{name}": 7 + by for name, by in zip(names, rises, strict=True)}
    host = two_nodes(nvme=(drive(),), samples=(Sample(seconds=2.0, before=before, after=after),))
    text = text_of(host)
    labels = '{device="nvme0n1",drive="nvme0"}'
    assert f"hostdoctor_nvme_read_await_seconds{labels} 0.0005\n" in text
    assert f"hostdoctor_nvme_reads_per_second{labels} 500\n" in text
    assert f"hostdoctor_nvme_read_bytes_per_second{labels} 2048000\n" in text
    assert f"hostdoctor_nvme_queue_depth{labels} 1\n" in text
    assert "hostdoctor_nvme_write_await_seconds" not in text
    assert "hostdoctor_nvme_write_bytes_per_second" not in text


def test_the_share_of_a_sampled_process() -> None:
    process = Process(pid=7, start_ticks=9, name="vllm", gpus=(0,))
    counters = {"process.7.9.shared.0": 3 * GIB, "process.7.9.shared.1": GIB}
    host = two_nodes(
        gpus=(Gpu(index=0, numa_node=0),),
        processes=(process, Process(pid=8, name="dcgm", gpus=(0,))),
        samples=(Sample(seconds=2.0, before=counters, after=counters),),
    )
    text = text_of(host)
    assert 'hostdoctor_gpu_processes{process="vllm",gpus="0"} 1\n' in text
    assert 'hostdoctor_gpu_process_memory_local_ratio{process="vllm",gpus="0",kind="shared"} 0.75\n' in text
    assert "dcgm" not in text


HOSTILE = 'a"b\\c\nd\te\x00\x1b[31m\udcff\u202e{}=,Ω'


def test_hostile_texts_are_escaped_and_read_back() -> None:
    text = text_of(Host(system=System(kernel=HOSTILE)))
    told = next(f for f in text_string_to_metric_families(text) if f.name == "hostdoctor_host_info")
    assert told.samples[0].labels["kernel"] == 'a"b\\c d e??[31m??{}=,Ω'
    promtool("check", "metrics", text=text)


def test_labels_are_short() -> None:
    text = text_of(Host(system=System(kernel="x" * 10_000)))
    assert f'kernel="{"x" * (MAX_LABEL_CHARACTERS - 1)}…"' in text


def test_series_are_bounded_and_what_is_left_out_is_told() -> None:
    rows = [("pcie_errors_total", {"bdf": str(i)}, float(i)) for i in range(MAX_SERIES + 7)]
    told = {family.name: family.series for family in families(rows)}
    assert len(told["hostdoctor_pcie_errors_total"]) == MAX_SERIES
    left = told["hostdoctor_metrics_left_out_series"][0]
    assert (dict(left.labels), left.value) == ({"metric": "hostdoctor_pcie_errors_total"}, 7)


def test_a_series_is_there_once() -> None:
    rows: list[Row] = [
        ("gpus", {}, 1.0),
        ("gpus", {"a": None}, 2.0),
        ("gpus", {"a": ""}, 3.0),
        ("gpus", {}, float("nan")),
    ]
    assert render_prometheus(families(rows)).endswith("\nhostdoctor_gpus 1\n")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (8.0, "8"), (2.5, "2.5"), (1 << 53, str(1 << 53)), (1e300, "1e+300"), (-1.0, "-1")]
)
def test_numbers_are_exact(value: float, text: str) -> None:
    assert number(value) == text


def test_names_follow_the_conventions() -> None:
    for name, (kind, text) in METRICS.items():
        assert name.endswith("_total") == (kind == "counter"), name
        assert text.endswith("."), name
        assert not set(name.split("_")) & {"ms", "kib", "gts", "percent", "pct", "us"}, name
    assert PREFIX == "hostdoctor_"


def test_accepted_findings_are_counted_and_no_finding() -> None:
    report = report_on("demo")
    results = []
    for result in report.results:
        accepted = tuple(_accepted(finding) for finding in result.findings)
        results.append(msgspec.structs.replace(result, findings=(), accepted=accepted))
    text = render_prometheus(report_families(msgspec.structs.replace(report, results=tuple(results)), MADE))
    assert "\nhostdoctor_findings_accepted 3\n" in text
    assert "hostdoctor_check_finding" not in text


def _accepted(finding: object) -> object:
    from hostdoctor.diagnosis.report import Accepted, Finding

    assert isinstance(finding, Finding)
    return Accepted(finding=finding, reason="known", until="2027-01-31")
