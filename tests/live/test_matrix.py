"""``matrix run`` here, against an HTTP server whose law is known: the boundary, kills, everything that goes wrong."""

import json
import shutil
import signal
import socket
import subprocess  # noqa: TID251  runs an emitted job
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.live_run import Ended, Started
from tests.support.queue_server import ttft_ms

SERVER = Path(__file__).parents[1] / "support" / "queue_server.py"
SCHEMA = Path(__file__).parents[2] / "hostdoctor" / "schemas" / "matrix.schema.json"

Write = Callable[..., Path]


@pytest.fixture
def port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        free: int = taken.getsockname()[1]
        return free


@pytest.fixture
def write(port: int, tmp_path: Path) -> Write:
    """Return a function that writes an experiment: variants by their server's words, and the tables that differ."""

    def writer(variants: dict[str, tuple[str, ...]], **told: Any) -> Path:
        usual = {
            "contexts": [40, 80],
            "concurrency": [1, 2],
            "requests": 4,
            "repeats": 2,
            "ready": 60,
            "slo": 5000,
            "client": [],
        }
        told = usual | told
        serve = [sys.executable, str(SERVER), "serve", "--port", str(port)]
        load = f"requests = {told['requests']}, requests_per_slot = {told.get('slot', 1)}, warm_ups = 0"
        lines = [
            f"slo = {{ttft_p99_ms = {told['slo']}}}",
            'model = {name = "a/model"}',
            f"server = {{command = {json.dumps(serve)}, ready_timeout_s = {told['ready']}}}",
            "binding = {bind = false}",
            f"client = {{command = {json.dumps([*serve[:2], 'bench'])}, timeout_s = 100, options = {told['client']}}}",
            f"grid = {{contexts = {told['contexts']}, concurrency = {told['concurrency']}, output_tokens = 2}}",
            f"load = {{{load}, repeats = {told['repeats']}}}",
        ]
        if "mix" in told:
            lines.append(f"mix = {told['mix']}")
        for name, args in variants.items():
            lines += ["[[variants]]", f'name = "{name}"', f"args = {json.dumps(args)}"]
        path = tmp_path / "experiment.toml"
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return writer


def run(*words: str) -> Ended:
    done = Started(("matrix", "run", *words)).end()
    assert done.left == ()
    assert "Traceback" not in done.err
    return done


def kept(folder: Path) -> list[tuple[str, str, str]]:
    """Return the runs that are kept: series, cell, repeat."""
    return sorted(path.parts[-4:-1] for path in folder.glob("runs/*/*/r?/run.json"))  # type: ignore[misc]


