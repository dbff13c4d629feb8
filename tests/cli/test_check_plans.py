"""``check --tp`` and ``check --sample``: what a plan adds, and what a running host is asked for."""

import io
import json
import sys
from collections.abc import Callable

import pytest

from hostdoctor.cli import check
from hostdoctor.facts import Host
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import samples
from tests.cli.support import hostdoctor

Root = Callable[[str], str]


def tp(root: str, *arguments: str) -> dict[str, object]:
    ran = hostdoctor("check", "--from", root, "--select", "HD103", "--format", "json", *arguments)
    result: dict[str, object] = json.loads(ran.out)["results"][0]
    return result


def test_a_plan_is_judged_and_none_is_a_reason(root_of: Root) -> None:
    root = root_of("dgx-h100")
    assert tp(root)["skip_kind"] == "no-plan"
    assert tp(root, "--tp", "4")["status"] == "pass"
    assert tp(root, "--tp", "8")["findings"][0]["severity"] == "info"  # type: ignore[index]


def test_sets_follow_the_gpus_as_named(root_of: Root) -> None:
    root = root_of("dgx-h100")
    assert tp(root, "--tp", "2", "--gpus", "0,1")["status"] == "pass"
    assert tp(root, "--tp", "2", "--gpus", "0,7")["findings"][0]["subject"] == "GPU0, GPU7"  # type: ignore[index]


def test_without_nvlink_it_is_a_warning(root_of: Root) -> None:
    assert tp(root_of("l40s-4"), "--tp", "4")["findings"][0]["severity"] == "warning"  # type: ignore[index]


@pytest.mark.parametrize(
    "arguments", [("--tp", "9"), ("--tp", "2", "--gpus", "3"), ("--tp", "0"), ("--sample", "0"), ("--sample", "3")]
)
def test_a_plan_that_cannot_be_is_usage(root_of: Root, arguments: tuple[str, ...]) -> None:
    ran = hostdoctor("check", "--from", root_of("dgx-h100"), *arguments)
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)


@pytest.mark.parametrize(("seconds", "terminal", "says"), [(3, True, True), (3, False, False), (2, True, False)])
def test_a_long_wait_is_announced_on_a_terminal(
    seconds: float, terminal: bool, says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = io.StringIO()
    monkeypatch.setattr(err, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(samples, "take_samples", lambda *_, **__: ())
    assert check._sampled(RootSource(MemoryTree({}, {}), "x"), Host(), seconds).samples == ()
    assert err.getvalue() == ("Reading counters for 3 s …\n" if says else "")
