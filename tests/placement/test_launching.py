"""What is added to an engine's command so that it starts bound, for each engine and version, and what is refused."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import PlacementError, UsageError
from hostdoctor.placement.engines import ENGINE_NAMES, recognise
from hostdoctor.placement.launching import launch
from hostdoctor.placement.model import Binding, Launch, Rank, Selection
from hostdoctor.placement.nic_variables import nic_variables
from hostdoctor.placement.versions import parse_version

CPUS = {0: "0-31", 1: "32-63"}


def rank(gpu: int, *nodes: int, **more: Any) -> Rank:
    cpus = ",".join(CPUS[node] for node in nodes)
    return Rank(**({"gpu": f"GPU{gpu}", "nodes": nodes, "mems": nodes, "cpus": cpus} | more))


def binding(*ranks: Rank, visible: str | None = "", **more: Any) -> Binding:
    """Return the binding of ranks on a host with two nodes; by default the GPUs are named by index."""
    nodes = tuple(sorted({node for one in ranks for node in one.nodes}))
    labels = tuple(one.gpu for one in ranks)
    selection = Selection(
        gpus=tuple(range(len(ranks))),
        labels=labels,
        visible_devices=",".join(label.removeprefix("GPU") for label in labels) if visible == "" else visible,
        origin="--gpus",
    )
    told: dict[str, Any] = {
        "selection": selection,
        "ranks": ranks,
        "nodes": nodes,
        "mems": tuple(sorted({node for one in ranks for node in one.mems})),
        "cpus": ",".join(CPUS[node] for node in nodes),
        "whole_nodes": True,
        "policy": "bind",
    }
    return Binding(**(told | more))


NEAR0 = binding(rank(0, 0), rank(1, 0))
FOUR = tuple(rank(gpu, gpu // 2) for gpu in range(4))
SPANNING = binding(*FOUR)
NARROW = binding(
    rank(0, 0, cpus="0-7"), rank(1, 1, cpus="32-39"), whole_nodes=False, cpus="0-7,32-39"
)  # a cpuset leaves out CPUs


def started(line: str, to: Binding, version: str | None = None, **more: Any) -> Launch:
    engine = more.pop("engine", None)
    return launch(
        to, recognise(shlex.split(line), engine), version=None if version is None else parse_version(version), **more
    )


def refused(line: str, to: Binding, version: str | None = None, **more: Any) -> str:
    with pytest.raises(PlacementError) as caught:
        started(line, to, version, **more)
    assert caught.value.exit_status == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


ENV4 = {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
ENV2 = {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
TLLM_OUTER = {
    "TLLM_NUMA_AWARE_WORKER_AFFINITY": "0",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_inherit": "1",
    "SLURM_CPU_BIND": "none",
}

# --- GPUs of one node: the whole command under the binding ---


@pytest.mark.parametrize(
    ("line", "added", "variables"),
    [
        ("vllm serve m -tp 2", (), {}),
        ("sglang serve --tp 2", (), {}),
        ("trtllm-serve m --tp_size 2", (), TLLM_OUTER),
        ("mpirun -n 2 trtllm-serve m", (), TLLM_OUTER),
        ("llama-server -m x", ("--numa", "numactl"), {}),
        ("llama-server -m x --numa numactl", (), {}),
        ("env LLAMA_ARG_NUMA=numactl llama-server -m x", (), {}),
        ("torchrun --nproc-per-node 2 train.py", (), {}),
        ("python serve.py", (), {}),
        ("sh -c 'vllm serve m'", (), {}),
    ],
)
def test_one_node_goes_under_one_binding(line: str, added: tuple[str, ...], variables: dict[str, str]) -> None:
    told = started(line, NEAR0)
    assert told.outer
    assert told.binding == NEAR0
    assert told.added == added
    assert told.argv == (*shlex.split(line), *added)
    assert told.environment == ENV2 | variables
    assert not told.rank_commands
    assert not told.warnings


def test_gpus_near_the_same_two_nodes_go_under_both() -> None:
    both = binding(rank(0, 0, 1), rank(1, 0, 1))
    told = started("vllm serve m -tp 2", both, "0.33.0")
    assert told.outer
    assert told.added == ()


@pytest.mark.parametrize(
    "more",
    [{"policy": "preferred"}, {"policy": "interleave"}, {"arm": "far"}, {"assumed": True}, {"limits_cpus": False}],
)
def test_sglang_does_not_rebind_what_it_would_bind_otherwise(more: dict[str, Any]) -> None:
    told = started("sglang serve --tp 2", binding(rank(0, 0), rank(1, 0), **more))
    assert told.outer
    assert told.environment == ENV2 | {"SGLANG_AUTO_NUMA_BIND": "0"}


def test_workers_of_ray_may_not_inherit_the_binding() -> None:
    told = started("vllm serve m -tp 2 --distributed-executor-backend ray", NEAR0)
    assert told.outer
    assert "do not inherit" in told.warnings[0]


def test_gpus_seen_anyway_need_no_variable() -> None:
    assert started("vllm serve m", binding(rank(0, 0), visible=None)).environment == {}
    assert started("vllm serve m", binding(rank(0, 0), visible="GPU-12ab")).environment == {
        "CUDA_VISIBLE_DEVICES": "GPU-12ab"
    }


# --- GPUs on several nodes ---


@pytest.mark.parametrize(
    ("line", "version", "argv"),
    [
        ("vllm serve m -tp 4", "0.20.0", "vllm serve m -tp 4 --numa-bind --numa-bind-nodes 0 0 1 1"),
        ("vllm serve m -tp 4", "0.33.0", "vllm serve m -tp 4 --numa-bind --numa-bind-nodes 0 0 1 1"),
        ("vllm serve m -tp 4 -- x", "0.33.0", "vllm serve m -tp 4 --numa-bind --numa-bind-nodes 0 0 1 1 -- x"),
        (
            "nice python -m vllm.entrypoints.openai.api_server -tp 4",
            "0.24.0",
            "nice python -m vllm.entrypoints.openai.api_server -tp 4 --numa-bind --numa-bind-nodes 0 0 1 1",
        ),
        ("sglang serve --tp 4", "0.5.2", "sglang serve --tp 4 --numa-node 0 0 1 1"),
        ("torchrun --nproc-per-node 4 t.py -x", "2.9.0", "torchrun --numa-binding=node --nproc-per-node 4 t.py -x"),
        (
            "python -m torch.distributed.run t.py",
            "2.10.1+cu128",
            "python -m torch.distributed.run --numa-binding=node t.py",
        ),
    ],
)
def test_the_engine_binds_its_own_workers(line: str, version: str, argv: str) -> None:
    told = started(line, SPANNING, version)
    assert told.argv == tuple(argv.split())
    assert not told.outer
    assert told.environment == ENV4
    assert not told.rank_commands
    assert told.engine_version == version


def test_the_list_follows_the_visible_order() -> None:
    told = started("vllm serve m -tp 4", binding(*(FOUR[i] for i in (2, 0, 3, 1))), "0.33.0")
    assert told.environment["CUDA_VISIBLE_DEVICES"] == "2,0,3,1"
    assert told.added == ("--numa-bind", "--numa-bind-nodes", "1", "0", "1", "0")


def test_tensorrt_llm_finds_the_nodes_itself() -> None:
    told = started("trtllm-serve m --tp_size 4", SPANNING)
    assert (told.added, told.outer) == ((), False)
    assert told.environment == ENV4 | {"TLLM_NUMA_AWARE_WORKER_AFFINITY": "1"}
    assert "CPUs alone" in told.notes[0]


def test_llama_is_one_process_over_all_nodes() -> None:
    told = started("llama-server -m x", SPANNING)
    assert told.outer
    assert (told.binding.nodes, told.binding.mems, told.binding.policy) == ((0, 1), (0, 1), "interleave")
    assert told.added == ("--numa", "numactl")
    assert any("bind became interleave" in note for note in told.notes)


def test_a_command_not_recognised_is_started_once_for_each_gpu() -> None:
    told = started("python serve.py", SPANNING)
    assert (told.argv, told.environment, told.outer, told.added) == (("python", "serve.py"), {}, False, ())
    assert [one.environment for one in told.rank_commands] == [
        {"CUDA_VISIBLE_DEVICES": str(i), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} for i in range(4)
    ]
    assert [one.binding for one in told.rank_commands] == list(FOUR)
    unnamed = started("python serve.py", binding(*FOUR, visible=None))
    assert unnamed.rank_commands == told.rank_commands


@pytest.mark.parametrize("line", ["vllm serve m", "sglang serve", "trtllm-serve m", "torchrun t.py", "python x.py"])
def test_interleave_goes_around_any_engine(line: str) -> None:
    told = started(line, binding(*FOUR, policy="interleave"), "0.10.0")
    assert told.outer
    assert told.added == ()
    assert not told.rank_commands
    assert told.binding.mems == (0, 1)


@pytest.mark.parametrize("line", ["vllm serve m -tp 4", "sglang serve --tp 4", "trtllm-serve m", "torchrun t.py"])
def test_with_too_few_cores_only_memory_is_placed(line: str) -> None:
    told = started(line, binding(*FOUR, limits_cpus=False), "2.9.0")
    assert told.outer
    assert not told.binding.limits_cpus
    assert told.added == ()
    assert "workers are not bound" in told.warnings[0]


def test_the_far_arm_lists_the_far_nodes() -> None:
    far = binding(*(rank(gpu, 1 - gpu // 2) for gpu in range(4)), arm="far")
    assert started("vllm serve m -tp 4", far, "0.33.0").added[2:] == ("1", "1", "0", "0")
    assert started("sglang serve --tp 4", far, "0.5.23").added == ("--numa-node", "1", "1", "0", "0")
    assert "no other place can be said" in refused("torchrun t.py", far, "2.9.0")
    assert "no other place can be said" in refused("trtllm-serve m", far)


def test_near_cpus_with_far_memory() -> None:
    crossed = binding(rank(0, 0, mems=(1,)), rank(1, 1, mems=(0,)), arm="far")
    told = started("vllm serve m -tp 2", crossed, "0.33.0")
    assert shlex.join(told.added) == "--numa-bind --numa-bind-nodes 1 0 --numa-bind-cpus 0-31 32-63"
    assert "different nodes" in refused("sglang serve --tp 2", crossed, "0.5.23")


# --- version gates ---


def test_cpus_narrower_than_their_node_are_listed() -> None:
    told = started("vllm serve m -tp 2", NARROW, "0.23.0")
    assert shlex.join(told.added) == "--numa-bind --numa-bind-nodes 0 1 --numa-bind-cpus 0-7 32-39"


@pytest.mark.parametrize(
    ("line", "to", "version", "need"),
    [
        ("vllm serve m -tp 4", SPANNING, "0.19.1", "--numa-bind needs vLLM ≥ 0.20, this is 0.19.1"),
        ("vllm serve m -tp 4", SPANNING, "0.20.0rc1", "--numa-bind needs vLLM ≥ 0.20, this is 0.20.0rc1"),
        ("vllm serve m -tp 2", NARROW, "0.22.1", "--numa-bind-cpus for several GPUs needs vLLM ≥ 0.23"),
        ("sglang serve --tp 4", SPANNING, "0.5.1.post3", "--numa-node needs SGLang ≥ 0.5.2"),
        ("torchrun t.py", SPANNING, "2.8.0", "--numa-binding needs PyTorch ≥ 2.9"),
    ],
)
def test_older_versions_are_refused_with_what_would_work(line: str, to: Binding, version: str, need: str) -> None:
    text = refused(line, to, version)
    assert text.startswith(need)
    assert text.endswith("upgrade, or GPUs of one node (--gpus), or --policy interleave")


@pytest.mark.parametrize(
    ("line", "need"),
    [
        ("vllm serve m -tp 4", "vLLM ≥ 0.20"),
        ("sglang serve --tp 4", "SGLang ≥ 0.5.2"),
        ("torchrun t.py", "PyTorch ≥ 2.9"),
    ],
)
def test_an_unknown_version_counts_as_the_newest_and_is_said(line: str, need: str) -> None:
    told = started(line, SPANNING)
    assert told.engine_version is None
    assert f"needs {need}; the installed version is not known" in told.warnings[0]


def test_before_0_24_a_refused_membind_ends_workers() -> None:
    assert "no traceback" in started("vllm serve m -tp 4", SPANNING, "0.23.0").warnings[0]
    assert not started("vllm serve m -tp 4", SPANNING, "0.24.0").warnings


# --- what cannot be said ---


@pytest.mark.parametrize("option", ["--distributed-executor-backend ray", "--data-parallel-backend=ray"])
def test_vllm_does_not_bind_workers_of_ray(option: str) -> None:
    assert "does not bind workers that ray starts" in refused(f"vllm serve m {option}", SPANNING, "0.33.0")


def test_a_gpu_near_several_nodes_has_no_single_memory_node() -> None:
    four_nodes = binding(rank(0, 0, 1), rank(1, 0), whole_nodes=True)
    assert "GPU0 has 0, 1: start one engine for each socket" in refused("vllm serve m", four_nodes, "0.33.0")


def test_preferred_is_bound_hard_and_said() -> None:
    told = started("vllm serve m -tp 4", binding(*FOUR, policy="preferred"), "0.33.0")
    assert told.added[:2] == ("--numa-bind", "--numa-bind-nodes")
    assert "binds memory hard" in told.warnings[0]


def test_torchrun_reads_an_unknown_node_as_node_0() -> None:
    assert "unknown node for node 0" in refused("torchrun t.py", binding(*FOUR, assumed=True), "2.9.0")


def test_flags_do_not_go_into_a_shell_string() -> None:
    text = refused("sh -c 'vllm serve m'", SPANNING, "0.33.0", engine="vllm")
    assert "the command stands in a string for sh" in text


def test_a_named_engine_takes_its_flags_at_the_end() -> None:
    told = started("./start -tp 4", SPANNING, "0.33.0", engine="vllm")
    assert told.argv == ("./start", "-tp", "4", "--numa-bind", "--numa-bind-nodes", "0", "0", "1", "1")


def test_gpus_that_the_engine_does_not_use_are_said() -> None:
    text = started("vllm serve m -tp 2", SPANNING, "0.33.0").warnings[0]
    assert "2 of the 4 GPUs selected; these lie on one node" in text
    for line in ("vllm serve m -tp 8", "vllm serve m -tp 4 -dp 2", "trtllm-serve m --tp_size 8", "sglang serve --tp 8"):
        assert any("told to use 8 GPUs, and 4 are selected" in text for text in started(line, SPANNING).warnings)
    assert "vLLM is told to use 4 GPUs, and 2 are selected" in started("vllm serve m -tp 4", NEAR0).warnings
    assert not started("sglang serve --tp 2 --dp 2", NEAR0).warnings  # data-parallel attention shares the GPUs


def test_a_binding_that_names_one_node_for_gpus_of_two_is_refused() -> None:
    wrong = binding(*FOUR, nodes=(0,), mems=(0,), policy="interleave")
    assert "would place some far away" in refused("vllm serve m", wrong)


# --- conflicts ---


@pytest.mark.parametrize(
    ("line", "to", "text"),
    [
        ("numactl -N 1 -m 1 vllm serve m", NEAR0, "already has numactl"),
        ("numactl -N 0 vllm serve m", NEAR0, "already has numactl"),
        ("numactl -N 0 -p 0 vllm serve m", NEAR0, "already has numactl"),
        ("numactl -N 0 -m 0,1 vllm serve m", NEAR0, "already has numactl"),
        ("numactl --cpunodebind=0,1 --membind=0,1 vllm serve m", SPANNING, "already has numactl"),
        ("taskset -c 0-31 vllm serve m", NEAR0, "already has taskset"),
        ("nice env A=B taskset 0xff vllm serve m", NEAR0, "already has taskset"),
        ("numactl -N 0 -m 0 taskset -c 0-31 python x.py", NEAR0, "already has numactl and taskset"),
        ("mpirun -n 2 numactl -N 0 trtllm-serve m", NEAR0, "already has numactl"),
        ("launcher numactl -N 0 python x.py", NEAR0, "already has numactl"),
        ("docker run image vllm serve m", NEAR0, "--as docker"),
        ("sudo podman run image", NEAR0, "--as docker"),
        ("systemd-run -p CPUAffinity=0 vllm serve m", NEAR0, "--as systemd"),
        ("srun --cpu-bind=none vllm serve m", NEAR0, "--as slurm"),
        ("kubectl run pod", NEAR0, "--as k8s"),
        ("ssh host vllm serve m", NEAR0, "run hostdoctor there"),
        ("vllm serve m --numa-bind", NEAR0, "(--numa-bind): remove"),
        ("vllm serve m --numa-bind", SPANNING, "(--numa-bind): remove"),
        ("vllm serve m --numa_bind --numa_bind_nodes 0 0 0 1", SPANNING, "(--numa-bind, --numa-bind-nodes): remove"),
        ("vllm serve m --numa-bind-nodes 0 0 1 1", SPANNING, "(--numa-bind-nodes): remove"),
        ("vllm serve m --no-numa-bind", SPANNING, "--no-numa-bind"),
        ("vllm serve m --device-ids 0,1", NEAR0, "--device-ids"),
        ("sglang serve --numa-node 1 1", NEAR0, "(--numa-node): remove"),
        ("sglang serve --base-gpu-id 2", SPANNING, "--base-gpu-id"),
        ("torchrun --numa-binding=exclusive t.py", SPANNING, "--numa-binding=exclusive: remove"),
        ("llama-server --numa distribute", NEAR0, "(--numa distribute): remove"),
        ("env LLAMA_ARG_NUMA=isolate llama-server", NEAR0, "(--numa isolate): remove"),
        ("env TLLM_NUMA_AWARE_WORKER_AFFINITY=1 trtllm-serve m", NEAR0, "TLLM_NUMA_AWARE_WORKER_AFFINITY=1"),
        ("mpirun --bind-to core -n 2 trtllm-serve m", NEAR0, "--bind-to core binds each rank"),
        ("env CUDA_VISIBLE_DEVICES=1,0 vllm serve m", NEAR0, "CUDA_VISIBLE_DEVICES=1,0"),
        ("CUDA_VISIBLE_DEVICES=2 vllm serve m", NEAR0, "CUDA_VISIBLE_DEVICES=2"),
        ("uv run env CUDA_VISIBLE_DEVICES=2 vllm serve m", NEAR0, "CUDA_VISIBLE_DEVICES=2"),
        ("env CUDA_DEVICE_ORDER=FASTEST_FIRST vllm serve m", NEAR0, "CUDA_DEVICE_ORDER"),
        ("env CUDA_VISIBLE_DEVICES=0,1,2,3 python x.py", SPANNING, "each GPU's command needs its own"),
        ("env -i python x.py", SPANNING, "env drops CUDA_VISIBLE_DEVICES"),
        ("numactl -N 0 -m 0 vllm serve m --numa-bind --numa-bind-nodes 0 0", NEAR0, "remove one of them"),
    ],
)
def test_other_bindings_in_the_command_are_refused(line: str, to: Binding, text: str) -> None:
    assert text in refused(line, to, "9.9.9")


@pytest.mark.parametrize(
    ("line", "to"),
    [
        ("numactl -N 0 -m 0 vllm serve m", NEAR0),
        ("numactl --cpunodebind=0 --membind 0 vllm serve m", NEAR0),
        ("numactl -C 0-31 -m 0 vllm serve m", NEAR0),
        ("numactl --cpunodebind 0 --preferred=0 python x.py", binding(rank(0, 0), rank(1, 0), policy="preferred")),
        ("numactl -m 0 python x.py", binding(rank(0, 0), rank(1, 0), limits_cpus=False)),
        ("vllm serve m --numa-bind --numa-bind-nodes 0 0 1 1", SPANNING),
        ("vllm serve m --numa_bind --numa_bind_nodes 0 0", NEAR0),
        ("sglang serve --numa-node 0 0 1 1 --tp 4", SPANNING),
        ("torchrun --numa_binding node t.py", SPANNING),
    ],
)
def test_the_same_binding_is_kept_and_not_doubled(line: str, to: Binding) -> None:
    told = started(line, to, "9.9.9")
    assert not told.outer
    assert told.argv == tuple(shlex.split(line))
    assert told.added == ()
    assert "already" in told.notes[0]


def test_numactl_in_front_still_needs_the_engine_to_leave_it_alone() -> None:
    told = started("numactl -N 0 -m 0 llama-server -m x", NEAR0)
    assert not told.outer
    assert told.added == ("--numa", "numactl")
    told = started("numactl -N 0 -m 0 trtllm-serve m", NEAR0)
    assert told.environment == ENV2 | TLLM_OUTER


def test_the_same_devices_are_not_set_twice() -> None:
    told = started("env CUDA_VISIBLE_DEVICES=0,1 vllm serve m", NEAR0)
    assert told.environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    told = started("env CUDA_VISIBLE_DEVICES=0,1 vllm serve m", binding(rank(0, 0), rank(1, 0), visible=None))
    assert told.environment == {}


# --- variables that the words would drop ---


@pytest.mark.parametrize(
    ("line", "argv", "around"),
    [
        (
            "env -i A=B vllm serve m",
            "env -i A=B CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID vllm serve m",
            {},
        ),
        ("env - vllm serve m", "env - CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID vllm serve m", {}),
        (
            "env -u CUDA_VISIBLE_DEVICES nice vllm serve m",
            "env -u CUDA_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES=0,1 nice vllm serve m",
            {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        ),
        ("env -u OTHER vllm serve m", "env -u OTHER vllm serve m", ENV2),
        (
            "sudo -u vllm vllm serve m",
            "sudo -u vllm env CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID vllm serve m",
            {},
        ),
        (
            "sudo env A=B vllm serve m",
            "sudo env A=B CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID vllm serve m",
            {},
        ),
        ("sudo -E vllm serve m", "sudo -E vllm serve m", ENV2),
        ("A=B vllm serve m", "env A=B vllm serve m", ENV2),
    ],
)
def test_variables_stand_where_they_reach_the_engine(line: str, argv: str, around: dict[str, str]) -> None:
    told = started(line, NEAR0)
    assert told.argv == tuple(argv.split())
    assert told.environment == around


def test_sudo_and_exec_are_said() -> None:
    assert "sudo drops variables" in started("sudo vllm serve m", NEAR0).warnings[0]
    assert "a word of the shell" in started("exec vllm serve m", NEAR0).warnings[0]


# --- network adapters ---


class TestNics:
    near = binding(rank(0, 0, nics=("mlx5_0",)), rank(1, 0, nics=("mlx5_1", "mlx5_0")))
    spanning = binding(rank(0, 1, nics=("mlx5_10",)), rank(1, 0, nics=("mlx5_1",)))
    variables = {"NCCL_IB_HCA": "=mlx5_10,mlx5_1", "UCX_NET_DEVICES": "mlx5_10:1,mlx5_1:1"}  # noqa: RUF012

    def test_names_are_whole_and_ports_named(self) -> None:
        assert nic_variables(("mlx5_1", "mlx5_10", "mlx5_1")) == {
            "NCCL_IB_HCA": "=mlx5_1,mlx5_10",
            "UCX_NET_DEVICES": "mlx5_1:1,mlx5_10:1",
        }
        assert nic_variables(()) == {}

    def test_spanning_gpus_name_them_in_rank_order(self) -> None:
        told = started("vllm serve m -tp 2", self.spanning, "0.33.0")
        assert told.environment == ENV2 | self.variables
        assert any("GPU0: mlx5_10; GPU1: mlx5_1" in note for note in told.notes)

    def test_one_node_names_them_when_asked_or_disaggregated(self) -> None:
        assert started("vllm serve m", self.near).environment == ENV2
        named = ENV2 | {"NCCL_IB_HCA": "=mlx5_0,mlx5_1", "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1"}
        assert started("vllm serve m", self.near, nics=True).environment == named
        assert started("sglang serve --disaggregation-mode decode", self.near).environment == named
        assert started("vllm serve m --nnodes 2 -tp 2", self.near).environment == named
        assert started("vllm serve m -tp 2", self.spanning, "0.33.0", nics=False).environment == ENV2

    def test_llama_uses_neither(self) -> None:
        assert started("llama-server -m m", self.spanning).environment == ENV2

    def test_each_rank_has_its_own(self) -> None:
        told = started("python x.py", self.spanning)
        assert [one.environment.get("NCCL_IB_HCA") for one in told.rank_commands] == ["=mlx5_10", "=mlx5_1"]
        assert [one.environment.get("UCX_NET_DEVICES") for one in told.rank_commands] == ["mlx5_10:1", "mlx5_1:1"]

    def test_the_callers_value_is_kept(self) -> None:
        told = started("env NCCL_IB_HCA=mlx5 vllm serve m -tp 2", self.spanning, "0.33.0")
        assert told.environment == ENV2 | {"UCX_NET_DEVICES": self.variables["UCX_NET_DEVICES"]}
        assert any("own value is kept" in note for note in told.notes)

    def test_an_unknown_adapter_leaves_them_unset(self) -> None:
        told = started("vllm serve m -tp 2", binding(rank(0, 0, nics=("mlx5_0",)), rank(1, 1)), "0.33.0")
        assert told.environment == ENV2
        assert any("near GPU1 is not known" in note for note in told.notes)


# --- what holds for every command ---

WORDS = st.sampled_from(
    [
        *("env", "-i", "-u", "A=B", "CUDA_VISIBLE_DEVICES=0", "sudo", "-E", "nice", "numactl", "-N", "0", "-m"),
        *("vllm", "serve", "sglang", "torchrun", "llama-server", "trtllm-serve", "mpirun", "python", "-m", "--"),
        *("vllm.entrypoints.openai.api_server", "m", "-tp", "2", "--numa-bind", "--tp=4", "exec", "sh", "-c", "uv"),
    ]
) | st.text(max_size=8)
RANKS = st.lists(st.sampled_from([(0,), (1,), (0, 1)]), min_size=1, max_size=4)


@given(
    words=st.lists(WORDS, min_size=1, max_size=8),
    nodes=RANKS,
    engine=st.none() | st.sampled_from(ENGINE_NAMES),
    policy=st.sampled_from(["bind", "preferred", "interleave"]),
    limits=st.booleans(),
    version=st.sampled_from([None, "0.5.2", "0.22.0", "0.33.0", "2.9.0"]),
)
def test_the_callers_words_stay_in_their_order(
    words: list[str], nodes: list[tuple[int, ...]], engine: str | None, policy: str, limits: bool, version: str | None
) -> None:
    to = binding(*(rank(i, *each) for i, each in enumerate(nodes)), policy=policy, limits_cpus=limits)
    try:
        command = recognise(words, engine)
        told = launch(to, command, version=parse_version(version or ""))
    except (UsageError, PlacementError):
        return
    assert sorted(told.argv) == sorted([*words, *told.added])
    rest = iter(told.argv)
    assert all(word in rest for word in words)  # a subsequence: in order, none left out
    if told.outer and to.spans:
        assert len(set(told.binding.mems)) > 1
        assert len(set(told.binding.nodes)) > 1


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("bash -c 'exec numactl -N 1 vllm serve m'", "already has numactl"),
        ("bash -lc \"cd /srv; '/usr/bin/taskset' 0xff vllm serve m\"", "already has taskset"),
        ("env -S 'numactl -m 1 vllm serve m'", "already has numactl"),
        ("flock /run/lock -c 'numactl -N 1 vllm serve m'", "already has numactl"),
        ("bash -c 'vllm serve m --numa-bind --numa-bind-nodes 1'", "already tells its engine"),
        ("bash -c 'CUDA_VISIBLE_DEVICES=3 vllm serve m'", "CUDA_VISIBLE_DEVICES=3"),
        ("apptainer exec --nv --env=CUDA_VISIBLE_DEVICES=3 x.sif vllm serve m", "CUDA_VISIBLE_DEVICES=3"),
        ("mpirun -n 2 taskset 0xff ./a.out", "already has taskset"),
        ("hwloc-bind node:0 -- vllm serve m", "already has hwloc-bind"),
        ("docker-compose up", "--as docker"),
        ("tmux new -d vllm serve m", "--as shell"),
        ("systemctl start vllm", "--as systemd"),
    ],
)
def test_bindings_that_stand_deeper_are_refused(line: str, text: str) -> None:
    with pytest.raises(PlacementError) as caught:
        started(line, NEAR0)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "line", ["bash -c 'CUDA_VISIBLE_DEVICES=0,1 vllm serve m'", "bash -c 'echo numactl; vllm serve m'", "sh -c true"]
)
def test_strings_without_a_binding_of_their_own_are_started(line: str) -> None:
    assert started(line, NEAR0).outer


@pytest.mark.parametrize(
    "line", ["mpirun -n 4 python train.py", "accelerate launch train.py", "uv run deepspeed --num_gpus 4 train.py"]
)
def test_what_starts_ranks_itself_is_not_started_once_for_each(line: str) -> None:
    with pytest.raises(PlacementError, match="starts the ranks itself"):
        started(line, SPANNING)
    assert started(line, NEAR0).outer
    assert started("python mpirun.py", SPANNING).rank_commands


def test_doas_drops_variables_as_sudo_does() -> None:
    found = started("doas -u vllm vllm serve m", NEAR0)
    assert found.environment == {}
    assert found.argv[:5] == ("doas", "-u", "vllm", "env", "CUDA_VISIBLE_DEVICES=0,1")
    assert any(warning.startswith("doas drops") for warning in found.warnings)


def test_a_shortened_option_of_env_drops_variables_too() -> None:
    found = started("env --ignore-env vllm serve m", NEAR0)
    assert (found.environment, found.argv[2]) == ({}, "CUDA_VISIBLE_DEVICES=0,1")
