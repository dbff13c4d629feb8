"""Reports of hosts that are hard to show, measured documents of known values, and how to read a page."""

import json
import random
from functools import cache
from html.parser import HTMLParser
from typing import Any

from hostdoctor.budget.document import BudgetDocument
from hostdoctor.budget.pinned import NodeBudget
from hostdoctor.budget.plan import Ask as PlanAsk
from hostdoctor.budget.plan import make_plan
from hostdoctor.budget.request_log import Tokens
from hostdoctor.budget.traffic import Load
from hostdoctor.budget.whole import Request, whole_budget
from hostdoctor.cli.common import open_evidence
from hostdoctor.diagnosis import Ask, Report
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.facts import Host
from hostdoctor.measure.matrix.document import Kept, make_document, shape_of
from hostdoctor.measure.matrix.grid import all_series, cells_of
from hostdoctor.outputs.page.documents import read_document
from hostdoctor.outputs.page.measured import measurements
from hostdoctor.outputs.page.model import About, Measurement, Page, Wrapper
from hostdoctor.outputs.report_json import render_json
from hostdoctor.survey import survey
from tests.support.queueing import Law
from tests.support.queueing import experiment as queueing

ABOUT = About(made_at="2026-11-29T12:00:00+00:00", versions={"hostdoctor": "0"}, commands=("hostdoctor report",))
VOID = {"meta", "link", "img", "br", "hr", "input", "base"}
RUN = {"tool": "vllm bench serve", "model": "m", "versions": {"vllm": "0.32.0"}}


@cache
def rules() -> Any:
    return load_rules()


def judged(host: Host) -> Report:
    return diagnose(host, Ask(), rules())


def page_of(report: Report, **more: Any) -> Page:
    """Return a page with the report's documentation and a wrapper."""
    fired = {result.id for result in report.results if result.findings}
    given: dict[str, Any] = {
        "report": report,
        "about": ABOUT,
        "documentation": {rule.id: rule.documentation for rule in rules() if rule.id in fired},
        "command": "vllm serve MODEL",
        "wrappers": (
            Wrapper(title="All GPUs", gpus="GPU0", line="numactl --membind=0 vllm", script="#!/bin/sh\nexec a"),
        ),
    }
    return Page(**(given | more))


def comparison(**more: Any) -> dict[str, Any]:
    """Return a document of ``compare``: TTFT differs, ITL does not, of the rest too little is known."""
    runs = [(180.0, 300.0), (182.0, 310.0), (178.5, 295.0)]
    near = [{**RUN, "latencies": {"ttft": {"quantiles_ms": {"p50": a, "p99": b}, "count": 400}}} for a, b in runs]
    far = [
        {**RUN, "latencies": {"ttft": {"quantiles_ms": {"p50": a * 1.1, "p99": b * 1.2}, "count": 400}}}
        for a, b in runs
    ]
    row = {"p_value": 0.0078, "detectable_ratio": 1.043, "pairs": 10, "near_samples": 4000, "far_samples": 4000}
    ttft = {"near_ms": 180.25, "far_ms": 199.4375, "near_ci_ms": [178.0, 182.5], "far_ci_ms": [196.0, None]}
    told = {**row, **ttft, "ratio": 1.1035, "ratio_ci": [1.069, 1.139], "verdict": "near-faster"}
    same = {"near_ms": 21.9375, "far_ms": 21.8125, "ratio": 0.9941, "ratio_ci": [0.9646, 1.0241]}
    itl = {**row, **same, "p_value": 0.66, "verdict": "no-measurable-difference"}
    nothing = {"verdict": "insufficient", "reason": "3 of 6 pairs"}
    primary = {"metric": "itl", "quantile": "p50", "verdict": itl["verdict"]}
    return {
        "schema_version": "1",
        "pairs": 10,
        "primary": {**primary, "words": "no measurable difference (would have seen ≥ 4.3 %)"},
        "metrics": {"ttft": {"p50": told, "p99": {**told, "near_ms": 325.9, "far_ms": 350.4}}, "itl": {"p50": itl}}
        | {"tpot": {"p50": nothing, "p99": {**nothing, "verdict": "unstable"}}},
        "failed_requests": {"near": 0, "far": 2},
        "provenance": {"near": near, "far": far},
        **more,
    }


