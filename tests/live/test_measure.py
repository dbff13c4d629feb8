"""``hostdoctor measure`` on this machine: what it leaves, what it refuses, and that signals keep what was measured."""

import contextlib
import http.server
import json
import os
import pty
import shutil
import signal
import subprocess  # noqa: TID251  runs the command line on a terminal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hostdoctor.measure.chase import MACHINE_CODE
from tests.cli.support import hostdoctor
from tests.support.live_run import Started
from tests.support.write_schemas import FOLDER

pytestmark = pytest.mark.skipif(os.uname().machine not in MACHINE_CODE, reason="no machine code for this processor")
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not here")

SHORT = ("--size-mib", "8", "--rounds", "4", "--warmup", "0", "--quick")
LIMIT_S = 60


def obeys(document: dict[str, Any], name: str) -> None:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)


def test_memory_is_measured_where_it_says() -> None:
    ran = hostdoctor("measure", "memory", "--native-chase", *SHORT, "--format", "json")
    assert ran.status == 0, ran.err
    document = json.loads(ran.out)
    obeys(document, "measure-memory")
    assert (document["method"], document["interpreter_overhead_ns"]) == ("native", None)
    assert document["size_bytes"] == document["wanted_bytes"] == 8 << 20
    assert document["clock"]["reading_ns"] > 0
    for buffer in document["buffers"]:
        for placement in (buffer["placement_before"], buffer["placement_after"]):
            assert placement["pages"] == {str(buffer["node"]): placement["asked"]}
    (cell, *_) = [cell for cell in document["cells"] if cell["skipped"] is None]
    latency = cell["latency"]
    assert len(latency["visits_p50_ns"]) == 4
    assert latency["batches"] >= 4
    assert 0 < latency["p50_of_batch_means_ns"] <= latency["p99_of_batch_means_ns"]
    assert cell["cpus"] == cell["cpus_seen"]
    assert cell["read"]["p50_gbytes_per_s"] > 0


def test_without_machine_code_no_latency_is_told() -> None:
    ran = hostdoctor("measure", "memory", *SHORT, "--no-bandwidth")
    assert ran.status == 0, ran.err
    assert "ns of each load are the interpreter's, so only differences are told" in ran.out
    assert "near" in ran.out
    assert "p50 (p99)" not in ran.out


def test_the_clocks_floor_and_the_pages_are_printed() -> None:
    ran = hostdoctor("measure", "memory", "--native-chase", *SHORT, "--no-bandwidth")
    assert "p50 (p99) of means of 10000 loads" in ran.out
    assert "ns a reading" in ran.out
    assert "100% of 2048 pages asked about are there (move_pages)" in ran.out


def test_results_are_kept_in_a_file_that_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    ran = hostdoctor("measure", "memory", "--native-chase", *SHORT, "--no-bandwidth", "-o", str(file))
    assert ran.status == 0, ran.err
    obeys(json.loads(file.read_text(encoding="utf-8")), "measure-memory")
    assert file.stat().st_mode & 0o077 == 0
    again = hostdoctor("measure", "memory", *SHORT, "-o", str(file))
    assert (again.status, "exists already" in again.err) == (64, True)
    assert list(tmp_path.iterdir()) == [file]


