"""Ten thousand surveys, with signals in between, leave no more memory in use than the first thousand."""

import gc
from pathlib import Path

import pytest

from hostdoctor.agent.surveying import Counted
from tests.agent.rig import Rig, failed, found, passed

FEW, MANY = 1000, 10_000
ALLOWED_KIB = 1024


def resident_kib() -> int:
    gc.collect()
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])


def cycle(rig: Rig, number: int) -> None:
    rig.log.entries.clear()
    rig.teller.told.clear()
    del rig.collector.snapshots[:]
    del rig.jobs[:-1]
    rig.files.link("0000:1b:00.0", 8 if number % 3 else 16)
    rig.run(300, step_s=15)
    if rig.agent.job is not None:
        counters = {f"cpu{n}.steal": number for n in range(100)}
        result = failed(found(message=f"{number} errors")) if number % 5 else passed()
        rig.survey(result, counted=Counted(at=rig.clock.now, counters=counters))


@pytest.mark.e2e
def test_memory_does_not_grow(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "s.db")
    for number in range(FEW):
        cycle(rig, number)
    before = resident_kib()
    for number in range(FEW, MANY):
        cycle(rig, number)
    assert rig.agent.counters.surveys > MANY / 2
    assert resident_kib() - before < ALLOWED_KIB