def copies() -> dict[str, Any]:
    """Return a document of ``measure copy`` whose far node is slower."""

    def quantile(value: float) -> dict[str, Any]:
        return {"p": 0.5, "samples": 800, "samples_needed": 6, "value": value, "low": value * 0.98, "high": None}

    def arm(role: str, factor: float) -> dict[str, Any]:
        times = {f"{p}_us": quantile(v * factor) for p, v in (("p50", 6.125), ("p99", 9.75), ("p999", 24.5))}
        runs = {"run_p50_us": [6.0 * factor, 6.25 * factor], "run_p99_us": [9.5 * factor, 10.0 * factor]}
        return {"cell": {"role": role, "cpu_node": 0, "memory_node": 0}, "runs": 2, "copies": 800, **times, **runs}

    paired = {"pairs": 2, "ratio": 1.25, "ratio_ci": [1.2, 1.3], "detectable_ratio": 1.05}
    against = {"cell": "far", "statistic": "p50", "paired": paired, "verdict": "near-faster"}
    setting = {"load": "idle", "memory": "pinned", "direction": "to-gpu", "size_bytes": 16384, "loop": "closed"}
    rates = {"cell": {"role": "near", "cpu_node": 0, "memory_node": 0}, "runs": 3, "copies": 30}
    return {
        "kind": "measure-copy",
        "circumstances": {"at": "2026-11-29T12:00:00+00:00", "hostname": "demo"},
        "gpu": {"index": 0, "bdf": "0000:19:00.0", "near_node": 0, "far_node": 1},
        "results": [
            {
                "setting": setting,
                "arms": [arm("near", 1.0), arm("far", 1.25)],
                "comparisons": [{**against, "words": "near is faster by 25 %"}],
            },
            {"setting": {**setting, "loop": "bandwidth"}, "arms": [{**rates, "bandwidth_gbs": [51.5, 52.25, 52.5]}]},
        ],
    }


def drive_reads() -> dict[str, Any]:
    """Return a document of ``measure nvme``: fio's own quantiles, and its histogram for one of the two sides."""
    bins = {"jobs": [{"read": {"clat_ns": {"bins": {"80000": 500, "90000": 480, "200000": 19, "900000": 1}}}}]}
    latency = {"samples": 1000, "p50_ns": 81408, "p99_ns": 199680, "p999_ns": 897024}
    run = {"block_bytes": 16384, "queue_depth": 8, "repeat": 0, "command": ["fio"], "latency": latency}
    disk = {"r_await_ms": 0.125, "w_await_ms": None, "queue_depth": 7.5}
    return {
        "kind": "measure-nvme",
        "circumstances": {"at": "2026-11-29T12:00:00+00:00"},
        "comparisons": [
            {
                "cpu_node": 1,
                "block_bytes": 16384,
                "queue_depth": 8,
                "statistic": "p50",
                "result": {"pairs": 10, "pairs_needed": 6, "verdict": "no-measurable-difference", "ratio": 1.0625},
            }
        ],
        "drive": "nvme0",
        "drive_node": 0,
        "runs": [
            {**run, "cpu_node": 0, "near": True, "disk": disk, "raw": bins},
            {**run, "cpu_node": 1, "near": False},
            {**run, "cpu_node": 2, "near": None, "latency": None, "failed": "not in the cpuset"},
        ],
    }


def memory_matrix() -> dict[str, Any]:
    """Return a document of ``measure memory``."""
    latency = {"batches": 40, "loads_per_batch": 100, "p50_of_batch_means_ns": 96.5, "p99_of_batch_means_ns": 130.0}
    rate = {"p50_gbytes_per_s": 201.5, "visits_gbytes_per_s": [201.5, 202.5]}
    far_rate = {"p50_gbytes_per_s": 120.25, "visits_gbytes_per_s": [120.25, 121.75]}
    result = {"pairs": 8, "pairs_needed": 6, "ratio": 1.671875, "ratio_ci": [1.625, 1.71875], "p_value": 0.0078125}
    cells = {"cpu_node": 0, "memory_node": 1}
    return {
        "kind": "measure-memory",
        "circumstances": {"at": "2026-11-29T12:00:00+00:00"},
        "method": "native",
        "cells": [
            {"cpu_node": 0, "memory_node": 0, "latency": latency, "read": rate},
            {"cpu_node": 0, "memory_node": 1, "read": far_rate},
            {"cpu_node": 1, "memory_node": 0, "latency_difference": {"p50_ns": 41.25, "batches": 40}},
            {"cpu_node": 1, "memory_node": 1, "skipped": "node 1 is full"},
        ],
        "comparisons": [
            {
                **cells,
                "statistic": "latency",
                "result": {"pairs": 2, "verdict": "insufficient", "reason": "2 of 6 pairs"},
            },
            {**cells, "statistic": "read", "result": {**result, "verdict": "near-faster"}},
        ],
    }


