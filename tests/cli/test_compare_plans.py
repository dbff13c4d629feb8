"""What ``compare -- COMMAND`` would do on whole hosts: arms, bindings, refusals with their reasons."""

import math
from typing import Any

import msgspec
import pytest

from hostdoctor.cli.comparing import Asked, make_plan, run_here
from hostdoctor.errors import MeasureError, PlacementError, UsageError
from hostdoctor.facts import Host, NvidiaDriver, Process
from hostdoctor.measure.trial_arms import cpus_of, refuse_busy_gpus
from hostdoctor.measure.trial_model import Plan
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from tests.cli.support import hostdoctor
from tests.placement.hosts import surveyed

BENCH = ("vllm", "bench", "serve", "--seed", "{seed}", "--result-filename", "{result}")
SERVER = "vllm serve a/model --port 8123"
DRIVER = NvidiaDriver(state="ok")


def asked(**changes: Any) -> Asked:
    """Return what plain options ask for."""
    plain: dict[str, Any] = {
        "command": BENCH, "server": SERVER, "ready_url": "", "ready_timeout_s": 600.0, "arms": "", "control": True,
        "pairs": 10, "warm_ups": 1, "metric": None, "margin": 0.1, "result": "", "rate": None, "capacity": None,
        "probe": False, "timeout_s": 60.0, "gpus": "0", "node": None, "far_node": None, "client_cpus": "",
        "engine": "", "engine_version": "0.32.0", "assume_node": None, "use_isolated": False, "out": None,
        "resume": None, "dry_run": True, "force": False, "format": "text",
    }  # fmt: skip
    return Asked(**plain | changes)


def planned(host: Host | str = "dgx-h100", **changes: Any) -> Plan:
    known = surveyed(host) if isinstance(host, str) else host
    driven = msgspec.structs.replace(known, nvidia=DRIVER) if known.nvidia.state != "ok" else known
    return make_plan(asked(**changes), RootSource(MemoryTree({}, {}), "host"), driven)


