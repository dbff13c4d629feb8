"""What is said of a boundary: how far to serve, where a pool or a limit begins, what to try, which signal moved."""

from hostdoctor.budget.remedies import ORDER
from hostdoctor.facts import LinkReading
from hostdoctor.measure.documents import CacheHits, DiskMeans, DiskWatch
from hostdoctor.measure.matrix.boundary import boundary
from hostdoctor.measure.matrix.decide import Told, compared, decisions, remedies
from hostdoctor.measure.matrix.experiment import Cut, Kind
from hostdoctor.measure.matrix.grid import Cell, Series
from hostdoctor.measure.matrix.judge import Judged, State
from hostdoctor.measure.matrix.model import Signals
from hostdoctor.measure.matrix.moved import flat, moved
from hostdoctor.measure.trial_model import Conditions

CONTEXTS, COLUMNS = (2048, 8192, 32768), (1, 4, 16)


def series(variant: str, kind: Kind, edges: tuple[int, ...], dtype: str = "auto", **others: State) -> Told:
    """Return a series that holds at so many of the columns of each context, and breaks beyond; cuts by name."""
    own = Series(variant=variant, kv_cache_dtype=dtype)
    cells = {
        (context, many): Judged(state="holds" if column < edge else "breaks", is_in=column < edge, repeats=3)
        for context, edge in zip(CONTEXTS, edges, strict=True)
        for column, many in enumerate(COLUMNS)
    }
    cuts: dict[str, Cut] = {"mix": "mix", "prefix": "prefix"}
    told = {
        Cell(series=own, cut=cuts[cut], context=2048, concurrency=16): Judged(state=state, is_in=True, repeats=3)
        for cut, state in others.items()
    }
    return Told(own, kind, boundary(CONTEXTS, COLUMNS, cells, {}), told)


def test_it_says_how_far_to_serve_what_lies_beyond_and_where_contexts_end() -> None:
    assert decisions(series("A", "vram", (3, 2, 0), mix="breaks"), COLUMNS) == (
        "Serve interactively: 2,048 tokens up to 16 at once, 8,192 tokens up to 4 at once.",
        "Beyond, a separate pool or a queue of its own, capped: 4 at 8,192 tokens.",
        "Limit a session's context to 8,192 tokens: longer ones hold at no concurrency.",
        "Long requests need a pool of their own: beside a small share of them 2,048 tokens × 16 leaves the SLO.",
    )


def test_no_boundary_and_never_are_said_as_such() -> None:
    (_, said) = decisions(series("A", "vram", (3, 3, 3)), COLUMNS)
    assert said.startswith("No boundary inside the grid")
    assert decisions(series("B", "weights", (0, 0, 0)), COLUMNS) == (
        "Refuse it for interactive use: not even the smallest cell holds the SLO.",
    )


def test_nvme_is_a_prefix_cache_only_or_nothing() -> None:
    (said,) = decisions(series("D", "nvme", (0, 0, 0), prefix="holds"), COLUMNS)
    assert said.startswith("NVMe as a prefix cache only: ")
    assert "batch" in decisions(series("D", "nvme", (0, 0, 0), prefix="breaks"), COLUMNS)[-1]
    base = series("A", "vram", (3, 2, 1))
    assert compared(series("D", "nvme", (3, 2, 1), prefix="holds"), base)[-1].startswith("NVMe as a prefix cache only")
    assert compared(series("C", "kv-ram", (3, 3, 0)), base) == (
        "Holds more than A at 8,192 tokens.",
        "Costs against A at 32,768 tokens.",
    )


def test_remedies_come_in_their_order_with_what_was_measured() -> None:
    base = series("A", "vram", (3, 2, 1), prefix="holds")
    told = (base, series("A", "vram", (3, 3, 1), "fp8"), series("C", "kv-ram", (3, 2, 2)))
    found = remedies(told, base, COLUMNS)
    assert tuple(one.name for one in found) == ORDER
    assert [one.measured for one in found] == [True] * 5
    texts = [one.text for one in found]
    assert texts[0] == "Trim histories to 2,048 tokens: 16 at once hold there."
    assert texts[2].endswith("16 instead of 4 at 8,192 tokens.")
    assert texts[3] == "Cap sessions of 32,768 tokens at 1 at once."
    assert texts[4] == "Only then KV to RAM: 4 instead of 1 at 32,768 tokens."
    assert [one.measured for one in remedies((base,), base, COLUMNS)][2] is False
    whole = series("A", "vram", (3, 3, 3))
    assert remedies((whole,), whole, COLUMNS) == ()


def test_remedies_claim_nothing_where_nothing_is_told() -> None:
    open_ = {(c, m): Judged(state="neither", is_in=True, repeats=3) for c in CONTEXTS for m in COLUMNS}
    base = Told(Series(variant="A"), "vram", boundary(CONTEXTS, COLUMNS, open_, {}), {})
    ram = Told(Series(variant="C"), "kv-ram", base.boundary, {})
    found = {one.name: one for one in remedies((base, ram), base, COLUMNS)}
    assert found["trim-history"].text == "Trim histories: not told whether 16 at once hold at a shorter context."
    assert found["cap-long-sessions"].text == "Cap how many long sessions run at once: not told how many hold."
    assert found["kv-to-ram"].text == "Only then KV to RAM: not told whether it holds more than A."
    assert not any(one.measured for one in found.values())
    never = series("A", "vram", (0, 0, 0))
    assert "alone not enough" in remedies((never,), never, COLUMNS)[0].text


def seen(*, narrow: bool, **told: float) -> Signals:
    """Return what was seen in ten seconds."""
    return Signals(
        conditions=Conditions(seconds=10.0, steal_share=0.0),
        disks=(DiskWatch(disk="nvme0n1", means=DiskMeans(r_await_ms=told["r_await"], queue_depth=told["queue"])),),
        caches=(CacheHits(cache="vLLM prefix cache", hit_percent=told["hits"]),),
        pressure={"io": told["io"]},
        engine={"num_preemptions": told["preempted"], "kv_offload_load_time": told["loads"]},
        links=(LinkReading(bdf="0000:17:00.0", readings=10, widths_lanes={"16": 8, "8": 2} if narrow else {"16": 10}),),
    )


def test_only_what_moved_with_the_boundary_is_named() -> None:
    calm = flat(seen(r_await=0.2, queue=1.0, hits=80.0, io=0.01, preempted=0, loads=0.1, narrow=False))
    worse = flat(seen(r_await=3.1, queue=1.2, hits=20.0, io=0.3, preempted=40, loads=6.0, narrow=True))
    found = {one.signal: one.words for one in moved(calm, worse)}
    assert found == {
        "preemptions": "sequences preempted for want of KV blocks 0 → 4 a second",
        "copy queue": "time that KV copies between GPU and RAM took 0.01 → 0.6 s a second",
        "read await": "NVMe read await 0.2 → 3.1 ms",
        "io pressure": "pressure: waiting for I/O 0.01 → 0.3 of the time",
        "cache hits": "cache hits 80 → 20 %",
        "link width": "PCIe link width 16 → 8 lanes",
    }
    assert moved(calm, calm) == ()
