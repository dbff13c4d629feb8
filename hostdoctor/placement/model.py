"""What a placement is made of: the GPUs chosen, the nodes they bind to, and the command that is then started."""

from typing import Literal

import msgspec

from hostdoctor.facts import Fact

Arm = Literal["near", "far"]
MemoryPolicy = Literal["bind", "preferred", "interleave"]
EngineName = Literal["vllm", "sglang", "tensorrt-llm", "llama.cpp", "torchrun", "generic"]


class Selection(Fact, frozen=True, kw_only=True):
    """The GPUs that a command will see: ``gpus`` are positions in ``host.gpus``, in the order in which it sees them.

    ``visible_devices`` is the value of CUDA_VISIBLE_DEVICES that gives the command these GPUs in this order (None when
    it sees them anyway); ``origin`` says in words where the choice came from (``--gpus 0,1``).
    """

    gpus: tuple[int, ...]
    labels: tuple[str, ...]
    visible_devices: str | None = None
    origin: str


class Reason(Fact, frozen=True, kw_only=True):
    """Why the placement is what it is: a sentence, and the evidence (path or command, value seen) behind it."""

    text: str
    source: str | None = None
    value: str | None = None


class Rank(Fact, frozen=True, kw_only=True):
    """One GPU in visible order and where its worker goes. ``cpus`` is a cpulist, ``nics`` the nearest RDMA NICs."""

    gpu: str
    nodes: tuple[int, ...]
    mems: tuple[int, ...]
    cpus: str
    nics: tuple[str, ...] = ()


class Binding(Fact, frozen=True, kw_only=True):
    """Where a command goes. ``nodes`` are CPU nodes, ``mems`` memory nodes, ``cpus`` the CPUs to use (a cpulist).

    ``whole_nodes``: ``cpus`` are all CPUs of ``nodes``, so that the nodes name them. ``limits_cpus`` is False where
    limiting the CPUs would leave fewer physical cores than the engine needs; then only memory is placed.
    ``smt_siblings``: cpulist of the second hardware threads among ``cpus`` (``""`` without SMT, None when not known).
    ``physical_cores`` is None when not known. ``policy`` is never ``auto``: it was decided, and ``reasons`` say why.
    """

    selection: Selection
    ranks: tuple[Rank, ...]
    nodes: tuple[int, ...]
    mems: tuple[int, ...]
    cpus: str
    whole_nodes: bool
    limits_cpus: bool = True
    physical_cores: int | None = None
    smt_siblings: str | None = None
    policy: MemoryPolicy
    arm: Arm = "near"
    assumed: bool = False
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def spans(self) -> bool:
        """The ranks go to different nodes, so that no one bind of the whole command is right."""
        return len({rank.nodes for rank in self.ranks}) > 1


class RankCommand(Fact, frozen=True, kw_only=True):
    """One rank's own command where the engine cannot place its workers itself."""

    rank: int
    binding: Rank
    environment: dict[str, str]


class Launch(Fact, frozen=True, kw_only=True):
    """A command to start: ``argv`` with the engine's own flags already in it, and the variables to set.

    ``outer``: the whole command goes under ``binding`` (numactl, CPUAffinity, cpuset); False where the engine binds
    its own workers and a limit around it would spoil that. ``rank_commands`` is filled instead of both where every rank
    needs a command of its own. ``added`` are the words of ``argv`` that were not the caller's.
    """

    argv: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    binding: Binding
    outer: bool
    engine: EngineName
    engine_version: str | None = None
    added: tuple[str, ...] = ()
    rank_commands: tuple[RankCommand, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
