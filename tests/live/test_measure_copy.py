"""``measure copy`` on this machine against a CUDA driver that is a double: one node, so near alone.

The command line runs for real, in another ``/sys`` whose GPU is near node 0. Where the far node comes in, the lab is.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess  # noqa: TID251  a service beside the GPU
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.cpulist import parse_cpulist
from tests.live.conftest import Driver
from tests.support.cuda_double import (
    DRIVER_MISMATCH,
    ILLEGAL_ADDRESS,
    NO_DEVICE,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    build_cuda,
    describe_cuda,
)
from tests.support.hostbuilder import HostFiles
from tests.support.live_run import Ended, Started
from tests.support.nvml_double import compiler
from tests.support.write_schemas import FOLDER

# Small and short: what is looked at is how it ends.
FEW = ("measure", "copy", "--gpu", "0", "--near-only", "--pairs", "2", "--copies", "10", "--buffer-mib", "2")
SMALL = ("--sizes", "16KiB")
TIMEOUT_S = 3

Copy = Callable[..., Started]


@pytest.fixture(scope="session")
def cuda_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that holds the CUDA double."""
    if compiler() is None:
        pytest.skip("no C compiler here (cc, gcc, clang): the CUDA double cannot be built")
    folder = tmp_path_factory.mktemp("cuda")
    build_cuda(folder)
    return folder


@pytest.fixture
def copy(cuda_library: Path, driver: Driver, fake_sys: Path, built: HostFiles, tmp_path: Path) -> Copy:
    """Return a function that starts ``measure copy``: more words, and keys of the doubles' descriptions."""

    def start(*words: str, gpus: dict[int, Any] | None = None, library: bool = True, **keys: object) -> Started:
        assert built.nvml is not None
        bdf = canonical_bdf(built.nvml["document"]["gpus"][0]["bdf"])
        description = tmp_path / "cuda.txt"
        description.write_text(describe_cuda(str(bdf), **keys), encoding="utf-8")
        environment = driver(gpus=gpus)
        if library:
            environment["LD_LIBRARY_PATH"] += os.pathsep + str(cuda_library)
        environment["CUDA_DOUBLE"] = str(description)
        return Started((*FEW, *SMALL, *words), environment=environment, sys_folder=fake_sys)

    return start


def ended(started: Started) -> Ended:
    """Return how a run ended: never with a traceback or a process left."""
    done = started.end()
    assert "Traceback" not in done.err
    assert done.left == ()
    return done


def document(done: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.out)
    return found


