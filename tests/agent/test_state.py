"""The state on disk."""

import os
import resource
import sqlite3
import subprocess  # noqa: TID251  a second agent is another process
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostdoctor.agent import state as module
from hostdoctor.agent.ledger import Event, Held
from hostdoctor.agent.model import OpenFinding
from hostdoctor.agent.state import DAY_S, Memory, State, StateError
from hostdoctor.agent.usual import Split
from hostdoctor.facts import Baseline

NOW = 1_800_000_000.0
FINDING = OpenFinding(id="HD201", name="gpu-link-narrow", subject="GPU0", severity="critical", message="x8")
MEMORY = Memory(
    held=(Held(finding=FINDING, flips=(1.5,)),),
    baseline=Baseline(accepted_at="2026-01-02T03:04:05+00:00"),
    means={"nvme0n1": ((0.1,), (), (2.0,))},
    splits={"vllm.service": Split(since="2026-01-02T03:04:05+00:00", starts=(7,), shares={"0": 1.0})},
)


def write_own(path: Path, data: bytes) -> None:
    """Write a file as the agent makes them: nobody else may read it."""
    path.write_bytes(data)
    path.chmod(0o600)


def event(number: int = 0, at: float = NOW, message: str = "x8") -> Event:
    return Event(
        at=at, transition="appeared", id="HD201", name="n", subject=f"GPU{number}", severity="critical", message=message
    )


def opened(path: Path) -> State:
    state = State(path)
    assert state.open(NOW) is None
    return state


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Let writes beyond a size fail, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_is_saved_is_there_again(tmp_path: Path) -> None:
    state = opened(tmp_path / "s.db")
    assert state.load() == Memory()
    state.save(MEMORY, [event(0), event(1)])
    state.close()
    again = opened(tmp_path / "s.db")
    assert again.load() == MEMORY
    assert [e.subject for e in again.events(10)] == ["GPU0", "GPU1"]
    assert [e.subject for e in again.events(1)] == ["GPU1"]


def test_only_its_user_may_read_it(tmp_path: Path) -> None:
    opened(tmp_path / "s.db")
    assert (tmp_path / "s.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone makes files for others")
def test_what_root_makes_belongs_to_whom_the_folder_belongs_to(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    state = opened(tmp_path / "s.db")
    state.save(MEMORY, [event()])
    assert {(path.stat().st_uid, path.stat().st_gid) for path in tmp_path.iterdir()} == {(65534, 65534)}


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"garbage" * 1000,
        lambda data: data[:100] + b"\xff" * 3996 + data[4096:],
        lambda data: data[:4096] + b"\xff" * 4096 + data[8192:],
        lambda data: data[: len(data) // 2],
    ],
    ids=["other", "first page", "second page", "cut short"],
)
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "s.db"
    state = opened(path)
    state.save(MEMORY, [event(n, message="x" * 200) for n in range(100)])
    state.close()
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    state = State(path)
    said = state.open(NOW)
    assert said is not None
    assert "set aside as s.db.damaged-2027-01-15T080000Z" in said
    assert state.load() == Memory()
    state.save(MEMORY, [event()])
    assert len(state.events(9)) == 1
    assert (tmp_path / "s.db.damaged-2027-01-15T080000Z").exists()


def test_of_the_damaged_ones_three_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for day in (0, 1, 2, 3, -300):  # the clock is set back
        write_own(path, b"garbage" * 1000)
        state = State(path)
        state.open(NOW + day * DAY_S)
        state.close()
    kept = sorted(path.name.partition("-")[2] for path in tmp_path.glob("s.db.damaged-*"))
    assert [name[:10] for name in kept] == ["2026-03-21", "2027-01-17", "2027-01-18"]


def test_a_file_of_a_later_version_is_left_as_it_is(tmp_path: Path) -> None:
    state = opened(tmp_path / "s.db")
    state.close()
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    before = (tmp_path / "s.db").read_bytes()
    with pytest.raises(StateError, match=r"written by a later version, or another program \(format 99\)"):
        State(tmp_path / "s.db").open(NOW)
    assert (tmp_path / "s.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


@pytest.mark.parametrize("table", ["mine", "events", "memory"])
def test_another_programs_database_is_left_as_it_is(tmp_path: Path, table: str) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {table} (a)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match="another program's database") as raised:
        State(path).open(NOW)
    assert not raised.value.is_damaged
    assert path.read_bytes() == before