def test_results_that_a_full_disk_refuses_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    file = tmp_path / "a.json"
    ran = hostdoctor("measure", "memory", "--native-chase", *SHORT, "--no-bandwidth", "-o", str(file))
    assert ran.status == 3
    assert "not written: No space left on device" in ran.err
    assert "ns a reading" in ran.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("memory", "--from", "gpu7.tar.gz"), 3, "experiments run on this host, now, not on a capture"),
        (("nvme", "--from", "-", "--drive", "nvme0"), 3, "experiments run on this host, now, not on a capture"),
        (("memory", "--size-mib", "9999999", "--quick"), 3, "nothing can be measured: node "),
        (("memory", "--size-mib", "1"), 64, "see hostdoctor measure memory --help"),
        (("nvme",), 64, "what to read?"),
        (("nvme", "--drive", "a", "--file", "b"), 64, "give one"),
        (("nvme", "--drive", "nvme77", "--quick"), 64, "no NVMe drive 'nvme77' here"),
        (("nvme", "--file", "/proc/self/status", "--quick"), 3, "at least 16 MiB are needed"),
        (("nvme", "--file", "/nonexistent", "--quick"), 64, "no such file or directory"),
        (("nvme", "--watch", "1", "--file", "/nonexistent", "--quick"), 64, "no such file or directory"),
        (("nvme", "--file", "a\udcff", "--quick"), 64, "not a UTF-8 name"),
        (("nvme", "--watch", "1", "--metrics-url", "http://a:b@127.0.0.1:1/", "--quick"), 64, "without a user"),
        (("memory", "--warmup", "nan"), 64, "not a number of seconds"),
        (("nvme", "--drive", "nvme0", "--metrics-url", "http://127.0.0.1:1/"), 64, "only with --watch"),
        (("nvme", "--metrics-url", "http://127.0.0.1:1/"), 64, "only with --watch"),
        (("nvme", "--watch", "1", "--metrics-url", "http://127.0.0.1:1/", "--quick"), 3, "refused"),
        (("nvme", "--watch", "nan"), 64, "not a number of seconds"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(words: tuple[str, ...], status: int, said: str) -> None:
    ran = hostdoctor("measure", *words)
    assert (ran.status, ran.out) == (status, ""), ran.err
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_terminated_measurement_keeps_what_was_measured(tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    words = ("--size-mib", "8", "--rounds", "10000", "--warmup", "0", "--quick", "-o", str(file))
    run = Started(["measure", "memory", "--native-chase", *words])
    wait_until(lambda: bound(run.process.pid))
    begun_s = cpu_s(run.process.pid)
    wait_until(lambda: cpu_s(run.process.pid) > begun_s + 0.5)  # some visits
    run.process.send_signal(signal.SIGTERM)
    ended = run.end()
    assert (ended.status, ended.left) == (143, ()), ended.err
    assert "ended early by SIGTERM: what was measured until then is kept" in ended.err
    assert "CPUs of node" in ended.out
    document = json.loads(file.read_text(encoding="utf-8"))
    obeys(document, "measure-memory")
    assert document["circumstances"]["interrupted"] == "SIGTERM"
    measured = [cell["latency"] for cell in document["cells"] if cell["latency"]]
    assert measured
    assert all(len(latency["visits_p50_ns"]) < 10_000 for latency in measured)
    assert all(buffer["placement_after"] for buffer in document["buffers"])


def test_progress_is_shown_on_a_terminal_alone() -> None:
    words = ("measure", "memory", "--size-mib", "4", "--rounds", "2", "--warmup", "0.2", "--quick")
    terminal, other = pty.openpty()
    with subprocess.Popen(
        (sys.executable, "-m", "hostdoctor", *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=other
    ) as run:
        os.close(other)
        shown = drained(terminal)
        assert run.stdout is not None
        out = run.stdout.read().decode()
    assert "measuring memory" in shown
    assert "%" in shown
    assert "measuring memory" not in out
    assert hostdoctor(*words).err == ""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 64 MiB whose blocks are all there."""
    file = tmp_path_factory.mktemp("big") / "data"
    file.write_bytes(os.urandom(1 << 20) * 64)
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return file


@needs_fio
def test_figures_are_fios_own_to_the_digit(big: Path, tmp_path: Path) -> None:
    file = tmp_path / "nvme.json"
    words = ("--seconds", "1", "--repeats", "1", "--depth", "1", "--depth", "8", "--block-kib", "16", "--quick")
    ran = hostdoctor("measure", "nvme", "--file", str(big), *words, "-o", str(file))
    if "direct" in ran.err.lower():
        pytest.skip(f"no direct reads here: {ran.err}")
    assert ran.status == 0, ran.err
    document = json.loads(file.read_text(encoding="utf-8"))
    obeys(document, "measure-nvme")
    assert {run["queue_depth"] for run in document["runs"]} == {1, 8}
    for run in document["runs"]:
        read = run["raw"]["jobs"][0]["read"]
        percentiles = read["clat_ns"]["percentile"]
        assert run["latency"]["p50_ns"] == percentiles["50.000000"]
        assert run["latency"]["p99_ns"] == percentiles["99.000000"]
        assert run["latency"]["p999_ns"] == percentiles["99.900000"]
        assert run["latency"]["samples"] == read["clat_ns"]["N"] > 0
        assert run["raw"]["jobs"][0]["job options"]["numa_cpu_nodes"] == str(run["cpu_node"])
        assert run["policy_seen"] == f"bind:{run['cpu_node']}"
        assert f"{percentiles['50.000000'] / 1000:.3f}" in ran.out


@needs_fio
def test_names_that_only_look_like_options_are_read(big: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'a"b\\c:d,$ncpus e%f'
    odd.hardlink_to(big)
    words = ("--seconds", "1", "--repeats", "1", "--depth", "1", "--block-kib", "16", "--quick", "--format", "json")
    ran = hostdoctor("measure", "nvme", "--file", str(odd), *words)
    if "direct" in ran.err.lower():
        pytest.skip(f"no direct reads here: {ran.err}")
    assert (ran.status, ran.err) == (0, "")
    (run,) = json.loads(ran.out)["runs"]
    assert run["latency"]["samples"] > 0


@needs_fio
def test_an_interrupt_ends_fio_and_keeps_what_was_measured(big: Path, tmp_path: Path) -> None:
    file = tmp_path / "nvme.json"
    words = ("--seconds", "2", "--repeats", "50", "--depth", "1", "--block-kib", "16", "--quick")
    run = Started(["measure", "nvme", "--file", str(big), *words, "-o", str(file)])
    seen: set[str] = set()

    def second_run() -> bool:
        seen.update(fio_pids(run))
        return len(seen) > 1

    wait_until(second_run)
    run.process.send_signal(signal.SIGINT)
    ended = run.end()
    assert (ended.status, ended.left) == (130, ()), ended.err
    assert "ended early by SIGINT" in ended.err
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["circumstances"]["interrupted"] == "SIGINT"
    assert 1 <= len(document["runs"]) < 50
    assert document["runs"][0]["latency"]["samples"] > 0


def test_without_fio_the_package_is_named(big: Path, tmp_path: Path) -> None:
    ended = Started(["measure", "nvme", "--file", str(big), "--quick"], environment={"PATH": str(tmp_path)}).end()
    assert (ended.status, ended.out) == (3, "")
    assert ended.err == "hostdoctor: fio is not installed (Debian, Ubuntu, Fedora: package fio)\n"


# A stand-in for fio: counts its runs in a file beside it, and does with the n-th what the n-th word says.
FIO = """#!{python}
import json, os, sys, time
from pathlib import Path
count = Path(__file__).with_name("count")
run = int(count.read_text()) if count.exists() else 0
count.write_text(str(run + 1))
words = os.environ["FIO_RUNS"].split()
what = words[min(run, len(words) - 1)]
if what == "hang": time.sleep(600)
if what == "fail": sys.exit("fio: io_u error on file /dev/nvme0n1: Input/output error")
clat = dict(N=1000, percentile={{"50.000000": 1000, "99.000000": 2000, "99.900000": 3000}})
print(json.dumps(dict(jobs=[dict(read=dict(runtime=1000, clat_ns=clat))])))
"""


@pytest.fixture
def fio(big: Path, tmp_path: Path) -> Callable[[str], Started]:
    """Return a function that starts ``measure nvme`` with a fio that does so in turn."""

    def start(runs: str) -> Started:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "fio").write_text(FIO.format(python=sys.executable), encoding="utf-8")
        (folder / "fio").chmod(0o755)
        words = ("--seconds", "1", "--repeats", "8", "--depth", "1", "--block-kib", "16", "--quick", "--format", "json")
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "FIO_RUNS": runs}
        return Started(["measure", "nvme", "--file", str(big), *words], environment=environment)

    return start


def test_runs_that_fail_are_said_and_the_others_kept(fio: Callable[[str], Started]) -> None:
    done = fio("good fail good").end()
    document = json.loads(done.out)
    obeys(document, "measure-nvme")
    assert [run["failed"] is None for run in document["runs"]] == [True, False, *[True] * 6]
    assert (done.status, document["stopped"]) == (3, None)
    assert done.err.startswith("hostdoctor: 1 of 8 runs failed, at first: fio: exit status 1: fio: io_u error")


def test_a_drive_that_fails_for_good_ends_it_and_keeps_what_came_before(fio: Callable[[str], Started]) -> None:
    done = fio("good good fail").end()
    document = json.loads(done.out)
    assert [run["failed"] is None for run in document["runs"]] == [True, True, *[False] * 4]
    assert document["stopped"].startswith("fio: exit status 1: fio: io_u error")
    assert (done.status, done.left) == (3, ())
    assert "ended early: fio: exit status 1" in done.err


def test_no_fio_outlives_a_parent_that_was_killed(fio: Callable[[str], Started]) -> None:
    run = fio("hang")
    wait_until(lambda: any("--name=hostdoctor" in line for line in run.started_processes()))
    run.process.kill()
    assert run.end().left == ()


class Engine(http.server.BaseHTTPRequestHandler):
    """An engine whose counters rise from one reading to the next."""

    readings = 0

    def do_GET(self) -> None:
        type(self).readings += 1
        if self.path != "/metrics":
            self.send_error(404)
            return
        page = (
            f'vllm:prefix_cache_queries_total{{engine="0"}} {1000 * self.readings}\n'
            f'vllm:prefix_cache_hits_total{{engine="0"}} {900 * self.readings}\n'
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_engines_hits_are_watched_in_differences(engine: str) -> None:
    words = ("measure", "nvme", "--watch", "0.2", "--quick", "--metrics-url", f"{engine}/metrics")
    ran = hostdoctor(*words)
    assert ran.status == 0, ran.err
    assert "vLLM prefix cache: 90.0 % of 1000 tokens found" in ran.out
    assert ("no drive was watched" in ran.out) is ("r_await" not in ran.out)
    document = json.loads(hostdoctor(*words, "--format", "json").out)
    obeys(document, "watch-nvme")
    assert document["caches"] == [{"cache": "vLLM prefix cache", "queries": 1000, "hits": 900, "hit_percent": 90.0}]
    assert document["seconds"] >= 0.2


def test_another_page_is_no_metrics(engine: str) -> None:
    ran = hostdoctor("measure", "nvme", "--watch", "0.2", "--quick", "--metrics-url", f"{engine}/other")
    assert (ran.status, "HTTP status 404" in ran.err) == (3, True)


def wait_until(is_so: Any) -> None:
    limit = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.05)


def bound(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return " bind:" in Path(f"/proc/{pid}/numa_maps").read_text(encoding="utf-8")
    return False


def cpu_s(pid: int) -> float:
    """Return how long a process has run on CPUs."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def fio_pids(run: Started) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            if parent == str(run.process.pid) and b"--name=hostdoctor" in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


def drained(terminal: int) -> str:
    """Return all that was written to a terminal until nobody writes any more."""
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while data := os.read(terminal, 1 << 16):
            shown += data
    os.close(terminal)
    return shown.decode(errors="replace")
