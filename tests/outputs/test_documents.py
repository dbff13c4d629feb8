"""The report reads the documents that this version writes, every field that it shows by the name that they use."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hostdoctor.measure import comparison, copies_model, documents, trial_model
from hostdoctor.measure.nvme_verdict import RunTimes, compare_runs_of
from hostdoctor.measure.tails import POINTS, tail_of
from hostdoctor.outputs.page import documents as read
from hostdoctor.outputs.page.documents import read_document
from hostdoctor.outputs.page.measured import hostname_of, measurements
from hostdoctor.outputs.report_json import render_json
from tests.measure.test_trial_judge import made

WRITTEN: dict[type[msgspec.Struct], type[msgspec.Struct]] = {
    read.Comparison: comparison.Comparison,
    read.Experiment: trial_model.Experiment,
    read.Copies: copies_model.CopyDocument,
    read.Nvme: documents.NvmeDocument,
    read.Memory: documents.MemoryDocument,
    read.Watch: documents.WatchDocument,
}
OF_EXPERIMENTS = {"production", "complete", "placement"}  # a comparison of files has none


def records(kind: Any) -> Iterator[Any]:
    """Yield the structs that a type is made of."""
    if isinstance(kind, msgspec.inspect.StructType):
        yield kind
    for name in ("types", "item_types"):
        for part in getattr(kind, name, None) or ():
            yield from records(part)
    for name in ("item_type", "value_type"):
        if hasattr(kind, name):
            yield from records(getattr(kind, name))


def names(kind: Any, path: str = "", depth: int = 8) -> Iterator[str]:
    """Yield the names of a record's fields, those of the records in it too."""
    for field in kind.fields:
        here = f"{path}.{field.encode_name}"
        yield here
        for inner in records(field.type) if depth else ():
            yield from names(inner, here, depth - 1)


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.__name__)
def test_every_field_that_is_read_is_written_by_that_name(kind: type[msgspec.Struct]) -> None:
    mine = {name for name in names(msgspec.inspect.type_info(kind), depth=3) if "production." not in name}
    theirs = set(names(msgspec.inspect.type_info(WRITTEN[kind]), depth=3))
    quantiles = {".metrics.p50", ".metrics.p99"}  # read as a map, so that further ones may come
    theirs |= {name.replace(".p50.", ".", 1) for name in theirs if name.startswith(".metrics.p50.")} - quantiles
    left = {name for name in mine - theirs if name.strip(".") not in OF_EXPERIMENTS}
    assert left == set()


def test_what_compare_runs_itself_is_shown_with_tails_and_a_dot_for_each_pair() -> None:
    told = read_document(render_json(made({"far": 1.5, "current": 1.0, "near": 1.0, "again": 1.0})).encode(), "e.json")
    today, control = measurements(told, "e.json")
    assert today.arms == ("near", "current")
    assert [one.title for one in (today, control)] == [
        "A workload, near against current (e.json): as launched today",
        "A workload, near against far (e.json)",
    ]
    for one in (today, control):
        assert [note for note in one.notes if note.startswith("Control, near again against near: ratio ")]
    assert today.headline.startswith("Inter-token latency (ITL), p50: no measurable difference")
    assert control.headline.startswith("Inter-token latency (ITL), p50: near is faster by")
    assert [one.what for one in control.verdicts] == [
        "Inter-token latency (ITL), p50",
        "Inter-token latency (ITL), p99",
    ]
    tail, pairs = control.charts
    assert "all samples of each arm" in tail.caption
    assert tail.svg.count("L") > 60
    assert pairs.svg.count("<circle") + pairs.svg.count("far-mark") == 20
    assert "begun 2026-01-01" in control.made
    assert any(note.startswith("Told by no pair of runs: Time to first token") for note in control.notes)


def test_an_experiment_tells_its_host() -> None:
    document = json.loads(render_json(made({"far": 1.5, "near": 1.0})))
    document["plan"]["hostname"] = "gpu7"
    assert hostname_of(read_document(json.dumps(document).encode(), "e.json")) == "gpu7"


def test_a_tail_is_exact_and_short() -> None:
    ordered = sorted([1.0] * 5000 + [2.0] * 4990 + [float(3 + i) for i in range(10)])
    tail = dict(tail_of(ordered))
    assert tail[1.0] == 1.0
    assert tail[2.0] == 0.5
    assert tail[12.0] == 0.0001
    assert len(tail) <= POINTS
    assert list(tail.values()) == sorted(tail.values(), reverse=True)
    assert tail_of([]) == ()
    assert tail_of([7.0]) == ((7.0, 1.0),)


def reads(far: float) -> documents.NvmeDocument:
    """Return a drive's document as the command makes it: ten runs from each node."""
    runs, times = [], []
    for i in range(20):
        near = i % 2 == 0
        p50 = round((80_000 + 100 * (i // 2 * 7 % 10)) * (1.0 if near else far))
        latency = documents.ReadLatency(samples=5000, p50_ns=p50, p99_ns=2 * p50, p999_ns=5 * p50)
        raw = msgspec.Raw(b'{"jobs": []}')
        runs.append(
            documents.NvmeRun(
                cpu_node=i % 2,
                near=near,
                block_bytes=16384,
                queue_depth=1,
                repeat=i // 2,
                command=("fio",),
                latency=latency,
                raw=raw,
            )
        )
        times.append(RunTimes(kind=(16384, 1), cpu_node=i % 2, near=near, p50_ns=p50, p99_ns=2 * p50))
    circumstances = documents.Circumstances(at="2026-11-29", hostdoctor="0", hostname="demo")
    return documents.NvmeDocument(
        circumstances=circumstances, path="/x", runs=tuple(runs), comparisons=compare_runs_of(times)
    )


@pytest.mark.parametrize(
    ("far", "said"), [(1.2, "near faster in 2 of 2 kinds of read"), (1.0, "no measurable difference in 2")]
)
def test_a_drive_is_judged_as_its_document_judges_it(far: float, said: str) -> None:
    (told,) = measurements(read_document(documents.document_json(reads(far)).encode(), "d.json"), "d.json")
    assert said in told.headline
    assert [one.what for one in told.verdicts] == [
        "16 KiB, queue depth 1: p50, from node 1",
        "16 KiB, queue depth 1: p99, from node 1",
    ]
    assert told.verdicts[0].near.value == 80.4
    assert told.verdicts[0].samples.startswith("10 pairs, p = ")
    assert "10 pairs of runs" in told.charts[-1].caption


def test_a_drive_s_document_can_be_read_again_by_its_own_type() -> None:
    document = reads(1.2)
    again = msgspec.json.decode(documents.document_json(document), type=documents.NvmeDocument)
    assert again.comparisons == document.comparisons
    assert json.loads(bytes(again.runs[0].raw)) == {"jobs": []}


def test_a_verdict_of_a_later_version_is_called_by_its_name() -> None:
    from hostdoctor.outputs.page.against import words_of

    assert words_of(read.Row(verdict="near-cheaper", reason="new")) == "near-cheaper (new)"
    assert words_of(read.Row(verdict="unstable")) == "host unstable (near against near differs)"