def test_a_file_that_was_named_by_mistake_is_not_moved(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[agent]\ninterval = 5\n" * 100, encoding="utf-8")
    path.chmod(0o644)
    with pytest.raises(StateError, match="not a database"):
        State(path).open(NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("target", ["/dev/null", "/dev/full", "s.db", "missing/s.db", "fifo", "."])
def test_a_link_to_what_can_be_no_state_is_an_error_and_stays(tmp_path: Path, target: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    path = tmp_path / "s.db"
    path.symlink_to(target)
    with pytest.raises(StateError) as raised:
        State(path).open(NOW)
    assert not raised.value.is_damaged
    assert str(path.readlink()) == target


def test_a_link_to_another_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "s.db").symlink_to("disk/real.db")
    state = opened(tmp_path / "s.db")
    state.save(MEMORY, ())
    state.close()
    assert opened(tmp_path / "disk" / "real.db").load() == MEMORY


def test_a_start_that_was_killed_before_it_made_the_tables(tmp_path: Path) -> None:
    write_own(tmp_path / "s.db", b"")
    state = opened(tmp_path / "s.db")
    state.save(MEMORY, ())
    assert state.load() == MEMORY


def test_of_two_agents_the_second_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to("s.db")
    code = "import sys; from hostdoctor.agent.state import *; State(Path(sys.argv[1])).claim()"
    state = State(tmp_path / "s.db")
    state.claim()
    state.claim()
    for name in ("s.db", "link.db"):
        ran = subprocess.run((sys.executable, "-c", code, str(tmp_path / name)), capture_output=True, text=True)
        assert "UsageError: --state: another agent keeps its state there" in ran.stderr


def test_no_room_is_an_error_and_costs_nothing_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    state = opened(path)
    state.save(MEMORY, [event()])
    many = [event(n, message="x" * 1000) for n in range(500)]
    with no_file_longer_than(65536), pytest.raises(StateError) as raised:
        state.save(Memory(), many)
    assert not raised.value.is_damaged
    assert state.load() == MEMORY
    assert len(state.events(999)) == 1
    state.save(Memory(), many)
    assert len(state.events(999)) == 501


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="No such file"):
        State(tmp_path / "none" / "s.db").open(NOW)


def test_what_cannot_be_understood_counts_as_not_known(tmp_path: Path) -> None:
    state = opened(tmp_path / "s.db")
    state.save(MEMORY, ())
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("UPDATE memory SET value = ? WHERE name = 'held'", (b'{"x": 1}',))
    connection.close()
    assert state.load() == Memory(baseline=MEMORY.baseline, means=MEMORY.means, splits=MEMORY.splits)


def test_a_history_that_somebody_wrote_into_is_an_error(tmp_path: Path) -> None:
    state = opened(tmp_path / "s.db")
    state.save(MEMORY, [event()])
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("UPDATE events SET severity = 'dreadful'")
    connection.close()
    with pytest.raises(StateError, match="dreadful"):
        state.events(9)


def test_old_events_go_and_the_newest_thousand_stay(tmp_path: Path) -> None:
    state = opened(tmp_path / "s.db")
    state.save(Memory(), [event(n, at=NOW - 100 * DAY_S) for n in range(1500)])
    state.prune(NOW, days=90)
    assert [len(state.events(9999)), state.events(9999)[0].subject] == [1000, "GPU500"]


def test_there_are_never_more_events_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 20)
    state = opened(tmp_path / "s.db")
    state.save(Memory(), [event(n) for n in range(50)])
    state.prune(NOW, days=90)
    assert [e.subject for e in state.events(99)] == [f"GPU{n}" for n in range(30, 50)]


def test_writes_of_another_process_are_noticed_and_own_ones_are_not(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "s.db"), opened(tmp_path / "s.db")
    one.load()
    one.save(MEMORY, ())
    assert not one.changed_elsewhere()
    other.load()
    other.save(Memory(), ())
    assert one.changed_elsewhere()
    assert one.load() == Memory()
    assert not one.changed_elsewhere()


def test_who_only_reads_is_no_writer(tmp_path: Path) -> None:
    one = opened(tmp_path / "s.db")
    one.load()
    one.save(MEMORY, [event()])
    reader = State(tmp_path / "s.db")
    assert len(reader.events(9)) == 1
    reader.close()
    assert not one.changed_elsewhere()


def test_a_file_that_was_removed_is_written_again_as_a_whole(tmp_path: Path) -> None:
    state = opened(tmp_path / "s.db")
    state.load()
    state.save(MEMORY, [event()])
    for path in tmp_path.iterdir():
        path.unlink()
    state.save(MEMORY, [event(1)])
    state.close()
    again = opened(tmp_path / "s.db")
    assert again.load() == MEMORY
    assert [e.subject for e in again.events(9)] == ["GPU1"]


def test_nothing_is_written_when_nothing_has_changed(tmp_path: Path) -> None:
    state = opened(tmp_path / "s.db")
    state.save(MEMORY, ())
    size = (tmp_path / "s.db-wal").stat().st_size
    state.save(MEMORY, ())
    assert (tmp_path / "s.db-wal").stat().st_size == size


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_what_root_makes_is_the_services(tmp_path: Path) -> None:
    """``accept-baseline`` before the first start: the service is not root, and has to write it."""
    os.chown(tmp_path, 12345, 12346)
    state = opened(tmp_path / "s.db")
    state.save(MEMORY, (event(),))
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in tmp_path.iterdir()}
    state.close()
    assert owners == {(12345, 12346)}