def test_the_planted_boundary_is_found_over_http(write: Write, tmp_path: Path) -> None:
    """Alone a prompt of 400 tokens takes 10 ms, with the penalty 20; every other request at once adds as much.

    The steps are wide, and one of them may be missed: this machine has other things to do.
    """
    slo, columns = 800, [4, 16, 64, 128]
    file = write({"A": (), "C": ("--penalty", "2")}, contexts=[402], concurrency=columns, requests=256, slot=4, slo=slo)
    out = tmp_path / "out"
    done = run(str(file), "--bisect", "--out", str(out), "--format", "json")
    assert done.status == 0, done.err
    document = json.loads(done.out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert json.loads((out / "matrix.json").read_text(encoding="utf-8")) == document
    edges = {one["series"]["variant"]: one["rows"][0] for one in document["series"]}
    for variant, penalty in (("A", 1.0), ("C", 2.0)):
        truth = max(place for place, many in enumerate(columns) if ttft_ms(397, many, penalty) <= slo)
        assert abs(columns.index(edges[variant]["holds_to"]) - truth) <= 1, edges
    assert edges["A"]["holds_to"] >= edges["C"]["holds_to"]
    broken = next(one for one in document["series"] if one["series"]["variant"] == "C")["breaks"][0]
    assert broken["watched"]
    assert "requests waiting" in [moved["signal"] for moved in broken["moved"]]
    assert document["remedies"][0]["name"] == "trim-history"


MIX = {
    "contexts": [40], "concurrency": [1], "requests": 6, "repeats": 1, "client": ["--prepare-ms", "80"],
    "mix": "{short_context = 2002, long_context = 8002, concurrency = [2]}",
}  # fmt: skip


def shared(out: Path) -> bool:
    """Tell whether the short requests of a mix of two found the long one there: they took twice as long as alone."""
    (result,) = out.glob("runs/*/mix-*/r0/result.json")
    ttfts = sorted(1000 * second for second in json.loads(result.read_text(encoding="utf-8"))["ttfts"])
    return len(ttfts) == 6 and ttfts[3] >= ttft_ms(1985, 2, 1.0)


def test_the_short_requests_of_a_mix_meet_the_long_ones(write: Write, tmp_path: Path) -> None:
    """The long client takes 3.5 s to make its prompts; the short one waits until one of them was read."""
    out = tmp_path / "out"
    done = run(str(write({"A": ()}, **MIX)), "--out", str(out))
    assert done.status == 0, done.err
    assert shared(out)


@pytest.mark.skipif(shutil.which("python3") is None, reason="the job asks with python3")
def test_an_emitted_mix_waits_for_its_long_requests_too(write: Write, tmp_path: Path) -> None:
    out = tmp_path / "jobs"
    (job,) = run(str(write({"A": ()}, **MIX)), "--emit", "shell", "--out", str(out)).out.split()
    subprocess.run((job,), check=True, env={"PATH": "/usr/bin:/bin"})
    assert shared(out)


def test_killed_at_any_point_and_resumed_it_makes_every_run_once(write: Write, tmp_path: Path) -> None:
    file, out = write({"A": (), "B": ()}), tmp_path / "out"
    started = Started(("matrix", "run", str(file), "--out", str(out)))
    for wanted in (1, 3, 6):
        limit = time.monotonic() + 60
        while len(kept(out)) < wanted and time.monotonic() < limit:
            time.sleep(0.02)
        started.process.send_signal(signal.SIGKILL)
        assert started.end().left == ()
        started = Started(("matrix", "run", "--resume", str(out), "--format", "json"))
    done = started.end()
    assert done.status == 0, done.err
    wanted_runs = [
        (f"{variant}-auto-inf", f"grid-{context}x{many}", f"r{repeat}")
        for variant in "AB" for context in (40, 80) for many in (1, 2) for repeat in (0, 1)
    ]  # fmt: skip
    assert kept(out) == sorted(wanted_runs)
    document = json.loads(done.out)
    assert document["complete"]
    assert document["runs"] == len(wanted_runs)
    seeds = [json.loads(path.read_text())["seed"] for path in out.glob("runs/A-auto-inf/*/r*/run.json")]
    assert len(set(seeds)) == len(seeds)


def test_what_fails_is_a_failed_cell_with_its_log_and_the_next_is_run(write: Write, tmp_path: Path) -> None:
    variants = {
        "A": (),
        "dies": ("--die-after", "6"),
        "ends": ("--never-ready", "exit"),
        "errs": ("--error-every", "3"),
    }
    file, out = write(variants, repeats=1, contexts=[40]), tmp_path / "out"
    done = run(str(file), "--out", str(out), "--format", "json")
    assert done.status == 0, done.err
    document = json.loads(done.out)
    cells: dict[str, list[dict[str, Any]]] = {}
    for cell in document["cells"]:
        cells.setdefault(cell["cell"]["series"]["variant"], []).append(cell)
    assert [cell["failure"] for cell in cells["A"]] == [None, None]
    assert {cell["judged"]["state"] for cell in cells["ends"]} == {"failed"}
    assert {cell["failure"]["stage"] for cell in cells["ends"]} == {"start"}
    assert "no available memory" in cells["ends"][0]["failure"]["log"][-1]
    assert len(list(out.glob("servers/*-ends-*"))) == 1  # not started again for each of its cells
    dead = [cell for cell in cells["dies"] if cell["failure"] is not None]
    assert len(dead) == 1
    assert dead[0]["failure"]["stage"] == "run"
    assert any("illegal memory access" in line for line in dead[0]["failure"]["log"])
    assert {cell["failure"]["stage"] for cell in cells["errs"]} == {"requests"}
    assert "requests failed" in cells["errs"][0]["failure"]["reason"]


def test_a_server_that_is_never_ready_costs_its_timeout_once(write: Write, tmp_path: Path) -> None:
    file = write({"hangs": ("--never-ready", "hang")}, ready=1, repeats=1)
    done = run(str(file), "--out", str(tmp_path / "out"))
    assert done.status == 3
    assert "every cell failed: the server was not ready within 1 s" in done.err
    assert len(kept(tmp_path / "out")) == 4


def test_failed_runs_are_made_again_when_asked(write: Write, tmp_path: Path) -> None:
    file, out = write({"errs": ("--error-every", "3")}, repeats=1, contexts=[40]), tmp_path / "out"
    assert run(str(file), "--out", str(out)).status == 3
    plan = out / "plan.json"
    plan.write_text(plan.read_text(encoding="utf-8").replace('"--error-every"', '"--seed"'), encoding="utf-8")
    assert run("--resume", str(out)).status == 3
    done = run("--resume", str(out), "--retry-failed")
    assert done.status == 0, done.err
    assert "2 failed runs are made again" in done.err
    assert len(kept(out)) == 2


def test_another_server_at_the_address_stops_everything(write: Write, tmp_path: Path, port: int) -> None:
    with socket.socket() as _:
        other = subprocess.Popen((sys.executable, str(SERVER), "serve", "--port", str(port)))
        try:
            while subprocess.run(
                (sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}))"),
                stderr=subprocess.DEVNULL, check=False,
            ).returncode:  # fmt: skip
                time.sleep(0.05)
            done = run(str(write({"A": ()})), "--out", str(tmp_path / "out"))
        finally:
            other.kill()
            other.wait()
    assert done.status == 3
    assert "another server is there" in done.err
    assert kept(tmp_path / "out") == []