def watched() -> dict[str, Any]:
    """Return a document of ``measure nvme --watch``."""
    return {
        "kind": "watch-nvme",
        "circumstances": {"at": "2026-11-29T12:00:00+00:00", "interrupted": "SIGINT"},
        "seconds": 10,
        "disks": [{"disk": "nvme0n1", "means": {"r_await_ms": 0.1325, "queue_depth": 3.25}}, {"disk": "nvme1n1"}],
        "caches": [{"cache": "prefix cache", "queries": 12000.0, "hits": 9100.0, "hit_percent": 75.83}],
    }


@cache
def _offload_matrix() -> str:
    asked = queueing(("A", "C"), contexts=(2048, 32768), concurrency=(4, 64), repeats=1)
    law, source = Law(ttft_penalty={"C": 1.5}), random.Random(1)
    kept = [
        Kept(cell, law.run(source, cell, requests=400, gaps=400), {"requests waiting": cell.concurrency / 4})
        for series in all_series(asked)
        for cell in cells_of(asked, series)
    ]
    return render_json(make_document(asked.slo, shape_of(asked), kept))


def offload_matrix() -> dict[str, Any]:
    """Return a matrix of two variants with a boundary inside."""
    found: dict[str, Any] = json.loads(_offload_matrix())
    return found


def experiment() -> dict[str, Any]:
    """Return a document of ``compare`` that ran the workload itself: near against today's launch, and the control."""
    tail = {"near": [[100.5, 1.0], [150.5, 0.125], [301.5, 0.0078125]], "far": [[110.5, 1.0], [402.5, 0.0078125]]}
    today = {**comparison(arms=["near", "current"]), "tails": {"ttft": tail}}
    plan = {"hostname": "demo", "created": "2026-11-29T11:00:00+00:00", "hostdoctor": "0"}
    placed = {"near": "CPUs and memory of node 0", "far": "CPUs and memory of node 1", "current": "as launched"}
    return comparison(
        kind="experiment",
        production=today,
        complete=False,
        plan=plan,
        placement=placed,
        rate_per_s=4.0,
        versions={"kernel": "6.8.0", "nvidia driver": "580.65.06"},
        warnings=["pair 4 of near and far discarded: stolen time 0.0 % and 30.0 %"],
        tails={"ttft": tail},
    )


@cache
def budgeted() -> tuple[BudgetDocument, tuple[NodeBudget, ...]]:
    """Return the demo's budget with offloaded weights and KV cache."""
    source = open_evidence(None, demo=True, timeout_s=5)
    told, made = whole_budget(source, survey(source), Request(cpu_offload_gib=10.0, kv_offload_gib=64.0))
    return told, made.nodes


@cache
def planned() -> dict[str, Any]:
    """Return what a page has beside the host: the demo's budget, and a plan."""
    load = Load(input_tokens=Tokens(mean=2000, p95=4000, p99=8000), output_tokens=Tokens(mean=300), rps=2.0)
    ask = PlanAsk(gpu="h100-80", gpu_bytes=80 << 30, batched_tokens=8192, kv_bytes_per_token=131072, load=load)
    return {"budget": budgeted()[0], "plan": make_plan(ask)}


DOCUMENTS = (comparison, experiment, copies, drive_reads, memory_matrix, watched, offload_matrix)


def shown(document: dict[str, Any], name: str = "results.json") -> list[Measurement]:
    return measurements(read_document(json.dumps(document).encode(), name), name)


class Element:
    """An element of a page: its name, attributes, the text directly in it, and its ancestors' names."""

    def __init__(self, name: str, given: dict[str, str], above: tuple[str, ...]) -> None:
        self.name, self.given, self.above, self.text = name, given, above, ""


class Dom(HTMLParser):
    """Every element of a page, and whether each that was opened was closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.unbalanced: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append(Element(tag, given, tuple(one.name for one in self.open)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop().name != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data

    def all(self, name: str) -> list[Element]:
        return [element for element in self.elements if element.name == name]

    @property
    def text(self) -> str:
        """What a reader sees, scripts and styles left out."""
        return " ".join(element.text for element in self.elements if element.name not in ("script", "style"))