def reached(started: Started, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail after a minute."""
    limit = time.monotonic() + 60
    while not condition():
        assert started.process.poll() is None, started.process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.05)


def answers(started: Started) -> int:
    """Return how often the process that copies has waited so far, which it does for each question; 0 before it runs."""
    pid = started.process.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        folder = Path(f"/proc/{child}")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the driver's reader may just have ended
            if b"copies_worker" in (folder / "cmdline").read_bytes():
                status = (folder / "status").read_text(encoding="ascii")
                return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return 0


def one_setting(*more: str) -> tuple[str, ...]:
    return ("--memory", "pinned", "--format", "json", *more)


def test_near_alone_is_measured_with_its_control(copy: Copy) -> None:
    done = ended(copy("--format", "json", "--pairs", "4"))
    assert (done.status, done.err) == (0, "")
    told = document(done)
    assert (told["kind"], told["stopped"], told["gpu"]["far_node"]) == ("measure-copy", None, None)
    assert {arm["cell"]["role"] for result in told["results"] for arm in result["arms"]} == {"near", "near-again"}
    settings = [tuple(result["setting"].values()) for result in told["results"]]
    assert len(settings) == len(set(settings)) == 4 + 2 * 2 * 2  # large; loop × memory × direction
    for result in told["results"]:
        for arm in result["arms"]:
            assert arm["runs"] == 4
            assert result["setting"]["loop"] == "bandwidth" or arm["copies"] == 40
    assert (told["cuda_version"], told["nvidia_driver"]) == ("12.8", "570.133.20")


def test_buffers_and_threads_are_where_they_say(copy: Copy) -> None:
    told = document(ended(copy("--format", "json")))
    assert {place["memory"]: place["way"] for place in told["places"]} == {
        "pinned": "cuMemHostAlloc under set_mempolicy",
        "pageable": "mmap, mbind",
    }
    for place in told["places"]:
        assert (place["pages"], place["pages_asked"], place["share"], place["share_after"]) == ({"0": 512}, 512, 1, 1)
        assert place["page_aligned"]
        assert place["source"] == "move_pages"
    (copier,) = told["copiers"]
    assert copier["cpus_seen"] == str(copier["cpu"])
    assert copier["after"]["RssShmem"] - copier["before"]["RssShmem"] >= 2 << 20  # the pinned buffer is shared memory
    assert copier["after"]["VmLck"] == copier["before"]["VmLck"] == 0


def test_links_are_counted_while_large_copies_run(copy: Copy) -> None:
    links = document(ended(copy(*one_setting("--pairs", "9"))))["links"]
    assert [link["bdf"] for link in links] == ["0000:26:01.0", "0000:27:00.0"]  # the port, then the GPU
    assert [link["speeds_gts"].keys() for link in links] == [{"2.5"}, {"2.5"}]  # this /sys is that of an idle host
    for link in links:
        assert sum(link["speeds_gts"].values()) == sum(link["widths_lanes"].values()) == link["readings"] > 0


def test_contended_copies_run_beside_a_second_stream(copy: Copy) -> None:
    words = one_setting("--contend", "--loops", "bandwidth", "--directions", "to-gpu")
    told = document(ended(copy(*words)))
    results = told["results"]
    assert [result["setting"]["load"] for result in results] == ["idle", "contended"]
    idle, contended = ([arm["contending_copies"] for arm in result["arms"]] for result in results)
    assert (idle, min(contended) > 0) == ([None, None], True)
    (copier,) = told["copiers"]
    beside, all_cpus = parse_cpulist(copier["second_stream_cpus"]), parse_cpulist(copier["cpus"])
    assert (copier["cpu"] in beside) == (len(all_cpus) == 1)
    assert beside <= all_cpus


def test_the_document_is_as_its_schema_says(copy: Copy) -> None:
    schema = json.loads((FOLDER / "measure-copy.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document(ended(copy(*one_setting()))), schema)


def test_the_text_names_the_floor_of_the_clock_and_what_was_placed(copy: Copy) -> None:
    done = ended(copy("--memory", "pageable"))
    lines = done.out.splitlines()
    assert "ns a reading" in lines[2]
    assert any("100% of 512 pages asked about are there (move_pages; mmap, mbind)" in line for line in lines)
    assert any(line.startswith("note: 2 pairs are too few for verdicts on 4 settings") for line in lines)


# -- refusals -----------------------------------------------------------------------------------------------------


def test_no_library_is_no_driver(copy: Copy) -> None:
    done = ended(copy(library=False))
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith("hostdoctor: no CUDA driver: libcuda.so.1: cannot open shared object file")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (NO_DEVICE, "cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"),
        (DRIVER_MISMATCH, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): system has unsupported display driver"),
    ],
)
def test_a_driver_that_does_not_start_is_quoted(copy: Copy, code: int, words: str) -> None:
    done = ended(copy(fail__cuInit=code))
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith(f"hostdoctor: {words}")


def test_a_gpu_that_cuda_does_not_show_is_never_replaced_by_another(copy: Copy) -> None:
    done = ended(copy("--gpu", "1"))  # the double has only GPU 0's address; a CUDA ordinal 0 is there all the same
    assert done.status == 3
    assert "CUDA_ERROR_INVALID_DEVICE" in done.err
    assert "CUDA_VISIBLE_DEVICES may leave it out" in done.err


def test_a_gpu_in_use_is_refused_unless_forced(copy: Copy) -> None:
    mine = os.getpid()
    users = {0: {"processes": f"{mine}:1048576"}}
    done = ended(copy(gpus=users))
    assert (done.status, done.out) == (3, "")
    name = Path(f"/proc/{mine}/comm").read_text(encoding="ascii").strip()
    assert f"GPU0 is in use by process {mine} ({name})" in done.err
    assert "--force" in done.err
    forced = ended(copy("--force", *one_setting(), gpus=users))
    assert forced.status == 0
    assert any(f"in use by process {mine}" in note for note in document(forced)["notes"])


def test_a_service_that_only_watches_the_gpu_is_no_user(copy: Copy, tmp_path: Path) -> None:
    watcher = tmp_path / "nv-hostengine"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", watcher)
    with subprocess.Popen((str(watcher), "120")) as service:
        try:
            done = ended(copy(*one_setting(), gpus={0: {"processes": f"{service.pid}:1048576"}}))
        finally:
            service.kill()
    assert (done.status, done.err) == (0, "")


def test_a_far_node_that_this_process_may_not_use_is_refused_with_the_way_out(
    copy: Copy, cuda_library: Path, driver: Driver, fake_sys: Path
) -> None:
    words = [word for word in (*FEW, *SMALL) if word != "--near-only"]
    done = ended(Started(words, environment=driver(), sys_folder=fake_sys))
    assert (done.status, done.out) == (3, "")
    assert "node 1: its memory is not in this process's cpuset (Mems_allowed_list 0); --near-only" in done.err


def test_captures_are_refused(copy: Copy, tmp_path: Path) -> None:
    done = ended(copy("--from", str(tmp_path)))
    assert (done.status, done.out) == (3, "")
    assert "not on a capture" in done.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--gpu", "9"), "hostdoctor: --gpu: no GPU '9' here"),
        (("--gpu", "all"), "names no one GPU"),
        (("--sizes", "16kb"), "'16kb' is no size"),
        (("--sizes", "2000MiB"), "'2000MiB' is no size"),
        (("--loops", "round"), "'round' is none of closed, open, bandwidth"),
        (("--memory", "pinned,device"), "'device' is none of pinned, pageable"),
        (("--assume-node", "1"), "GPU0 is known to be near node 0"),
        (("--assume-node", "7"), "no such node with CPUs and memory"),
    ],
)
def test_words_that_mean_nothing_are_usage_errors(copy: Copy, words: tuple[str, ...], reason: str) -> None:
    done = ended(copy(*words))
    assert (done.status, done.out) == (64, "")
    assert reason in done.err


# -- what fails on the way ----------------------------------------------------------------------------------------


def test_memory_that_cannot_be_pinned_is_a_reason(copy: Copy) -> None:
    keys = {"fail__cuMemHostAlloc": OUT_OF_MEMORY, "fail__cuMemHostRegister_v2": NOT_SUPPORTED}
    done = ended(copy(**keys))
    assert (done.status, done.out) == (3, "")
    assert "pinned memory of node 0" in done.err
    assert "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory" in done.err
    assert "cuMemHostRegister_v2: CUDA_ERROR_NOT_SUPPORTED (801)" in done.err


def test_registered_memory_stands_in_where_the_driver_allocates_none(copy: Copy) -> None:
    told = document(ended(copy(*one_setting(), fail__cuMemHostAlloc=OUT_OF_MEMORY)))
    (place,) = told["places"]
    assert place["way"].startswith("mmap, mbind, cuMemHostRegister (cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY")
    assert place["share"] == 1


@pytest.mark.parametrize("function", ["cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"])
def test_a_copy_that_fails_on_the_way_keeps_what_came_before(copy: Copy, function: str) -> None:
    keys = {f"fail__{function}": ILLEGAL_ADDRESS, f"fail_after__{function}": 700}
    done = ended(copy(*one_setting("--pairs", "50"), fixed_ns=1_000_000, **keys))
    assert done.status == 3
    told = document(done)
    assert told["stopped"].startswith(f"{function}: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
    assert told["stopped"] in done.err
    assert sum(arm["copies"] for result in told["results"] for arm in result["arms"]) > 0


def test_a_driver_that_hangs_on_the_way_costs_its_deadline_and_keeps_what_came_before(copy: Copy) -> None:
    words = one_setting("--pairs", "50", "--timeout", str(TIMEOUT_S))
    done = ended(copy(*words, fixed_ns=1_000_000, hang_after__cuStreamSynchronize=700))
    assert done.status == 3
    told = document(done)
    assert told["stopped"] == "no answer within 13 s: the process was killed"  # ten more than for the driver alone
    assert sum(arm["copies"] for result in told["results"] for arm in result["arms"]) > 0


def test_a_driver_that_hangs_from_the_start_costs_its_deadline(copy: Copy) -> None:
    done = ended(copy("--timeout", str(TIMEOUT_S), hang_after__cuInit=0))
    assert (done.status, done.out) == (3, "")
    assert f"no answer within {TIMEOUT_S} s" in done.err


@pytest.mark.parametrize("function", ["cuInit", "cuStreamSynchronize"])
def test_a_driver_that_crashes_costs_its_process_alone(copy: Copy, function: str) -> None:
    done = ended(copy(**{f"crash_after__{function}": 0}))
    assert (done.status, done.out) == (3, "")
    assert done.err == "hostdoctor: the child process was killed by SIGSEGV\n"


def test_a_driver_that_crashes_on_the_way_keeps_what_came_before(copy: Copy) -> None:
    done = ended(copy(*one_setting("--pairs", "50"), fixed_ns=1_000_000, crash_after__cuStreamSynchronize=700))
    assert (done.status, document(done)["stopped"]) == (3, "the child process was killed by SIGSEGV")
    assert sum(arm["copies"] for result in document(done)["results"] for arm in result["arms"]) > 0


def test_a_version_that_cannot_be_is_not_told(copy: Copy) -> None:
    assert document(ended(copy(*one_setting(), version=-5)))["cuda_version"] is None


def test_what_a_driver_prints_is_no_answer(copy: Copy) -> None:
    done = ended(copy(*one_setting(), say='{"ns": []}'))
    assert (done.status, done.err) == (0, "")
    assert document(done)["results"]


def test_a_driver_that_copies_nothing_is_found_out(copy: Copy) -> None:
    done = ended(copy(still=1))
    assert (done.status, done.out) == (3, "")
    assert "the driver does not copy" in done.err


@pytest.mark.parametrize("function", ["cuMemAlloc_v2", "cuMemHostAlloc"])
def test_success_without_an_address_is_a_reason(copy: Copy, function: str) -> None:
    keys = {f"nothing__{function}": 1, "fail__cuMemHostRegister_v2": NOT_SUPPORTED}
    done = ended(copy(**keys))
    assert (done.status, done.out) == (3, "")
    assert f"{function}: says that it succeeded, and gives nothing" in done.err


@pytest.fixture
def running(copy: Copy, tmp_path: Path) -> Iterator[tuple[Started, Path]]:
    """Yield a long measurement that copies already, and the file that it is to leave."""
    file = tmp_path / "copies.json"
    started = copy("-o", str(file), "--pairs", "1000", *one_setting(), fixed_ns=200_000)
    reached(started, lambda: answers(started) > 0)
    before = answers(started)
    reached(started, lambda: answers(started) > before + 150)  # some twenty go before the first result
    yield started, file
    started.process.kill()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_was_measured_and_leaves_no_process(
    running: tuple[Started, Path], number: signal.Signals, status: int
) -> None:
    started, file = running
    started.process.send_signal(number)
    done = ended(started)
    assert done.status == status
    told = json.loads(file.read_text(encoding="utf-8"))
    assert told["circumstances"]["interrupted"] == number.name
    assert told["results"]
    assert document(done) == told
    assert f"ended early by {number.name}" in done.err


def test_no_process_outlives_a_parent_that_was_killed(running: tuple[Started, Path]) -> None:
    started, file = running
    started.process.kill()
    assert started.end().left == ()
    assert not file.exists()


def test_results_that_cannot_be_written_are_printed_all_the_same(copy: Copy) -> None:
    done = ended(copy(*one_setting("-o", "/proc/copies.json")))
    assert done.status == 3
    assert "/proc/copies.json: not written" in done.err
    assert document(done)["results"]
