import contextlib
import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import HostdoctorError, SourceError, UsageError
from hostdoctor.sources import texts
from hostdoctor.sources.base import COLLECT_ENV, INTERRUPTS, LSPCI, NUMACTL, TOPO_MATRIX, Source
from hostdoctor.sources.texts import TextSource, read_text_file

MATRIX = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0\n"
NUMA = "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 100 MB\nnode 0 free: 50 MB\n"


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_offers_what_a_source_offers() -> None:
    source: Source = TextSource([("paste.txt", MATRIX)])
    assert source.is_live is False
    assert source.label == "paste.txt"
    assert source.read("/proc/interrupts") is None
    assert source.why_unreadable("/proc/interrupts") == ("missing", "not in the given text")
    assert source.listdir("/sys/devices") == ()
    assert source.readlink("/sys/class/nvme/nvme0") is None
    assert source.environ("CUDA_VISIBLE_DEVICES") is None
    nvml = source.nvml()
    assert (nvml.state, nvml.document) == ("not-asked", None)
    source.prefetch([TOPO_MATRIX])


def test_names_an_output_after_what_it_is_and_where_it_stands() -> None:
    source = TextSource([("paste.txt", MATRIX + "\n" + NUMA), ("more.txt", NUMA)])
    assert [output.source for output in source.run(TOPO_MATRIX)] == ["nvidia-smi topo -m in paste.txt"]
    assert [output.source for output in source.run(NUMACTL)] == [
        "numactl --hardware in paste.txt",
        "numactl --hardware in more.txt",
    ]
    assert source.label == "paste.txt, more.txt"
    assert source.run(LSPCI) == ()
    assert source.run(COLLECT_ENV) == ()


def test_tells_two_outputs_of_one_text_apart_by_line() -> None:
    source = TextSource([("two.txt", MATRIX + "\nthe other one:\n" + MATRIX)])
    assert [output.source for output in source.run(TOPO_MATRIX)] == [
        "nvidia-smi topo -m in two.txt, line 1",
        "nvidia-smi topo -m in two.txt, line 5",
    ]


def test_hands_out_interrupts_as_a_commands_output() -> None:
    row = " 130:      34845          0  IR-PCI-MSI 33554433-edge      nvme0q1\n"
    (output,) = TextSource([("irq.txt", row)]).run(INTERRUPTS)
    assert (output.source, output.text) == ("/proc/interrupts in irq.txt", row)


def test_calls_standard_input_by_its_name() -> None:
    source = TextSource([("-", NUMA)])
    assert source.label == "standard input"
    assert source.run(NUMACTL)[0].source == "numactl --hardware in standard input"


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "#!/bin/sh\nnvidia-smi topo -m | grep GPU0\n"])
def test_refuses_a_text_with_nothing_known(text: str) -> None:
    with pytest.raises(SourceError, match=r"^notes\.txt: nothing known in this text .*numactl") as caught:
        TextSource([("paste.txt", NUMA), ("notes.txt", text)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\xc3\xa9\n", "aé\n"),
        (b"\xef\xbb\xbfGPU0\n", "\ufeffGPU0\n"),
        ("GPU0 é\n".encode("utf-16"), "\ufeffGPU0 é\n"),
        ("GPU0 é\n".encode("utf-16-be"), "GPU0 é\n"),
        ("GPU0 ok\n".encode("utf-16-le"), "GPU0 ok\n"),
        (b"b\xfcro\n", "büro\n"),
        ("ノード数: 2\n".encode()[1:], "��ード数: 2\n"),
        (b"a\0b\n" + b"c" * 40, "a\0b\n" + "c" * 40),
        (b"\x1b[4mGPU0\x1b[0m\r\n", "\x1b[4mGPU0\x1b[0m\r\n"),
    ],
)
def test_reads_every_usual_encoding(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "x").write_bytes(data)
    assert read_text_file(tmp_path / "x").lstrip("\ufeff") == text.lstrip("\ufeff")


def test_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(NUMA.encode()))
    assert read_text_file("-") == NUMA


def test_refuses_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SourceError, match="standard input: closed"):
        read_text_file("-")


def test_refuses_endless_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(texts, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(sys, "stdin", Stdin(b"x" * (1 << 21)))
    with pytest.raises(SourceError, match="standard input: more than 1 MiB"):
        read_text_file("-")
    (tmp_path / "big").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(SourceError, match="big: more than 1 MiB"):
        read_text_file(tmp_path / "big")


@pytest.mark.parametrize("data", [bytes(range(256)) * 20, b"\x1f\x8b\x08\0" + os.urandom(4096), b"\0" * 100])
def test_refuses_what_is_not_text(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(SourceError, match="not a text"):
        read_text_file(tmp_path / "x")


def test_says_that_what_is_packed_is_not_read_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b"\x1f\x8b\x08\0" + os.urandom(4096)))
    with pytest.raises(SourceError, match=r"not a text \(archives and packed reports are read from files"):
        read_text_file("-")


def test_names_a_missing_file_as_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "missing", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="no such file"):
            read_text_file(path)


def test_refuses_folders_fifos_and_devices_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(SourceError, match="not a regular file"):
            read_text_file(path)


def test_refuses_a_file_that_became_a_fifo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    regular = Path(__file__).stat()
    monkeypatch.setattr(Path, "stat", lambda self, **_: regular)
    with pytest.raises(SourceError, match="not a regular file"):
        read_text_file(tmp_path / "fifo")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_says_why_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(NUMA)
    (tmp_path / "secret").chmod(0)
    with pytest.raises(SourceError, match="Permission denied"):
        read_text_file(tmp_path / "secret")


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b"])
def test_survives_names_that_cannot_be(name: str) -> None:
    with pytest.raises(HostdoctorError):
        read_text_file(Path(name))


@given(st.binary(max_size=400))
def test_reading_any_bytes_gives_a_text_or_a_source_error(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(SourceError):
        patch.setattr(sys, "stdin", Stdin(data))
        assert isinstance(read_text_file("-"), str)
