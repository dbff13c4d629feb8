"""The textfile: whole or not there, and gone when nobody refreshes it."""

import os
import threading
from pathlib import Path

import msgspec
import pytest

from hostdoctor.agent.textfile import NAME, TextfilePublisher
from hostdoctor.errors import OutputError, UsageError
from tests.agent.snapshots import healthy, sick


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_snapshot_becomes_a_file_that_others_may_read(tmp_path: Path) -> None:
    TextfilePublisher(tmp_path)(healthy())
    text = (tmp_path / NAME).read_text(encoding="utf-8")
    assert 'hostdoctor_status{status="ok"} 1\n' in text
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o644
    assert names_in(tmp_path) == [NAME]


def test_the_collector_reads_no_file_in_the_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(names_in(tmp_path)))
    TextfilePublisher(tmp_path)(healthy())
    assert len(seen) == 1
    assert not seen[0].endswith(".prom")


def test_readers_see_one_snapshot_or_the_other(tmp_path: Path) -> None:
    publish = TextfilePublisher(tmp_path)
    publish(healthy())
    path, texts, ended = tmp_path / NAME, set(), threading.Event()

    def read() -> None:
        while not ended.is_set():
            texts.add(path.read_text(encoding="utf-8"))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        publish(sick())
        publish(healthy())
    ended.set()
    reader.join()
    whole = set()
    for snapshot in (healthy(), sick()):
        publish(snapshot)
        whole.add(path.read_text(encoding="utf-8"))
    assert texts <= whole


def test_a_full_disk_leaves_the_last_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = TextfilePublisher(tmp_path)
    publish(healthy())
    before = (tmp_path / NAME).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        publish(sick())
    assert (tmp_path / NAME).read_bytes() == before
    assert names_in(tmp_path) == [NAME]


def test_a_new_agent_takes_away_what_a_killed_one_left(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("hostdoctor_agent_surveys_total 7\n", encoding="utf-8")
    (tmp_path / f".{NAME}.abc123").write_text("hostdoctor_agent_sur", encoding="utf-8")
    (tmp_path / "other.prom").write_text("other 1\n", encoding="utf-8")
    TextfilePublisher(tmp_path)
    assert names_in(tmp_path) == ["other.prom"]


def test_an_agent_that_ends_takes_its_file_away(tmp_path: Path) -> None:
    publish = TextfilePublisher(tmp_path)
    publish(healthy())
    publish.close()
    publish.close()
    assert names_in(tmp_path) == []


def test_a_folder_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        TextfilePublisher(tmp_path / "missing")
    (tmp_path / "elsewhere").write_text("kept", encoding="utf-8")
    (tmp_path / NAME).symlink_to("elsewhere")
    with pytest.raises(UsageError, match="not a regular file"):
        TextfilePublisher(tmp_path)
    assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == "kept"


def test_names_of_other_languages_survive(tmp_path: Path) -> None:
    odd = msgspec.structs.replace(healthy(), version='0.1"\\\n\udcff Ω')
    TextfilePublisher(tmp_path)(odd)
    assert 'version="0.1\\"\\\\ ? Ω"' in (tmp_path / NAME).read_text(encoding="utf-8")
