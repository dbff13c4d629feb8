"""``run`` becomes the command: same process, status, signals and streams; on a two-socket ``/sys`` with four GPUs.

This machine has fewer CPUs than that host: the binding is what of the node's CPUs exists here.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import Driver
from tests.support.live_run import ENDING, Ended, Started

ONLY_NODE_0 = "0"
SHOW = """
import json, os, pathlib
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
fds = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
print(json.dumps({"pid": os.getpid(), "ignored": status["SigIgn"].strip(), "blocked": status["SigBlk"].strip(),
    "fds": sorted(fds), "cpus": status["Cpus_allowed_list"].strip(), "children": len(os.listdir("/proc/self/task")),
    "devices": os.environ.get("CUDA_VISIBLE_DEVICES"), "locale": os.environ.get("LC_ALL")}))
"""


@pytest.fixture
def run(driver: Driver, fake_sys: Path) -> Any:
    """Return a function that starts ``hostdoctor run`` with these words."""

    def start(*words: str, **environment: str) -> Started:
        kept = {"PATH": os.environ["PATH"]} | driver() | environment
        return Started(("run", *words), environment=kept, sys_folder=fake_sys)

    return start


def ignored_here() -> int:
    """Return the signals that this process ignores, as a mask; a run inherits them, those that end it left out."""
    rows = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    ignored = int(next(row.split()[1] for row in rows if row.startswith("SigIgn:")), 16)
    return ignored & ~sum(1 << signal.Signals[f"SIG{name}"] - 1 for name in ENDING.split(","))


def ended(started: Started) -> Ended:
    done = started.end()
    assert done.left == ()
    assert "Traceback" not in done.err
    return done


def test_it_is_the_same_process_with_clean_signals_and_streams(run: Any) -> None:
    started = run("--gpus", "0", "--policy", "bind", "--", sys.executable, "-c", SHOW)
    pid = started.process.pid
    done = ended(started)
    shown = json.loads(done.out)
    assert (done.status, shown["pid"]) == (0, pid)
    pythons = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1  # what every Python ignores, the one shown too
    assert (int(shown["ignored"], 16), int(shown["blocked"], 16)) == (ignored_here() | pythons, 0)
    assert set(shown["fds"]) <= {"0", "1", "2", "3"}  # 3 reads the folder
    assert shown["devices"] == "0"
    assert shown["locale"] == os.environ.get("LC_ALL")
    assert done.err.startswith("hostdoctor: GPU0: memory ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("status", [0, 1, 2, 3, 64, 255])
def test_it_ends_with_the_commands_status(run: Any, status: int) -> None:
    assert ended(run("--gpus", "0", "--", "sh", "-c", f"exit {status}")).status == status


def test_a_signal_reaches_the_command_itself(run: Any) -> None:
    started = run("--gpus", "0", "--", sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)")
    assert started.process.stdout is not None
    assert started.process.stdout.readline() == "1\n"
    started.process.send_signal(signal.SIGTERM)
    assert ended(started).status == -signal.SIGTERM


def test_broken_pipes_end_the_command_as_they_do_elsewhere(run: Any) -> None:
    started = run("--gpus", "0", "--", "yes")
    assert started.process.stdout is not None
    started.process.stdout.readline()
    started.process.stdout.close()
    assert started.process.stderr is not None
    with started.process.stderr:
        assert started.process.wait(30) == -signal.SIGPIPE


def test_a_command_that_is_not_there_is_127_and_one_that_may_not_be_run_126(run: Any, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no program", encoding="ascii")
    missing = ended(run("--gpus", "0", "--", "/nonexistent/vllm"))
    assert (missing.status, missing.err.splitlines()[-1]) == (
        127,
        "hostdoctor: /nonexistent/vllm: no such file or directory",
    )
    assert ended(run("--gpus", "0", "--", str(tmp_path / "notes"))).status == 126


def test_a_script_without_an_interpreter_is_the_shells(run: Any, tmp_path: Path) -> None:
    script = tmp_path / "start"
    script.write_text('echo "$0 $*"; exit 7\n', encoding="ascii")
    script.chmod(0o755)
    for name in (str(script), "start"):
        done = ended(run("--gpus", "0", "--", name, "a b", PATH=f"{tmp_path}:{os.environ['PATH']}"))
        assert (done.status, done.out) == (7, f"{script} a b\n")
    (tmp_path / "other").write_bytes(b"\x7fELF\0 of another machine")
    (tmp_path / "other").chmod(0o755)
    assert ended(run("--gpus", "0", "--", str(tmp_path / "other"))).status == 126


@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-", ">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_or_full_keep_nothing_from_starting(run: Any, tmp_path: Path, stream: str) -> None:
    told = tmp_path / "told"
    hostdoctor = f"{sys.executable} -m hostdoctor run --gpus 0 -- sh -c 'echo here >{told}; exit 7' {stream}"
    assert ended(run("--gpus", "0", "--", "sh", "-c", hostdoctor)).status == 7
    assert told.read_text(encoding="ascii") == "here\n"


def test_a_caller_that_ignores_the_ends_of_children_changes_nothing(run: Any) -> None:
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    again = (sys.executable, "-c", ignoring, sys.executable, "-m", "hostdoctor", "run", "--gpus", "0", "--", "true")
    done = ended(run("--gpus", "0", "--", *again))
    assert (done.status, done.err.count("hostdoctor: GPU0: ")) == (0, 2)


def test_a_gpu_on_the_node_that_this_machine_lacks_is_refused(run: Any) -> None:
    done = ended(run("--gpus", "3", "--", "true"))
    assert done.status == 2
    assert "node 1" in done.err
    assert done.err.count("\n") == 1


def test_what_it_cannot_bind_it_does_not_start(run: Any) -> None:
    for words, status in (
        (("--gpus", "0,3", "--", "true"), 2),
        (("--gpus", "17", "--", "true"), 64),
        (("--gpus", "0"), 64),
        (("--gpus", "0", "--", ""), 64),
        (("--gpus", "0", "--", "env", "A=B", ""), 64),
        (("--engine", "nonsense", "--", "true"), 64),
        (("--gpus", "0", "--", "numactl", "-N", "1", "true"), 2),
    ):
        done = ended(run(*words))
        assert (done.status, done.out) == (status, ""), (words, done)
        assert done.err.count("\n") == 1, done.err
