"""sd_notify and journald, at the other end of their sockets."""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostdoctor.agent.ledger import Event
from hostdoctor.agent.log import TRANSITION_ID, log_event, sentence
from hostdoctor.sources import journal as journal_module
from hostdoctor.sources.journal import WARNING, Journal, encoded
from hostdoctor.sources.notify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "socket"))
        bound.settimeout(5)
        yield bound


@pytest.fixture
def notifier() -> Iterator[Callable[[dict[str, str]], Notifier]]:
    made: list[Notifier] = []

    def make(environment: dict[str, str]) -> Notifier:
        made.append(Notifier(environment))
        return made[-1]

    yield make
    for one in made:
        one.close()


MakeNotifier = Callable[[dict[str, str]], Notifier]


def fields(entry: bytes) -> dict[str, str]:
    """Read an entry of the journal's protocol as journald does."""
    found = {}
    while entry:
        line, _, rest = entry.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (length,) = struct.unpack("<Q", rest[:8])
            value, rest = rest[8 : 8 + length], rest[9 + length :]
        found[name.decode()] = value.decode()
        entry = rest
    return found


class TestNotifier:
    def test_each_message(self, notifier: MakeNotifier, manager: socket.socket, tmp_path: Path) -> None:
        told_to = notifier({"NOTIFY_SOCKET": str(tmp_path / "socket"), "WATCHDOG_USEC": "30000000"})
        told_to.ready("the first survey runs\n")
        told_to.alive()
        told_to.status("ok")
        told_to.stopping("ending")
        told = [manager.recv(4096).decode() for _ in range(4)]
        assert told == ["READY=1\nSTATUS=the first survey runs", "WATCHDOG=1", "STATUS=ok", "STOPPING=1\nSTATUS=ending"]
        told_to.reloading()
        words = manager.recv(4096).decode().split("\n")
        assert words[0] == "RELOADING=1"
        assert words[1].removeprefix("MONOTONIC_USEC=").isdecimal()
        assert told_to.watchdog_s == 30.0

    def test_an_abstract_socket(self, notifier: MakeNotifier) -> None:
        name = f"hostdoctor-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
            bound.bind(f"\0{name}")
            bound.settimeout(5)
            notifier({"NOTIFY_SOCKET": f"@{name}"}).alive()
            assert bound.recv(99) == b"WATCHDOG=1"

    @pytest.mark.parametrize(
        "environment",
        [
            {"WATCHDOG_USEC": "30000000"},
            {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "0"},
            {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"},
            {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
        ],
    )
    def test_no_watchdog_for_this_process(self, notifier: MakeNotifier, environment: dict[str, str]) -> None:
        assert notifier(environment).watchdog_s is None

    def test_nobody_listens(self, notifier: MakeNotifier, tmp_path: Path) -> None:
        notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("x")
        alone = notifier({})
        alone.ready("x")
        assert not alone.is_asked_for


class TestJournal:
    def stream(self) -> str:
        told = os.fstat(2)
        return f"{told.st_dev}:{told.st_ino}"

    def test_a_transition_has_the_check_as_fields(self, manager: socket.socket, tmp_path: Path) -> None:
        plain: list[str] = []
        journal = Journal(plain.append, {"JOURNAL_STREAM": self.stream()}, str(tmp_path / "socket"))
        event = Event(
            at=1.0,
            transition="appeared",
            id="HD201",
            name="gpu-link-narrow",
            subject="GPU1",
            severity="critical",
            message="GPU1: x8",
            remedy="Reseat it.\nTwice.",
        )
        log_event(journal, event)
        journal.close()
        assert fields(manager.recv(65536)) == {
            "MESSAGE": "HD201 gpu-link-narrow appeared, critical: GPU1: x8",
            "PRIORITY": "3",
            "SYSLOG_IDENTIFIER": "hostdoctor",
            "MESSAGE_ID": TRANSITION_ID,
            "HOSTDOCTOR_TRANSITION": "appeared",
            "HOSTDOCTOR_CHECK": "HD201",
            "HOSTDOCTOR_NAME": "gpu-link-narrow",
            "HOSTDOCTOR_SUBJECT": "GPU1",
            "HOSTDOCTOR_SEVERITY": "critical",
            "HOSTDOCTOR_REMEDY": "Reseat it.\nTwice.",
        }
        assert plain == []

    @pytest.mark.parametrize("stream", ["", "1:2", "x:y"])
    def test_elsewhere_there_are_plain_lines(self, tmp_path: Path, stream: str) -> None:
        plain: list[str] = []
        Journal(plain.append, {"JOURNAL_STREAM": stream}, str(tmp_path / "socket")).write(WARNING, "x", {"A": "b"})
        assert plain == ["x"]

    def test_a_journal_whose_socket_is_missing_gets_lines_with_their_priority(self, tmp_path: Path) -> None:
        plain: list[str] = []
        Journal(plain.append, {"JOURNAL_STREAM": self.stream()}, str(tmp_path / "none")).write(WARNING, "x")
        assert plain == ["<4>x"]

    def test_a_journal_that_went_away_gets_lines_with_their_priority(
        self, manager: socket.socket, tmp_path: Path
    ) -> None:
        plain: list[str] = []
        journal = Journal(plain.append, {"JOURNAL_STREAM": self.stream()}, str(tmp_path / "socket"))
        manager.close()
        journal.write(WARNING, "x")
        journal.close()
        assert plain == ["<4>x"]

    def test_a_journal_that_hangs_costs_entries_and_not_the_service(
        self, manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(journal_module, "_PATIENCE_S", 0.01)
        plain: list[str] = []
        journal = Journal(plain.append, {"JOURNAL_STREAM": self.stream()}, str(tmp_path / "socket"))
        for number in range(5000):
            journal.write(WARNING, f"{number}")
        while fields(manager.recv(65536))["MESSAGE"] != "0":
            pass
        journal.write(WARNING, "last")
        journal.close()
        assert plain == []

    def test_values_of_any_length_fit(self) -> None:
        assert encoded("A", "b") == b"A=b\n"
        assert encoded("A", "b\nc") == b"A\n\x03\0\0\0\0\0\0\0b\nc\n"
        assert len(encoded("A", "x" * 10**6)) < 20_000

    def test_a_message_is_one_line(self) -> None:
        event = Event(
            at=1.0,
            transition="settled",
            id="HD1",
            name="n",
            subject="s",
            severity="info",
            message="a\nb",
            before="gone",
        )
        assert sentence(event) == "HD1 n settled (gone), info: a b"
