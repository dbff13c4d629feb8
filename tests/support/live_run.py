"""Running the real command line on this machine, with other tools, another driver library and another ``/sys``."""

import contextlib
import json
import os
import shutil
import signal
import subprocess  # noqa: TID251  runs the command line from outside
import sys
import time
import uuid
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

ENDING = "HUP,INT,QUIT,TERM"
MARK = "HOSTDOCTOR_TEST_RUN"  # in the environment of a run and so of all that it starts
FOREIGN = ("NVIDIA_", "CUDA_", "HOSTDOCTOR_", "NVML_", "LD_LIBRARY_PATH")
MOUNT_SYS = 'mount --bind "$0" /sys && exec "$@"'


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended; ``left`` names processes that it started and that outlived it."""

    status: int
    out: str
    err: str
    seconds: float
    left: tuple[str, ...]

    @property
    def report(self) -> dict[str, Any]:
        """Return what ``check --format json`` printed."""
        report: dict[str, Any] = json.loads(self.out)
        return report

    def result(self, id: str) -> dict[str, Any]:
        """Return one check's result."""
        return next(result for result in self.report["results"] if result["id"] == id)

    def gap(self, fact: str) -> dict[str, Any]:
        """Return the gap about a fact."""
        return next(gap for gap in self.report["host"]["gaps"] if gap["fact"] == fact)


class Started:
    """A run in progress."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        sys_folder: Path | None = None,
        user: int | None = None,
        python: str = sys.executable,
    ) -> None:
        self._mark = uuid.uuid4().hex
        kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
        # a caller in the background has some of them ignored, and a command inherits that
        command = [_full("env"), f"--default-signal={ENDING}", python, "-m", "hostdoctor", *arguments]
        if sys_folder is not None:
            command = [*unshare(), _full("sh"), "-c", _full_paths(MOUNT_SYS), str(sys_folder), *command]
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=kept | (environment or {}) | {MARK: self._mark},
            cwd="/",
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )

    def started_processes(self) -> tuple[str, ...]:
        """Return the command lines of the processes of this run that are alive, the run's own left out."""
        return tuple(_alive(self._mark, except_pid=self.process.pid).values())

    def end(self) -> Ended:
        """Wait for the end; a run that takes two minutes is killed and fails the test."""
        try:
            out, err = self.process.communicate(timeout=120)
        finally:
            self.process.kill()
        seconds = time.monotonic() - self._began
        limit = time.monotonic() + 2  # a killed process may take a moment to be gone
        while (left := _alive(self._mark, except_pid=self.process.pid)) and time.monotonic() < limit:
            time.sleep(0.1)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return Ended(status=self.process.returncode, out=out, err=err, seconds=seconds, left=tuple(left.values()))


@lru_cache(maxsize=1)
def unshare() -> tuple[str, ...]:
    """Return the command that gives a program its own mounts, ``()`` where that is not permitted."""
    if not shutil.which("unshare") or not shutil.which("mount"):
        return ()
    for options in (("--mount",), ("--user", "--map-root-user", "--mount")):
        command = (_full("unshare"), *options)
        trial = (*command, _full("sh"), "-c", _full_paths(MOUNT_SYS), "/sys", "/bin/true")
        if subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return command
    return ()


def _full(name: str) -> str:
    return shutil.which(name) or name


def _full_paths(script: str) -> str:
    return script.replace("mount", _full("mount"), 1)


def _alive(mark: str, except_pid: int) -> dict[int, str]:
    """Return the processes that carry a mark: their ids and command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() not in (folder / "environ").read_bytes() or folder.name == str(except_pid):
                continue
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found[int(folder.name)] = " ".join(word.decode(errors="replace") for word in words).strip()
    return found
