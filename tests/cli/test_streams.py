"""Output that cannot be written, and a command line without a command."""

import os
import subprocess  # noqa: TID251  real file descriptors
import sys
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "hostdoctor", "check", "--demo")


def run(redirection: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(COMMAND, stdout=redirection, stderr=subprocess.PIPE, text=True, timeout=60, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        ran = run(descriptor)
    finally:
        os.close(descriptor)
    assert (ran.returncode, ran.stderr) == (3, "hostdoctor: cannot write the output: No space left on device\n")


def test_a_closed_pipe_is_silent() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = run(writer)
    finally:
        os.close(writer)
    assert (ran.returncode, ran.stderr) == (141, "")


def test_a_closed_output_still_gives_the_verdict() -> None:
    code = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    ran = subprocess.run([sys.executable, "-c", code, *COMMAND[1:]], stderr=subprocess.PIPE, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (2, "")


def test_no_command_shows_the_help() -> None:
    ran = subprocess.run(COMMAND[:3], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 64
    assert "Usage: hostdoctor" in ran.stdout
    assert ran.stderr == ""
