"""What fails while memory is measured ends it; what came before is kept."""

import os

import pytest

from hostdoctor.errors import MeasureError
from hostdoctor.measure import memory
from hostdoctor.measure.documents import Circumstances, shortfall
from hostdoctor.measure.memory import MemoryExperiment, MemoryOptions
from hostdoctor.measure.memory_plan import MIB, MemoryPlan, Pair
from tests.measure.test_placing import NODE

CPU = min(os.sched_getaffinity(0))
PLAN = MemoryPlan(pairs=(Pair(cpu_node=NODE, memory_node=NODE, cpus=(CPU,)),), size_bytes=4 * MIB, wanted_bytes=4 * MIB)
SHORT = MemoryOptions(rounds=3, warmup_s=0.0, latency_visit_s=0.0, bandwidth_rounds=1, bandwidth_visit_s=0.0)


def test_bandwidth_that_cannot_be_had_leaves_the_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise MeasureError("cannot run on CPUs [0]: offline")

    monkeypatch.setattr(memory, "measure_rate", refused)
    experiment = MemoryExperiment(PLAN, SHORT, native=False)
    list(experiment.steps())
    document = experiment.document(Circumstances(at="", hostdoctor=""))
    assert document.stopped == "cannot run on CPUs [0]: offline"
    assert shortfall(document) == "ended early: cannot run on CPUs [0]: offline; what was measured until then is kept"
    (buffer,) = document.buffers
    assert buffer.placement_after is not None
    assert document.cells[0].cpus_seen == str(CPU)


def test_where_nothing_could_be_measured_there_is_nothing_to_keep() -> None:
    plan = MemoryPlan(pairs=(Pair(cpu_node=0, memory_node=NODE, cpus=(4095,)),), size_bytes=MIB, wanted_bytes=MIB)
    with pytest.raises(MeasureError, match=r"cannot run on CPUs \[4095\]"):
        list(MemoryExperiment(plan, SHORT, native=False).steps())


def test_a_whole_measurement_lacks_nothing() -> None:
    experiment = MemoryExperiment(PLAN, SHORT, native=False)
    list(experiment.steps())
    assert shortfall(experiment.document(Circumstances(at="", hostdoctor=""))) is None
