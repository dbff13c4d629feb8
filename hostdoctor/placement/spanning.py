"""How each engine is told to bind its own workers, for GPUs that lie on several nodes."""

from hostdoctor.errors import PlacementError
from hostdoctor.facts import Fact
from hostdoctor.placement.engines import TITLES, EngineCommand
from hostdoctor.placement.model import Binding
from hostdoctor.placement.versions import Version

VLLM_NUMA_BIND = (0, 20)
VLLM_SEVERAL_CPU_LISTS = (0, 23)
VLLM_PROBES_MEMBIND = (0, 24)
SGLANG_NUMA_NODE = (0, 5, 2)
TORCH_NUMA_BINDING = (2, 9)
OTHER_WAYS = "GPUs of one node (--gpus), or --policy interleave"
_UNWRAPPED = ("ray", "external_launcher")


class Own(Fact, frozen=True, kw_only=True):
    """What is added to an engine's command so that it binds its own workers."""

    flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def own_binding(binding: Binding, command: EngineCommand, version: Version | None) -> Own:
    """Return what makes vLLM, SGLang, TensorRT-LLM or torchrun bind its workers to the nodes of ``binding.ranks``.

    Raises PlacementError, saying what would work, where the engine or its version cannot say it.
    """
    by_engine = {"vllm": _vllm, "sglang": _sglang, "torchrun": _torchrun}
    own = (
        _tensorrt(binding) if command.engine == "tensorrt-llm" else by_engine[command.engine](binding, command, version)
    )
    if own.flags and command.hidden:
        raise PlacementError(
            f"{' '.join(own.flags)} must be among the words of {TITLES[command.engine]}, and {command.hidden}: "
            f"give the engine's own command line, or {OTHER_WAYS}"
        )
    return own


def _gate(command: EngineCommand, version: Version | None, minimum: tuple[int, ...], what: str) -> tuple[str, ...]:
    """Return a warning when the version is not known; raise PlacementError when it is too old."""
    package = "PyTorch" if command.engine == "torchrun" else TITLES[command.engine]
    need = f"{package} ≥ {'.'.join(map(str, minimum))}"
    if version is None:
        return (f"{what} needs {need}; the installed version is not known (--engine-version)",)
    if not version.reaches(minimum):
        raise PlacementError(f"{what} needs {need}, this is {version.text}: upgrade, or {OTHER_WAYS}")
    return ()


# --- vLLM ---


def _vllm(binding: Binding, command: EngineCommand, version: Version | None) -> Own:
    _refuse_unwrapped_workers(command)
    nodes = _memory_nodes(binding, "vLLM binds the memory of a worker to one node")
    flags = ["--numa-bind", "--numa-bind-nodes", *nodes]
    lists = not binding.whole_nodes or any(rank.mems != rank.nodes for rank in binding.ranks)
    if lists:
        warnings = _gate(command, version, VLLM_SEVERAL_CPU_LISTS, "--numa-bind-cpus for several GPUs")
        flags += ["--numa-bind-cpus", *_cpu_lists(binding)]
    else:
        warnings = _gate(command, version, VLLM_NUMA_BIND, "--numa-bind")
    if version is not None and not version.reaches(VLLM_PROBES_MEMBIND):
        warnings += (
            f"vLLM {version.text} does not try the memory binding first: where it is refused (a container without "
            "SYS_NICE), workers end with status 1 and no traceback",
        )
    warnings += _vllm_sizes(binding, command) + _hard_binding(binding, "vLLM")
    return Own(flags=tuple(flags), notes=_vllm_notes(command), warnings=warnings)


def _refuse_unwrapped_workers(command: EngineCommand) -> None:
    if command.executor in _UNWRAPPED or command.words.value("--data-parallel-backend") == "ray":
        backend = command.executor if command.executor in _UNWRAPPED else "ray"
        raise PlacementError(
            f"vLLM does not bind workers that {backend} starts: use --distributed-executor-backend mp, or {OTHER_WAYS}"
        )


def _vllm_sizes(binding: Binding, command: EngineCommand) -> tuple[str, ...]:
    used, visible = command.gpus_used, len(binding.ranks)
    if used is None or used >= visible:
        return ()
    first = {rank.nodes for rank in binding.ranks[:used]}
    advice = "; these lie on one node, which binds better (--gpus)" if len(first) == 1 else ""
    return (f"vLLM is told to use {used} of the {visible} GPUs selected{advice}",)


