"""How an experiment ends: by itself, by a signal while it measures or while its results are kept, by an error."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from hostdoctor.cli.experiments import Signals, conduct
from hostdoctor.errors import Terminated


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What some experiment found."""

    steps: int
    interrupted: str | None = None
    stopped: str | None = None


def ended(
    output: Path, steps: Callable[[], None], document: Callable[[], None] = lambda: None, stopped: str | None = None
) -> int:
    """Conduct three steps; return the exit status."""
    done: list[int] = []

    def measured() -> Iterator[float]:
        for number in range(3):
            steps()
            done.append(number)
            yield 1.0

    def told(ended_by: str | None) -> Any:
        document()
        return Results(steps=len(done), interrupted=ended_by, stopped=stopped)

    try:
        conduct(measured(), 0, "trying", document=told, render=str, format_="json", output=output, force=False)
    except typer.Exit as status:
        return status.exit_code
    return 0


def kill(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def kept(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return found


def test_what_comes_to_its_end_is_kept(tmp_path: Path) -> None:
    assert ended(tmp_path / "a", lambda: None) == 0
    assert kept(tmp_path / "a") == {"steps": 3, "interrupted": None, "stopped": None}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_while_measuring_ends_it(
    tmp_path: Path, number: signal.Signals, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(tmp_path / "a", kill(number)) == status
    assert kept(tmp_path / "a") == {"steps": 0, "interrupted": number.name, "stopped": None}
    assert f"ended early by {number.name}: what was measured until then is kept" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_results_are_made_loses_nothing(tmp_path: Path, number: signal.Signals, status: int) -> None:
    assert ended(tmp_path / "a", lambda: None, kill(number)) == status
    assert kept(tmp_path / "a") == {"steps": 3, "interrupted": None, "stopped": None}


def test_a_second_signal_ends_everything(tmp_path: Path) -> None:
    with pytest.raises(Terminated) as end:
        ended(tmp_path / "a", kill(signal.SIGTERM), kill(signal.SIGINT))
    assert end.value.code == 130
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path: Path) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ended(tmp_path / "a", kill(signal.SIGHUP)) == 0
    finally:
        signal.signal(signal.SIGHUP, former)
    assert kept(tmp_path / "a")["steps"] == 3


def test_handlers_are_as_before_afterwards() -> None:
    former = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Signals().taken():
        assert signal.getsignal(signal.SIGINT) is not former[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == former


def test_what_an_error_ended_early_is_kept_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(tmp_path / "a", lambda: None, stopped="the drive is gone\x1b[31m") == 3
    assert kept(tmp_path / "a")["steps"] == 3
    said = capsys.readouterr().err
    assert said == "hostdoctor: ended early: the drive is gone?[31m; what was measured until then is kept\n"