class TestArms:
    def test_near_far_and_as_today(self) -> None:
        plan = planned()
        assert plan.order == ("far", "current", "near", "again")
        assert plan.arms["near"].words == "CPUs 0-55,112-167, memory bound to node 0"
        assert plan.arms["far"].words == "CPUs 56-111,168-223, memory bound to node 1"
        assert plan.arms["current"].step.tier == "unbound"
        assert plan.arms["near"].environment == plan.arms["current"].environment == {
            "CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }  # fmt: skip
        assert {arm.argv for arm in plan.arms.values()} == {tuple(SERVER.split())}
        assert plan.ready_url == "http://127.0.0.1:8123/health"
        assert plan.gpu_indices == (0,)
        assert (plan.metric, plan.quantile) == ("itl", "p50")

    def test_gpus_of_two_nodes_are_swapped_rank_by_rank_by_the_engine(self) -> None:
        plan = planned(gpus="3,4", server=f"{SERVER} -tp 2")
        near, far = plan.arms["near"], plan.arms["far"]
        assert near.argv[near.argv.index("--numa-bind-nodes") + 1 :][:2] == ("0", "1")
        assert far.argv[far.argv.index("--numa-bind-nodes") + 1 :][:2] == ("1", "0")
        assert {index: place.mems for index, place in near.gpus.items()} == {"3": (0,), "4": (1,)}
        assert {index: place.mems for index, place in far.gpus.items()} == {"3": (1,), "4": (0,)}
        assert near.step.tier == far.step.tier == "unbound"
        assert "--numa-bind" not in plan.arms["current"].argv

    def test_gpus_of_two_nodes_under_no_engine_are_refused(self) -> None:
        with pytest.raises(PlacementError, match="GPUs of one node"):
            planned(gpus="3,4", server="./serve --port 1")

    def test_a_command_that_binds_itself_cannot_be_moved(self) -> None:
        with pytest.raises(PlacementError, match=r"binds itself already|numactl"):
            planned(server=f"numactl -N 0 -m 0 {SERVER}")

    def test_the_client_gets_what_the_arms_leave(self) -> None:
        plan = planned(arms="current,near")
        assert plan.client_cpus == "56-111,168-223"
        assert any("current arm is not bound" in note for note in plan.notes)
        everywhere = planned()
        assert everywhere.client_cpus is None
        assert any("no CPU is left outside the arms" in note for note in everywhere.notes)

    def test_cpus_kept_for_the_client_are_taken_from_every_arm(self) -> None:
        plan = planned(client_cpus="0-3,56-59")
        kept = parse_cpulist("0-3,56-59")
        assert plan.client_cpus == "0-3,56-59"
        for name in ("near", "far"):
            assert not cpus_of(plan.arms[name]) & kept
        assert plan.arms["near"].intended.cpus == "4-55,112-167"
        with pytest.raises(PlacementError, match="takes all CPUs of an arm"):
            planned(client_cpus="0-55,112-167")

    def test_a_node_instead_of_a_gpu(self) -> None:
        plan = planned("no-gpu-2n", node=0, gpus="")
        assert {name: arm.intended.mems for name, arm in plan.arms.items()} == {
            "near": (0,),
            "far": (2,),
            "current": (),
        }
        swapped = planned("no-gpu-2n", node=1, far_node=0, gpus="")
        assert swapped.arms["near"].intended.mems == (1,)
        assert swapped.arms["far"].intended.mems == (0,)
        assert swapped.arms["near"].environment == {}
        assert not any("GPU" in note for arm in plan.arms.values() for note in arm.notes)


class TestRefusals:
    def test_without_a_second_node_near_alone_is_offered(self) -> None:
        with pytest.raises(PlacementError) as refused:
            planned("workstation")
        assert "is the only one with CPUs and memory" in str(refused.value)
        assert "--arms near,near" in str(refused.value)
        assert planned("workstation", arms="near,near").order == ("near", "again")

    def test_a_far_node_outside_the_cpuset_is_named(self) -> None:
        host = surveyed("dgx-h100")
        inside = msgspec.structs.replace(host, allowed=msgspec.structs.replace(host.allowed, mems="0", cpus="0-55"))
        with pytest.raises(PlacementError, match=r"no far arm: .*Mems_allowed_list 0.* leave out node 1 \(HD106\)"):
            planned(inside)

    def test_no_gpu(self) -> None:
        with pytest.raises(MeasureError, match="no GPU here: --node N"):
            planned("no-gpu-2n", gpus="")

    def test_no_driver(self) -> None:
        host = msgspec.structs.replace(surveyed("dgx-h100"), nvidia=NvidiaDriver(state="absent", reason="no library"))
        source = RootSource(MemoryTree({}, {}), "host")
        with pytest.raises(MeasureError, match=r"driver does not answer \(no library\)"):
            make_plan(asked(), source, host)
        assert make_plan(asked(force=True), source, host).arms

    def test_a_gpu_in_use(self) -> None:
        users = (Process(pid=77, name="python", gpus=(0, 1)), Process(pid=8, name="nvidia-smi", gpus=(0,)))
        host = msgspec.structs.replace(surveyed("dgx-h100"), processes=users)
        with pytest.raises(MeasureError, match=r"python \(77\) uses GPU 0: .*--force"):
            refuse_busy_gpus(host, (0,))
        refuse_busy_gpus(host, (2,))

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"command": ()}, "give a command after --"),
            ({"command": ("cat", "\udcff")}, "not UTF-8"),
            ({"arms": "near,left"}, "'left' is none of current, near, far"),
            ({"arms": "current,far"}, "near must be among them"),
            ({"arms": "near,far,far"}, "each once"),
            ({"arms": "near", "control": False}, "near alone is compared with nothing"),
            ({"rate": 4.0}, "the command has none"),
            ({"command": (*BENCH, "{rate}")}, "say how many requests a second"),
            ({"command": (*BENCH, "{rate}"), "rate": 9.0, "capacity": 10.0}, "above 80 % of --capacity: at most 8"),
            ({"command": ("curl", "{rate}"), "probe": True}, "reads the command's result"),
            ({"server": "./serve"}, "no --port among its words"),
            ({"server": "vllm 'serve"}, "no closing quotation"),
            ({"ready_url": "http://10.0.0.1/health"}, "not an http address of this machine"),
            ({"ready_url": "file:///etc/passwd"}, "not an http address of this machine"),
            ({"metric": "speed"}, "none of ttft"),
            ({"command": (*BENCH, "{rate}"), "rate": math.nan}, "not a number"),
            ({"command": (*BENCH, "{rate}"), "capacity": math.nan}, "not a number"),
            ({"client_cpus": "0-3-4"}, "--client-cpus: not a list of CPUs: '0-3-4'"),
            ({"client_cpus": "220-230"}, r"CPUs 224-230 are not among yours \(0-223\)"),
            ({"client_cpus": "3", "server": ""}, "--client-cpus goes with --server"),
            ({"far_node": 1}, "--far-node goes with --node"),
            ({"node": 7}, "no such node"),
            ({"node": 0, "far_node": 0}, "near,near is near against itself"),
        ],
    )
    def test_what_does_not_go_together(self, changes: dict[str, Any], told: str) -> None:
        with pytest.raises(UsageError, match=told):
            planned(**changes)

    def test_a_capture_runs_nothing(self) -> None:
        with pytest.raises(MeasureError, match="not on a capture"):
            run_here(asked(elsewhere=("host.tar.gz",)))
        assert hostdoctor("compare", "--from", "x.tar.gz", "--", "true").status == 3

    def test_files_and_a_command_are_two_things(self) -> None:
        assert hostdoctor("compare", "--near", "a", "--far", "b", "--", "true").status == 64
        assert hostdoctor("compare", "--pairs", "5", "--", "true").status == 64
        assert hostdoctor("compare").status == 64


class TestRates:
    def test_a_stated_capacity_gives_the_rate(self) -> None:
        plan = planned(command=(*BENCH, "--request-rate", "{rate}"), capacity=13.0)
        assert plan.rate_per_s == pytest.approx(10)
        assert not plan.probes

    def test_without_a_result_the_time_of_the_command_is_compared(self) -> None:
        plan = planned(command=("./client",))
        assert plan.metric == "wall"
        assert any("names no result" in note for note in plan.notes)