def test_ctrl_c_keeps_what_was_measured(write: Write, tmp_path: Path) -> None:
    file, out = write({"A": ()}), tmp_path / "out"
    started = Started(("matrix", "run", str(file), "--out", str(out), "--format", "json"))
    while not kept(out):
        time.sleep(0.02)
    started.process.send_signal(signal.SIGINT)
    done = started.end()
    assert done.status == 130
    assert f"--resume {out} goes on" in done.err
    assert json.loads(done.out)["complete"] is False


def test_a_budget_of_time_ends_it_and_says_how_to_go_on(write: Write, tmp_path: Path) -> None:
    file, out = write({"A": (), "B": ()}), tmp_path / "out"
    done = run(str(file), "--out", str(out), "--budget-minutes", "0.01")
    assert done.status == 0
    assert "the time is used up" in done.err
    assert 0 < len(kept(out)) < 16


@pytest.mark.skipif(shutil.which("python3") is None, reason="the job asks with python3")
def test_emitted_jobs_leave_what_boundary_gathers(write: Write, tmp_path: Path) -> None:
    file, out = write({"A": ()}, repeats=1), tmp_path / "jobs"
    done = run(str(file), "--emit", "shell", "--out", str(out))
    (job,) = done.out.split()
    subprocess.run((job,), check=True, env={"PATH": "/usr/bin:/bin"})
    assert len(list(out.glob("runs/*/*/r0/result.json"))) == 4
    told = Started(("matrix", "boundary", str(out), "--format", "json")).end()
    assert told.status == 0, told.err
    document = json.loads(told.out)
    assert {cell["cell"]["context"] for cell in document["cells"]} == {40, 80}
    assert document["slo"]["ttft_p99_ms"] == 5000
