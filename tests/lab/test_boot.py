"""The lab says why it cannot run, loads modules in order, and leaves nothing behind."""

import os
import shutil
import signal
import subprocess  # noqa: TID251  watches what outlives a killed test run
import sys
import time
from pathlib import Path

import pytest

from tests.lab import boot as lab
from tests.lab.kernel import Kernel, Unavailable, kernel


@pytest.fixture
def cached(tmp_path: Path) -> Kernel:
    """Return a kernel of four modules, one of them built in."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules.builtin").write_text("kernel/lib/crc-base.ko\n")
    for name, needs in {"nvme": "nvme-core", "nvme_core": "t10-pi,crc-base", "t10_pi": ""}.items():
        (tmp_path / "modules" / f"{name}.ko").write_bytes(b"\x7fELF\0license=GPL\0depends=" + needs.encode() + b"\0x")
    return Kernel(folder=tmp_path)


def test_modules_come_after_what_they_need(cached: Kernel) -> None:
    names = [path.name for path in cached.with_needed(("nvme", "t10-pi"))]
    assert names == ["t10_pi.ko", "nvme_core.ko", "nvme.ko"]


def test_a_cache_that_lacks_a_module_says_so(cached: Kernel) -> None:
    with pytest.raises(Unavailable, match=r"no ext4\.ko: remove that folder"):
        cached.with_needed(("ext4",))


def test_without_qemu_there_is_no_guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(Unavailable, match=r"qemu-system-x86_64 is not here \(package qemu-system-x86\)"):
        lab.boot(["true"], tmp_path)


def test_other_processors_have_no_guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(Unavailable, match="aarch64"):
        lab.boot(["true"], tmp_path)


def test_without_apt_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOSTDOCTOR_LAB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(Unavailable, match="kernel cannot be fetched"):
        kernel()


def test_a_failed_download_is_told_in_apts_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("HOSTDOCTOR_LAB_CACHE", str(tmp_path / "cache"))
    for name, body in {
        "apt-cache": "echo '  Depends: linux-image-9.9.9-amd64'",
        "apt-get": "echo 'E: Failed to fetch (no network)' >&2; exit 100",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(Unavailable, match=r"download linux-image-9\.9\.9-amd64: E: Failed to fetch \(no network\)"):
        kernel()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_guest_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "DEADLINE_S", 0.5)
    began = time.monotonic()
    assert "killed after 0.5 s" in lab._run(["sleep", "1000"])
    assert time.monotonic() - began < 30


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not here")
def test_a_guest_ends_with_the_tests_that_started_it(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    script = f"from tests.lab.boot import _run; _run(['sh', '-c', 'echo $$ > {told}; exec sleep 1000'])"
    with subprocess.Popen((sys.executable, "-c", script), cwd=lab.ROOT) as tests:
        try:
            pid = _pid_in(told)
        finally:
            tests.send_signal(signal.SIGKILL)
    limit = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not _runs(pid)


def _pid_in(file: Path) -> int:
    limit = time.monotonic() + 30
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < limit
        time.sleep(0.05)
    return int(file.read_text())


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
