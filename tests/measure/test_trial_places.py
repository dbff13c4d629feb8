"""Where a running workload is, and when that cannot be judged."""

import os

import pytest

from hostdoctor.facts import Host, NumaNode
from hostdoctor.measure import trial_places
from hostdoctor.measure.trial_model import Arm, Intended
from hostdoctor.measure.trial_places import misplaced, read_place
from hostdoctor.placement.applying import Step
from hostdoctor.sources.live import LiveSource

HOST = Host(numa_nodes=(NumaNode(id=0, cpus="0-4095"),))
UNBOUND = Step(tier="unbound")


def test_a_workload_that_is_not_seen_on_its_gpus_is_not_taken_for_well_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_places, "gpu_users", lambda _source: ({}, ()))
    arm = Arm(argv=("serve",), step=UNBOUND, gpus={"0": Intended(cpus="0", mems=(0,))})
    place = read_place(LiveSource(5.0), HOST, (os.getpid(),), arm, "start")
    assert (place.threads_inside, place.memory_inside, misplaced(place)) == (None, None, None)
    assert "none of its processes was seen to use these GPUs" in (place.reason or "")


def test_an_arm_that_is_bound_to_nothing_needs_no_reason() -> None:
    place = read_place(LiveSource(5.0), HOST, (os.getpid(),), Arm(argv=("serve",), step=UNBOUND), "start")
    assert (place.processes, place.threads_inside, place.reason) == (1, None, None)
    assert place.memory_bytes["0"] > 0
