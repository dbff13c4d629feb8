"""The script: it checks the machine, takes the first way that works, says which, and starts exactly the command."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostdoctor.errors import PlacementError
from hostdoctor.placement.emitting import Form, render
from hostdoctor.placement.model import Launch, Reason
from tests.placement.hostile import BYTES, NASTY, words
from tests.placement.launches import MADE, by_rank, launch, one_node, spanning, two_nodes
from tests.placement.tools import SHELLS, Bench, needs, run

NODES = {0: [0, 1, 2, 3, 8, 9, 10, 11], 1: [4, 5, 6, 7, 12, 13, 14, 15]}


def script(started: Launch) -> str:
    return render(started, "shell", made=MADE)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, NODES)


ORDINARY = {
    "one node": launch(),
    "part of a node": launch(binding=one_node(whole_nodes=False, policy="preferred")),
    "memory alone": launch(binding=one_node(limits_cpus=False)),
    "interleaved": launch(binding=two_nodes(policy="interleave")),
    "both nodes": spanning(),
    "by rank": by_rank(),
    "hostile": launch("a", *(word for word in NASTY if word.isascii()), environment={"A": "$(id) 'x' \\ \n"}),
}
REFUSED = ("by rank", "docker")


CHECKED = [
    (name, form) for name in ORDINARY for form in ("shell", "args", "docker", "slurm") if (name, form) != REFUSED
]


@pytest.mark.parametrize(("name", "form"), CHECKED)
def test_shellcheck_and_dash_have_nothing_to_say(name: str, form: Form, tmp_path: Path) -> None:
    started = ORDINARY[name]
    path = tmp_path / "wrapper.sh"
    path.write_bytes(render(started, form, made=MADE).encode())
    checked = run(needs("dash"), "-n", str(path))
    assert (checked.returncode, checked.stderr) == (0, b"")
    options = ["--shell=sh", "--exclude=SC1003,SC2016,SC2148"] if form == "args" else []
    checked = run(needs("shellcheck"), *options, str(path))
    assert checked.stdout.decode() == ""


def test_the_first_way_that_works_is_taken_and_told(bench: Bench) -> None:
    done = bench.start(script(launch("printer", "serve", "org/model")))
    assert done.stderr == b"hostdoctor: bind: numactl --cpunodebind=0 --membind=0\n"
    assert bench.options == "--cpunodebind=0 --membind=0"
    assert bench.words == ["serve", "org/model"]
    assert "CUDA_VISIBLE_DEVICES=0,1" in bench.environ


def test_the_real_numactl_binds() -> None:
    numactl, node = needs("numactl"), Path("/sys/devices/system/node/node0/cpulist")
    if not node.exists() or run(numactl, "--cpunodebind=0", "--membind=0", "true").returncode:
        pytest.skip("nothing can be bound to node 0 here")
    binding = msgspec.structs.replace(one_node(), cpus=node.read_text().strip())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x").write_text(script(launch("numactl", "--show", binding=binding)))
        done = run("/bin/sh", str(Path(folder) / "x"))
    assert done.stderr == b"hostdoctor: bind: numactl --cpunodebind=0 --membind=0\n"
    assert {"policy: bind", "membind: 0"} <= {line.strip() for line in done.stdout.decode().splitlines()}


def test_a_part_of_a_node_is_bound_by_its_cpus(bench: Bench) -> None:
    bench.start(script(launch("printer", binding=one_node(whole_nodes=False))))
    assert bench.options == "--physcpubind=0-3 --membind=0"


@pytest.mark.parametrize(
    ("started", "options"),
    [
        (launch("printer", binding=one_node(policy="preferred")), "--cpunodebind=0 --preferred=0"),
        (launch("printer", binding=two_nodes(policy="preferred")), "--cpunodebind=0,1 --preferred-many=0,1"),
        (launch("printer", binding=two_nodes(policy="interleave")), "--cpunodebind=0,1 --interleave=0,1"),
        (launch("printer", binding=one_node(limits_cpus=False)), "--membind=0"),
        (launch("printer", binding=one_node(arm="far")), "--cpunodebind=1 --membind=1"),
    ],
)
def test_policies(bench: Bench, started: Launch, options: str) -> None:
    assert bench.start(script(started)).returncode == 0
    assert bench.options == options


@pytest.mark.parametrize(
    ("refused", "options", "said"),
    [
        ("--membind", "--cpunodebind=0 --preferred=0", "preferred: numactl --cpunodebind=0 --preferred=0"),
        ("--membind --preferred", "--physcpubind=0-3,8-11", "cpus-only: numactl --physcpubind=0-3,8-11"),
    ],
)
def test_a_refused_memory_policy_falls_back_aloud(bench: Bench, refused: str, options: str, said: str) -> None:
    done = bench.start(script(launch("printer", "x")), variables={"REFUSED": refused})
    reason = "numactl: set_mempolicy: Operation not permitted"
    assert done.stderr.decode() == f"hostdoctor: fallback to {said} ({reason})\n"
    assert (bench.options, bench.words) == (options, ["x"])


def test_without_numactl_taskset_binds_the_cpus(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    binding = msgspec.structs.replace(one_node(), cpus=str(cpus[0]))
    bench = Bench(tmp_path, {0: cpus}, numactl=False)
    done = bench.start(script(launch("printer", "-x", binding=binding)))
    said = f"hostdoctor: fallback to cpus-only: taskset -c {cpus[0]} (numactl is not installed)\n"
    assert (done.stderr.decode(), bench.words) == (said, ["-x"])


def test_without_any_tool_it_starts_unbound(tmp_path: Path) -> None:
    bench = Bench(tmp_path, NODES, numactl=False)
    (bench.bin / "taskset").unlink()
    done = bench.start(script(launch("printer", "x")))
    assert done.stderr == b"hostdoctor: fallback to unbound (numactl is not installed)\n"
    assert bench.words == ["x"]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ({1: NODES[1]}, "this machine has no NUMA node 0"),
        ({0: [0, 1, 2, 3]}, "CPU 8 is not on NUMA node 0 here"),
        ({0: NODES[1], 1: NODES[0]}, "CPU 0 is not on NUMA node 0 here"),
    ],
)
def test_on_another_machine_nothing_is_bound_by_number(
    tmp_path: Path, nodes: Mapping[int, Sequence[int]], why: str
) -> None:
    bench = Bench(tmp_path, nodes)
    done = bench.start(script(launch("printer", "x")))
    assert done.stderr.decode() == f"hostdoctor: fallback to unbound ({why})\n"
    assert (bench.options, bench.words) == ("", ["x"])


@pytest.mark.parametrize("strict", ["1", "yes"])
def test_strict_makes_a_fallback_fatal(bench: Bench, strict: str) -> None:
    done = bench.start(script(launch("printer")), variables={"REFUSED": "--membind", "HOSTDOCTOR_STRICT": strict})
    assert done.returncode == 2
    assert b"not started: cannot bind as asked (numactl: set_mempolicy: Operation not permitted)" in done.stderr
    assert not bench.told.exists()


@pytest.mark.parametrize("strict", ["", "0"])
def test_strict_off_falls_back(bench: Bench, strict: str) -> None:
    assert (
        bench.start(
            script(launch("printer")), variables={"REFUSED": "--membind", "HOSTDOCTOR_STRICT": strict}
        ).returncode
        == 0
    )
    assert bench.told.exists()


def test_strict_lets_the_first_way_pass(bench: Bench) -> None:
    assert bench.start(script(launch("printer")), variables={"HOSTDOCTOR_STRICT": "1"}).returncode == 0


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_or_full_keep_nothing_from_starting(
    tmp_path: Path, shell: tuple[str, ...], stream: str
) -> None:
    needs(shell[0])
    (tmp_path / "wrapper.sh").write_text(script(launch("sh", "-c", f"echo here >{tmp_path}/told; exit 7")))
    for strict, status, told in (("1", 2, False), ("0", 7, True)):  # this machine is not the one of the binding
        line = f"HOSTDOCTOR_STRICT={strict} {' '.join(shell)} {tmp_path}/wrapper.sh {stream}"
        assert run(needs("sh"), "-c", line).returncode == status
        assert (tmp_path / "told").exists() == told


def test_an_engine_that_binds_itself_gets_no_outer_limit(bench: Bench) -> None:
    started = spanning()
    started = msgspec.structs.replace(started, argv=("printer", *started.argv[1:]))
    done = bench.start(script(started))
    assert done.stderr == b"hostdoctor: vllm binds its own workers, nothing is bound around it\n"
    assert (bench.options, bench.words) == ("", list(started.argv[1:]))


def test_an_engine_that_cannot_bind_is_told_before_it_starts(bench: Bench) -> None:
    started = msgspec.structs.replace(spanning(), argv=("printer",))
    done = bench.start(script(started), variables={"REFUSED": "--membind"})
    said = "fallback to what vllm can bind without it (numactl: set_mempolicy: Operation not permitted)"
    assert done.stderr.decode() == f"hostdoctor: {said}\n"
    assert bench.start(script(started), variables={"REFUSED": "--membind", "HOSTDOCTOR_STRICT": "1"}).returncode == 2


@pytest.mark.parametrize(
    ("variables", "rank", "node"),
    [
        ({"HOSTDOCTOR_RANK": "3", "LOCAL_RANK": "0"}, 3, 1),
        ({"LOCAL_RANK": "1", "SLURM_LOCALID": "2"}, 1, 0),
        ({"SLURM_LOCALID": "2"}, 2, 1),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0"}, 0, 0),
    ],
)
def test_each_rank_goes_to_its_own_node(bench: Bench, variables: Mapping[str, str], rank: int, node: int) -> None:
    done = bench.start(script(by_rank("printer", "a b")), variables=variables)
    cpus = {0: "0-3,8-11", 1: "4-7,12-15"}[node]
    assert done.stderr.decode() == f"hostdoctor: bind: numactl --physcpubind={cpus} --membind={node}\n"
    assert (bench.options, bench.words) == (f"--physcpubind={cpus} --membind={node}", ["a b"])
    assert {f"CUDA_VISIBLE_DEVICES={rank}", "OMP_NUM_THREADS=4"} <= set(bench.environ)


@pytest.mark.parametrize("variables", [{}, {"LOCAL_RANK": "4"}, {"LOCAL_RANK": "x"}, {"LOCAL_RANK": "*"}])
def test_without_a_rank_it_does_not_guess(bench: Bench, variables: Mapping[str, str]) -> None:
    done = bench.start(script(by_rank("printer")), variables=variables)
    assert done.returncode == 64
    assert b"no rank from 0 to 3" in done.stderr
    assert not bench.told.exists()


def test_no_variable_of_the_caller_is_touched(bench: Bench) -> None:
    mine = dict.fromkeys(("why", "node", "cpu", "rest", "range", "said", "sysfs", "newline", "rank", "IFS_"), "mine")
    bench.start(script(launch("printer", environment={"cpu": "a b"})), variables=mine | {"REFUSED": "--membind"})
    assert {f"{name}=mine" for name in mine if name != "cpu"} | {"cpu=a b"} <= set(bench.environ)
    assert not [entry for entry in bench.environ if entry.startswith("hd_")]


def test_words_given_to_the_script_follow_the_commands(bench: Bench) -> None:
    bench.start(script(launch("printer", "a")), "--port", "a b")
    assert bench.words == ["a", "--port", "a b"]


@pytest.mark.parametrize("name", ["-x", "a b", "$HOME", "a=b", "if", "é'\"", "until"])
@pytest.mark.parametrize("refused", ["", "--membind --preferred --physcpubind"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_of_any_name_is_started(bench: Bench, name: str, refused: str, shell: tuple[str, ...]) -> None:
    (bench.bin / "taskset").unlink()
    bench.command(name)
    done = bench.start(script(launch(name, "x")), shell=shell, variables={"REFUSED": refused})
    assert bench.words == ["x"], done.stderr
    assert bench.told.read_bytes().split(b"\0")[1].endswith(b"/" + name.encode())


def test_taskset_takes_a_name_that_looks_like_an_option(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    bench = Bench(tmp_path, {0: cpus}, numactl=False)
    bench.command("-x")
    bench.start(script(launch("-x", "--", binding=msgspec.structs.replace(one_node(), cpus=str(cpus[0])))))
    assert bench.words == ["--"]


@settings(max_examples=60)
@given(argv=st.lists(words, max_size=6), value=words)
@example(argv=[*NASTY, *BYTES], value="\n")
def test_every_word_arrives_byte_for_byte_in_every_shell(argv: list[str], value: str) -> None:
    started = launch("printer", *argv, environment={"HOSTILE": value})
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), NODES)
        for shell in SHELLS:
            done = bench.start(script(started), shell=shell)
            assert bench.words == argv, (shell, done.stderr)
            assert f"HOSTILE={value}" in bench.environ


@settings(max_examples=60)
@given(argv=st.lists(words, max_size=6), value=words)
@example(argv=[*NASTY, *BYTES], value="\n")
def test_the_command_line_says_the_same(argv: list[str], value: str) -> None:
    started = launch("printer", *argv, environment={"HOSTILE": value})
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), NODES)
        for shell in SHELLS:
            done = bench.start(render(started, "args", made=MADE), shell=shell)
            assert bench.words == argv, (shell, done.stderr)
            assert bench.options == "--cpunodebind=0 --membind=0"


def test_ranks_are_one_command_line_each() -> None:
    lines = render(by_rank("a", "b c"), "args", made=MADE).splitlines()
    assert lines[2] == (
        "env CUDA_VISIBLE_DEVICES=2 OMP_NUM_THREADS=4 numactl --physcpubind=4-7,12-15 --membind=1 a 'b c'"
    )
    assert len(lines) == 4


def test_the_command_line_of_a_whole_node() -> None:
    text = render(launch("vllm", "serve", "m"), "args", made=MADE)
    assert text == "env CUDA_VISIBLE_DEVICES=0,1 numactl --cpunodebind=0 --membind=0 vllm serve m\n"


@settings(max_examples=60)
@given(text=st.one_of(words, st.text()))
@example(text="x\nrm -rf /")
@example(text="a\u2028b\u0085c\rd\x0be */ \u202e")
@example(text="a\\")
def test_no_comment_can_become_a_command(text: str) -> None:
    hostile = Reason(text=text, source=text, value=text)
    binding = msgspec.structs.replace(one_node(), reasons=(hostile,), warnings=(text,))
    started = launch("printer", binding=binding, notes=(text,))
    made = msgspec.structs.replace(MADE, host=text, time=text)
    plain = script(launch("printer"))
    code = [line for line in render(started, "shell", made=made).splitlines() if not line.startswith("#")]
    assert code == [line for line in plain.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("started", "named"),
    [
        (launch("a", "b\0c"), "b\\x00c"),
        (launch("a", "\ud800"), "ud800"),
        (launch("a", environment={"A B": "x"}), "A B"),
        (launch("a", environment={"A": "x\0"}), "x\\x00"),
        (launch(""), "no command"),
        (launch("-a=b"), "-a=b"),
    ],
)
def test_what_a_shell_cannot_hold_is_refused_by_name(started: Launch, named: str) -> None:
    with pytest.raises(PlacementError) as raised:
        script(started)
    assert named in str(raised.value)
