"""``compare -- COMMAND`` here, near against near: servers that are restarted, and everything that goes wrong."""

import json
import shlex
import signal
import socket
import subprocess  # noqa: TID251  mounts a small disk
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.support.live_run import Ended, Started

ENGINE = Path(__file__).with_name("fake_engine.py")
SCHEMA = Path(__file__).parents[2] / "hostdoctor" / "schemas" / "experiment.schema.json"
RUNS = 13  # a warm-up, six times near and near again

Start = Callable[..., Started]


@pytest.fixture
def port() -> int:
    """Return a port that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        free: int = taken.getsockname()[1]
        return free


@pytest.fixture
def start(port: int, tmp_path: Path) -> Start:
    """Return a function that starts an experiment: options, words of the server, words of the client."""

    def starter(
        *options: str, server: tuple[str, ...] = (), client: tuple[str, ...] = (), out: Path | None = None
    ) -> Started:
        serve = shlex.join((sys.executable, str(ENGINE), "serve", "--port", str(port), *server))
        bench = (sys.executable, str(ENGINE), "bench", "--port", str(port), "--seed", "{seed}", "--result", "{result}")
        where = ("--out", str(out or tmp_path / "out"))
        near = ("--node", "0", "--arms", "near,near", "--pairs", "6", "--format", "json")
        return Started(("compare", *near, *where, "--server", serve, *options, "--", *bench, *client))

    return starter


def ended(started: Started) -> Ended:
    done = started.end()
    assert done.left == ()
    assert "Traceback" not in done.err
    return done


def kept(folder: Path) -> int:
    """Return how many runs are kept."""
    return len(list(folder.glob("runs/*/run.json")))


def wait_for(started: Started, folder: Path, runs: int) -> None:
    limit = time.monotonic() + 60
    while kept(folder) < runs and started.process.poll() is None and time.monotonic() < limit:
        time.sleep(0.05)
    assert kept(folder) >= runs


def test_a_slow_arm_is_found(start: Start, tmp_path: Path) -> None:
    slow = ("--slow-arm", "again", "--slow-factor", "4")
    done = ended(start("--rate", "20", "--pairs", "8", server=slow, client=("--rate", "{rate}")))
    assert done.status == 0, done.err
    document = json.loads(done.out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert document["arms"] == ["near", "near again"]
    assert document["primary"]["verdict"] == "near-faster"
    assert document["primary"]["words"].startswith("near is faster by ")
    assert document["pairs"] + len(document["discarded"]) == 8
    assert document["rate_per_s"] == 20
    assert document["failed_requests"] == {"near": 0, "far": 0}
    assert {run["request_rate"] for run in document["provenance"]["near"]} == {20}
    saved = json.loads((tmp_path / "out" / "comparison.json").read_text(encoding="utf-8"))
    assert saved == document


def test_the_order_is_abba_and_each_run_has_its_own_server(start: Start, tmp_path: Path) -> None:
    done = ended(start(client=("--requests", "3")))
    document = json.loads(done.out)
    assert [run["role"] for run in document["runs"]] == ["near", *(["near", "again", "again", "near"] * 3)]
    for run in document["runs"]:
        assert [place["when"] for place in run["places"]] == ["start", "end"]
        assert all(place["memory_inside"] == 1 and place["threads_inside"] == 1 for place in run["places"])
        assert run["ready_s"] > 0
    seeds = [json.loads((tmp_path / "out" / run["result"]).read_text())["seed"] for run in document["runs"][1:]]
    assert seeds == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    host = json.loads((tmp_path / "out" / "host.json").read_text(encoding="utf-8"))
    assert host["numa_nodes"]


def test_a_server_that_ends_before_it_is_ready_stops_the_experiment(start: Start, tmp_path: Path) -> None:
    done = ended(start(server=("--fail-in-run", "3"), client=("--requests", "3")))
    assert done.status == 3
    last = done.err.splitlines()[-1]
    assert "run 3 (again): the server ended before it was ready: status 3" in last
    assert "CUDA error: no device" in last
    assert f"3 of {RUNS} runs are kept: --resume {tmp_path / 'out'}" in last
    partial = json.loads(done.out)
    assert partial["primary"]["verdict"] == "insufficient"
    assert partial["pairs"] + len(partial["discarded"]) == 1


def test_a_server_that_ends_while_it_is_driven_is_named(start: Start) -> None:
    done = ended(start(server=("--end-after", "10")))
    assert done.status == 3
    assert "the server ended during the run: status 9; its last words: out of memory" in done.err


def test_a_client_that_fails_is_named(start: Start) -> None:
    done = ended(start(client=("--fail-in-run", "0")))
    assert done.status == 3
    assert "run 0 (near): the client failed: status 1; its last words: ConnectionResetError" in done.err
    assert done.out == ""


def test_a_client_that_hangs_is_ended(start: Start, tmp_path: Path) -> None:
    done = ended(start("--timeout", "2", client=("--hang-in-run", "2", "--requests", "3")))
    assert done.status == 3
    assert "run 2 (again): the client did not end within 2 s (--timeout)" in done.err
    assert kept(tmp_path / "out") == 2


def test_a_server_that_is_never_ready_is_ended(start: Start) -> None:
    done = ended(start("--ready-timeout", "1", server=("--never-ready",)))
    assert done.status == 3
    assert "the server was not ready within 1 s (http://127.0.0.1:" in done.err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_was_measured_and_resume_goes_on(
    start: Start, tmp_path: Path, number: int, status: int
) -> None:
    folder = tmp_path / "out"
    started = start(client=("--requests", "3"))
    wait_for(started, folder, 4)
    started.process.send_signal(number)
    done = ended(started)
    assert done.status == status
    partial = json.loads(done.out)
    assert not partial["complete"]
    assert partial["primary"]["verdict"] == "insufficient"
    assert f"--resume {folder} goes on" in done.err.splitlines()[-1]
    before = kept(folder)
    resumed = ended(Started(("compare", "--resume", str(folder), "--format", "json")))
    assert resumed.status == 0, resumed.err
    whole = json.loads(resumed.out)
    assert whole["complete"]
    assert len(whole["runs"]) == RUNS
    assert resumed.err.count(f"/{RUNS}] ") == RUNS - before


def test_nothing_outlives_an_experiment_that_is_killed(start: Start, tmp_path: Path) -> None:
    started = start(server=(), client=("--hang-in-run", "1", "--requests", "3"))
    wait_for(started, tmp_path / "out", 1)
    limit = time.monotonic() + 30
    while not any("hang-in-run" in words for words in started.started_processes()) and time.monotonic() < limit:
        time.sleep(0.05)
    assert started.started_processes()
    started.process.kill()
    while started.started_processes() and time.monotonic() < limit:
        time.sleep(0.05)
    assert started.end().left == ()


def test_another_server_at_the_same_address_is_noticed(start: Start, port: int) -> None:
    words = (sys.executable, str(ENGINE), "serve", "--port", str(port))
    with subprocess.Popen(words) as other:
        try:
            limit = time.monotonic() + 30
            while time.monotonic() < limit:
                with socket.socket() as asked:
                    if asked.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            done = ended(start())
        finally:
            other.kill()
    assert done.status == 3
    assert "answers already: another server is there" in done.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that holds 3 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)), check=False)
    if mounted.returncode != 0:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


def test_a_full_disk_is_said_and_what_was_measured_stays_readable(start: Start, small_disk: Path) -> None:
    folder = small_disk / "out"
    done = ended(start(server=("--words", str(300_000)), client=("--requests", "3"), out=folder))
    assert done.status == 3
    last = done.err.splitlines()[-1]
    assert "no space left on device" in last.lower()
    assert f"--resume {folder} goes on" in last
    assert kept(folder) >= 3
    assert json.loads((folder / "runs" / "002-pair-1-again" / "run.json").read_text())["trial"]["number"] == 2


def test_a_command_by_itself_is_timed_and_bound(tmp_path: Path) -> None:
    options = ("--node", "0", "--arms", "near,near", "--pairs", "6", "--out", str(tmp_path / "out"), "--format", "json")
    # it is looked at after 1, 2, 4 … seconds: one look comes while it holds its memory, however slowly it got there
    code = (
        "import os, time; started = int(open('/proc/self/stat').read().rpartition(')')[2].split()[19]);"
        " held = bytearray(30 << 20);"
        " age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf('SC_CLK_TCK');"
        " time.sleep(max(1.3, 2 * age_s))"
    )
    done = ended(Started(("compare", *options, "--", sys.executable, "-c", code)))
    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert document["primary"]["metric"] == "wall"
    walls = [
        json.loads((tmp_path / "out" / run["result"]).read_text())["latencies"]["wall"] for run in document["runs"]
    ]
    assert all(wall["samples_ms"][0] >= 1300 for wall in walls)
    place = document["runs"][1]["places"][-1]
    assert place["memory_bytes"]["0"] >= 30 << 20
    assert place["memory_inside"] == 1


def test_the_client_writes_where_it_likes(start: Start, tmp_path: Path, port: int) -> None:
    serve = shlex.join((sys.executable, str(ENGINE), "serve", "--port", str(port)))
    own = tmp_path / "own.json"
    bench = (sys.executable, str(ENGINE), "bench", "--port", str(port), "--requests", "3", "--result", str(own))
    near = ("--node", "0", "--arms", "near,near", "--pairs", "6", "--out", str(tmp_path / "out"), "--format", "json")
    done = ended(Started(("compare", *near, "--server", serve, "--result", str(own), "--", *bench)))
    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert len({(tmp_path / "out" / run["result"]).read_bytes() for run in document["runs"]}) == RUNS
    assert any("no {seed}" in note for note in document["warnings"])


def test_an_old_result_is_not_taken_for_a_new_one(start: Start, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    done = ended(start("--result", str(own), client=("--requests", "3", "--silent-in-run", "1", "--result", str(own))))
    assert done.status == 3
    assert f"run 1 (near): no result: the client wrote no {own}" in done.err
    assert kept(tmp_path / "out") == 1


def test_an_experiment_has_its_folder_to_itself(start: Start, tmp_path: Path) -> None:
    started = start(client=("--requests", "3", "--hang-in-run", "1"))
    wait_for(started, tmp_path / "out", 1)
    for again in (start(), Started(("compare", "--resume", str(tmp_path / "out")))):
        done = ended(again)
        assert done.status == 3
        assert done.err.endswith(f"{tmp_path / 'out'}: another compare is at work in it\n")
    started.process.terminate()
    assert ended(started).status == 143


def test_a_document_that_cannot_be_printed_is_kept(tmp_path: Path) -> None:
    words = ("--node", "0", "--arms", "near,near", "--pairs", "6", "--out", str(tmp_path / "out"), "--", "true")
    command = (sys.executable, "-m", "hostdoctor", "compare", *words)
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, stdout=full, stderr=full, check=False)
    assert ran.returncode == 3
    document = json.loads((tmp_path / "out" / "comparison.json").read_text(encoding="utf-8"))
    assert (document["complete"], document["pairs"]) == (True, 6)


def test_resume_goes_on_where_it_was_begun_and_takes_no_other_options(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    where = ("--node", "0", "--arms", "near,near", "--pairs", "6", "--out", str(folder))
    begun = Started(("compare", *where, "--", sys.executable, "-c", "import os; assert os.getcwd() == '/'"))
    assert ended(begun).status == 0
    for path in folder.glob("runs/01*"):
        path.rename(tmp_path / path.name)
    refused = ended(Started(("compare", "--resume", str(folder), "--pairs", "8")))
    assert refused.status == 64
    assert "--resume goes on by its own options: --pairs says nothing there" in refused.err
    command = (sys.executable, "-m", "hostdoctor", "compare", "--resume", str(folder))
    elsewhere = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (elsewhere.returncode, kept(folder)) == (0, RUNS), elsewhere.stderr


def test_capacity_is_probed_and_the_rate_kept_below_it(start: Start) -> None:
    done = ended(start("--probe-capacity", client=("--rate", "{rate}", "--requests", "5")))
    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert document["capacity_per_s"].keys() == {"near"}
    assert (
        0.7 * document["capacity_per_s"]["near"] <= document["rate_per_s"] <= 0.8 * document["capacity_per_s"]["near"]
    )
    probe = next(run for run in document["runs"] if run["kind"] == "probe")
    assert probe["number"] == 1


def test_a_rate_above_what_was_probed_is_refused(start: Start) -> None:
    done = ended(start("--probe-capacity", "--rate", "100000", client=("--rate", "{rate}", "--requests", "5")))
    assert done.status == 3
    assert "--rate 100000 is above 80 % of the slower arm's capacity" in done.err


def test_a_result_without_what_is_compared_is_said_at_the_first_run(start: Start) -> None:
    done = ended(start("--metric", "wall", client=("--requests", "3")))
    assert done.status == 3
    assert "run 0 (near): the result tells no wall (it tells " in done.err


def test_dry_run_prints_every_command_and_starts_none(start: Start, tmp_path: Path) -> None:
    done = ended(start("--dry-run", client=("--requests", "3")))
    assert done.status == 0
    assert done.out.count("fake_engine.py serve") == RUNS
    assert done.out.count("fake_engine.py bench") == RUNS
    assert "--seed 6 " in done.out
    assert f"until http://127.0.0.1:{done.out.split('--port ')[1].split()[0]}/health answers" in done.out
    assert not (tmp_path / "out").exists()


def test_a_server_that_speaks_no_http_is_never_ready(start: Start) -> None:
    done = ended(start("--ready-timeout", "2", server=("--garbage",)))
    assert done.status == 3
    assert "run 0 (near): the server was not ready within 2 s" in done.err


def test_an_existing_folder_is_left_alone(start: Start, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    done = ended(start())
    assert done.status == 64
    assert "is not empty (--resume goes on with an experiment)" in done.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
