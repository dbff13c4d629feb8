"""Launches on a host with two sockets of four cores, two threads each: node 0 has CPUs 0-3,8-11, node 1 the rest."""

from hostdoctor.placement.emitting import Made
from hostdoctor.placement.model import Arm, Binding, Launch, MemoryPolicy, Rank, RankCommand, Reason, Selection

MADE = Made(host="gpu-7", version="0.1.0", time="2026-05-04T10:20:30+00:00")
CPUS = {0: "0-3,8-11", 1: "4-7,12-15"}


def rank(gpu: int, node: int) -> Rank:
    return Rank(gpu=f"GPU{gpu}", nodes=(node,), mems=(node,), cpus=CPUS[node])


def one_node(
    *, policy: MemoryPolicy = "bind", whole_nodes: bool = True, limits_cpus: bool = True, arm: Arm = "near"
) -> Binding:
    """Return GPUs 0 and 1 on node 0; the far arm is node 1."""
    node = 0 if arm == "near" else 1
    return Binding(
        selection=Selection(gpus=(0, 1), labels=("GPU0", "GPU1"), visible_devices="0,1", origin="--gpus 0,1"),
        ranks=(rank(0, node), rank(1, node)),
        nodes=(node,),
        mems=(node,),
        cpus=CPUS[node] if whole_nodes else CPUS[node].partition(",")[0],
        whole_nodes=whole_nodes,
        limits_cpus=limits_cpus,
        physical_cores=4,
        smt_siblings=CPUS[node].partition(",")[2] if whole_nodes else "",
        policy=policy,
        arm=arm,
        reasons=(Reason(text="GPU0 is near node 0", source="/sys/bus/pci/devices/0000:1b:00.0/numa_node", value="0"),),
    )


def two_nodes(*, policy: MemoryPolicy = "bind", visible: str = "0,1,2,3") -> Binding:
    """Return four GPUs, two near each node."""
    return Binding(
        selection=Selection(
            gpus=(0, 1, 2, 3), labels=("GPU0", "GPU1", "GPU2", "GPU3"), visible_devices=visible, origin="--gpus all"
        ),
        ranks=(rank(0, 0), rank(1, 0), rank(2, 1), rank(3, 1)),
        nodes=(0, 1),
        mems=(0, 1),
        cpus="0-15",
        whole_nodes=True,
        policy=policy,
        warnings=("the GPUs are on different nodes",),
    )


def launch(
    *argv: str, binding: Binding | None = None, environment: dict[str, str] | None = None, notes: tuple[str, ...] = ()
) -> Launch:
    """Return a whole command under an outer bind."""
    return Launch(
        argv=argv or ("vllm", "serve", "org/model"),
        environment={"CUDA_VISIBLE_DEVICES": "0,1"} if environment is None else environment,
        binding=binding or one_node(),
        outer=True,
        engine="vllm",
        engine_version="0.33.0",
        notes=notes,
    )


def spanning(*, policy: MemoryPolicy = "bind") -> Launch:
    """Return vLLM over both nodes: it binds its own workers."""
    added = ("--numa-bind", "--numa-bind-nodes", "0", "0", "1", "1")
    return Launch(
        argv=("vllm", "serve", "org/model", "--tensor-parallel-size", "4", *added),
        environment={"CUDA_VISIBLE_DEVICES": "0,1,2,3"},
        binding=two_nodes(policy=policy),
        outer=False,
        engine="vllm",
        engine_version="0.33.0",
        added=added,
    )


def by_rank(*argv: str, environments: tuple[dict[str, str], ...] = ()) -> Launch:
    """Return a command that is started once for each of four ranks."""
    binding = two_nodes()
    own = environments or tuple({"CUDA_VISIBLE_DEVICES": str(number)} for number in range(4))
    return Launch(
        argv=argv or ("python3", "train.py"),
        environment={"OMP_NUM_THREADS": "4"},
        binding=binding,
        outer=False,
        engine="generic",
        rank_commands=tuple(
            RankCommand(rank=number, binding=binding.ranks[number], environment=environment)
            for number, environment in enumerate(own)
        ),
    )