def _vllm_notes(command: EngineCommand) -> tuple[str, ...]:
    notes = [
        "API servers and the data-parallel coordinator are not bound by --numa-bind",
        "--numa-bind accepted is not yet bound: vLLM goes on without it where numactl fails; hostdoctor ps shows it",
    ]
    if command.prefix.environment.get("VLLM_WORKER_MULTIPROC_METHOD") == "fork":
        notes.append("VLLM_WORKER_MULTIPROC_METHOD=fork cannot bind: vLLM overrides it because --numa-bind is given")
    if command.executor not in (None, "mp", "uni"):
        notes.append(f"whether the executor {command.executor} binds its workers is not known")
    if command.hosts != 1:
        notes.append("the list is for the GPUs of this host: every host needs its own")
    return tuple(notes)


def _memory_nodes(binding: Binding, why: str) -> list[str]:
    """Return the one memory node of each rank, in visible order."""
    for rank in binding.ranks:
        if len(rank.mems) != 1:
            named = ", ".join(map(str, rank.mems)) or "none"
            raise PlacementError(
                f"{why}, and {rank.gpu} has {named}: start one engine for each socket, or {OTHER_WAYS}"
            )
    return [str(rank.mems[0]) for rank in binding.ranks]


def _cpu_lists(binding: Binding) -> list[str]:
    for rank in binding.ranks:
        if not rank.cpus:
            raise PlacementError(f"no CPUs are left for {rank.gpu}: {OTHER_WAYS}")
    return [rank.cpus for rank in binding.ranks]


def _hard_binding(binding: Binding, title: str) -> tuple[str, ...]:
    if binding.policy != "preferred":
        return ()
    return (
        f"{title} binds memory hard (membind), preferred cannot be said to it: a worker that needs more host memory "
        "than its node has is killed: plan less (`hostdoctor budget`), or --policy interleave",
    )


# --- SGLang ---


def _sglang(binding: Binding, command: EngineCommand, version: Version | None) -> Own:
    nodes = _memory_nodes(binding, "SGLang binds a worker to one node")
    apart = [rank.gpu for rank in binding.ranks if rank.mems != rank.nodes]
    if apart:
        raise PlacementError(
            f"SGLang cannot place CPUs and memory of {', '.join(apart)} on different nodes: {OTHER_WAYS}"
        )
    warnings = _gate(command, version, SGLANG_NUMA_NODE, "--numa-node") + _hard_binding(binding, "SGLang")
    notes: tuple[str, ...] = ("SGLang's own processes beside the workers are not bound",)
    if not binding.whole_nodes:
        notes += ("SGLang binds to the CPUs of the node that it may use, which it finds itself",)
    return Own(flags=("--numa-node", *nodes), notes=notes, warnings=warnings)


# --- TensorRT-LLM and torchrun: CPUs alone, by what they find themselves ---


def _tensorrt(binding: Binding) -> Own:
    _refuse_unsayable(binding, "TensorRT-LLM")
    variables = (("TLLM_NUMA_AWARE_WORKER_AFFINITY", "1"),)
    return Own(variables=variables, notes=(_cpus_only("TensorRT-LLM"),), warnings=_assumed(binding))


def _assumed(binding: Binding) -> tuple[str, ...]:
    if not binding.assumed:
        return ()
    return ("TensorRT-LLM asks the driver for each GPU's node: the node assumed here cannot be said to it",)


def _torchrun(binding: Binding, command: EngineCommand, version: Version | None) -> Own:
    _refuse_unsayable(binding, "torchrun")
    if binding.assumed:
        raise PlacementError(f"torchrun takes an unknown node for node 0, and cannot be told another: {OTHER_WAYS}")
    warnings = _gate(command, version, TORCH_NUMA_BINDING, "--numa-binding")
    return Own(flags=("--numa-binding=node",), notes=(_cpus_only("torchrun"),), warnings=warnings)


def _refuse_unsayable(binding: Binding, title: str) -> None:
    if binding.arm == "far" or any(rank.mems != rank.nodes for rank in binding.ranks):
        raise PlacementError(f"{title} binds its workers near their GPUs, and no other place can be said: {OTHER_WAYS}")


def _cpus_only(title: str) -> str:
    return f"{title} binds CPUs alone: memory is placed by first touch, which leaves what was touched earlier far away"
