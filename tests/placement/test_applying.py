"""Applying a binding to this process when the machine changes under it."""

import os

import pytest

from hostdoctor.errors import PlacementError
from hostdoctor.placement import applying
from hostdoctor.placement.applying import Applied, Step, Tier, apply_best

CPUS = ",".join(map(str, sorted(os.sched_getaffinity(0))))
WAYS = (Step(tier="cpus-only", cpus=CPUS), Step(tier="unbound"))


def refusing(step: Step) -> None:
    if step.cpus:
        raise OSError(22, "Invalid argument", "sched_setaffinity")


def test_a_cpuset_that_shrinks_after_the_trial_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_try_in_child", lambda step: None)
    monkeypatch.setattr(applying, "_apply", refusing)
    refused: tuple[tuple[Tier, str], ...] = (("cpus-only", "sched_setaffinity: Invalid argument"),)
    assert apply_best(WAYS, strict=False) == Applied(step=WAYS[1], refused=refused)
    with pytest.raises(PlacementError, match="cannot bind as asked"):
        apply_best(WAYS, strict=True)


def test_what_was_bound_before_the_refusal_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    one = Step(tier="bind", cpus=str(min(before)), policy="bind", mems=(1023,))
    monkeypatch.setattr(applying, "_try_in_child", lambda step: None)
    applied = apply_best((one, WAYS[1]), strict=False)
    assert applied.step == WAYS[1]
    assert applied.refused[0][1].startswith("set_mempolicy: ")
    assert os.sched_getaffinity(0) == before
