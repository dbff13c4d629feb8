"""From a binding and an engine's command line to the command that is started: flags, variables, or a bind around it."""

from typing import NamedTuple

from hostdoctor.errors import PlacementError
from hostdoctor.facts import Fact
from hostdoctor.placement.conflicts import refuse_conflicts
from hostdoctor.placement.engines import MPI, TITLES, EngineCommand, rank_starter
from hostdoctor.placement.model import Binding, Launch, RankCommand
from hostdoctor.placement.nic_variables import nic_variables, of_ranks, wanted
from hostdoctor.placement.prefixes import RAISERS, is_assignment
from hostdoctor.placement.spanning import own_binding
from hostdoctor.placement.versions import Version

_DEVICES, _ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
_TENSORRT_OUTER = (
    ("TLLM_NUMA_AWARE_WORKER_AFFINITY", "0"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("OMPI_MCA_rmaps_base_inherit", "1"),
    ("SLURM_CPU_BIND", "none"),
)


class _Plan(Fact, frozen=True, kw_only=True):
    """What is to be added to a command line."""

    binding: Binding
    outer: bool
    flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    ranks: bool = False
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class _Insertion(NamedTuple):
    """Words to put before the word at a position."""

    at: int
    words: tuple[str, ...]


def launch(
    binding: Binding, command: EngineCommand, *, version: Version | None = None, nics: bool | None = None
) -> Launch:
    """Return how the command is started under the binding.

    GPUs of one set of nodes: the whole command goes under the binding. GPUs on several nodes: the engine binds its own
    workers where it can be told, an unrecognised command is started once for each GPU. An unknown ``version`` counts
    as the newest, with a warning where a flag depends on it. ``nics``: whether to name the network adapters near the
    GPUs; None: where GPUs span nodes, hosts or engines.
    Raises PlacementError where the command contradicts the binding or the engine cannot be told.
    """
    already = refuse_conflicts(command, binding)
    plan = _unbound(binding, command, already) if already else _plan(binding, command, version)
    asked = {} if plan.ranks else _device_variables(binding)
    near, nic_note = _nics(plan, command, nics)
    variables = _kept(command, asked | dict(plan.variables)) | near
    inside, around = _divide(command, variables)
    insertions = [_inside(command, inside), _Insertion(command.end, plan.flags), *_leading_env(command)]
    argv, added = _inserted(command.argv, insertions)
    return Launch(
        argv=argv,
        environment=around,
        binding=plan.binding,
        outer=plan.outer,
        engine=command.engine,
        engine_version=None if version is None else version.text,
        added=added,
        rank_commands=_rank_commands(plan.binding, command, nics) if plan.ranks else (),
        notes=(*command.notes, *plan.notes, *nic_note),
        warnings=(
            *binding.warnings,
            *plan.warnings,
            *_too_few_gpus(binding, command),
            *_prefix_warnings(command, inside),
        ),
    )


def _unbound(binding: Binding, command: EngineCommand, already: str) -> _Plan:
    """Add no binding to a command that brings it; where numactl does, the engine must still not undo it."""
    if not command.prefix.binders:
        return _Plan(binding=binding, outer=False, notes=(already,))
    from msgspec.structs import replace

    around = _around(binding, command)
    return replace(around, outer=False, notes=(already, *around.notes))


def _plan(binding: Binding, command: EngineCommand, version: Version | None) -> _Plan:
    if not binding.spans:
        return _around(binding, command)
    if command.engine == "generic" and binding.policy != "interleave":
        return _each_rank(binding, command)
    if command.engine == "llama.cpp" or binding.policy == "interleave":
        return _interleaved(binding, command)
    if not binding.limits_cpus:
        return _memory_alone(binding, command)
    own = own_binding(binding, command, version)
    return _Plan(
        binding=binding,
        outer=False,
        flags=own.flags,
        variables=own.variables,
        notes=own.notes,
        warnings=own.warnings,
    )


# --- one binding around the command ---


def _around(binding: Binding, command: EngineCommand) -> _Plan:
    """Put the whole command under the binding, and keep the engine from undoing it."""
    warnings: tuple[str, ...] = ()
    if command.engine == "vllm" and command.executor in ("ray", "external_launcher"):
        warnings = (f"workers that {command.executor} started before this command do not inherit its binding",)
    return _Plan(
        binding=binding,
        outer=True,
        flags=_llama_flags(command),
        variables=_outer_variables(binding, command),
        notes=_outer_notes(command),
        warnings=warnings,
    )


def _llama_flags(command: EngineCommand) -> tuple[str, ...]:
    if command.engine != "llama.cpp":
        return ()
    told = command.words.has("--numa") or "LLAMA_ARG_NUMA" in command.prefix.environment
    if command.hidden:
        return ()
    return () if told else ("--numa", "numactl")


def _outer_variables(binding: Binding, command: EngineCommand) -> tuple[tuple[str, str], ...]:
    if command.engine == "tensorrt-llm":
        return _TENSORRT_OUTER
    if command.engine == "sglang" and not _agrees_with_sglang(binding):
        return (("SGLANG_AUTO_NUMA_BIND", "0"),)
    return ()


def _agrees_with_sglang(binding: Binding) -> bool:
    """SGLang binds each worker hard to its GPU's node by itself, within the CPUs that it inherits."""
    plain = binding.policy == "bind" and binding.limits_cpus and not binding.spans
    return plain and binding.arm == "near" and not binding.assumed and len(binding.nodes) == 1


def _outer_notes(command: EngineCommand) -> tuple[str, ...]:
    if command.engine == "llama.cpp":
        return ("after a change of binding, drop the page cache once: a mapped model stays where it was read",)
    if command.engine == "generic" and command.runner in MPI:
        return (f"{command.runner} binds its ranks itself, within this binding where it honours it",)
    return ()


def _interleaved(binding: Binding, command: EngineCommand) -> _Plan:
    """Put the command on all nodes of the binding, its memory in turn on each."""
    from msgspec.structs import replace

    _refuse_one_node(binding)
    around = _around(replace(binding, policy="interleave"), command)
    note = (
        f"GPUs on nodes {_named(binding.nodes)}: memory is spread over these nodes in turn, near no GPU in particular"
    )
    changed = f"{TITLES[command.engine]} is one process: {binding.policy} became interleave"
    notes = (note,) if binding.policy == "interleave" else (note, changed)
    return replace(around, notes=(*around.notes, *notes))


def _memory_alone(binding: Binding, command: EngineCommand) -> _Plan:
    """Keep memory to the nodes of the GPUs: what engines do for single workers limits CPUs too."""
    from msgspec.structs import replace

    _refuse_one_node(binding)
    warning = (
        f"{TITLES[command.engine]} cannot place a worker's memory without limiting its CPUs, which are too few: "
        f"memory is kept to nodes {_named(binding.mems)} together, workers are not bound"
    )
    around = _around(binding, command)
    return replace(around, warnings=(*around.warnings, warning))


def _refuse_one_node(binding: Binding) -> None:
    """Never put GPUs of several nodes under a bind to one of them."""
    cpus_of_one = binding.limits_cpus and len(set(binding.nodes)) < 2
    if cpus_of_one or len(set(binding.mems)) < 2:
        raise PlacementError("the GPUs lie on several nodes and the binding names one: that would place some far away")


def _named(nodes: tuple[int, ...]) -> str:
    return ", ".join(map(str, nodes))


# --- one command for each GPU ---


def _each_rank(binding: Binding, command: EngineCommand) -> _Plan:
    for name in (_DEVICES, _ORDER):
        if name in command.prefix.environment:
            raise PlacementError(f"the command sets {name}, and each GPU's command needs its own: remove the variable")
    starter = rank_starter(command)
    if starter:
        raise PlacementError(
            f"{starter} starts the ranks itself: wrap the command that it starts, and let it start that script"
        )
    if command.prefix.dropper:
        raise PlacementError(
            f"{command.prefix.dropper} drops {_DEVICES}, by which each GPU's command differs: leave it out"
        )
    warning = (
        f"not recognised as an engine (--engine names it): one command for each of {len(binding.ranks)} GPUs, each"
        " bound by itself"
    )
    return _Plan(binding=binding, outer=False, ranks=True, warnings=(warning,))


def _rank_commands(binding: Binding, command: EngineCommand, nics: bool | None) -> tuple[RankCommand, ...]:
    devices = _single_devices(binding)
    named = wanted(binding, command, nics)
    return tuple(
        RankCommand(
            rank=i,
            binding=rank,
            environment=_devices(device) | (_without_told(command, nic_variables(rank.nics)) if named else {}),
        )
        for i, (rank, device) in enumerate(zip(binding.ranks, devices, strict=True))
    )


def _single_devices(binding: Binding) -> list[str]:
    """Return the value of CUDA_VISIBLE_DEVICES that names each rank's GPU."""
    visible = binding.selection.visible_devices
    if visible is not None:
        devices = visible.split(",")
    else:
        devices = [label.removeprefix("GPU") for label in binding.selection.labels]
        if not all(device.isascii() and device.isdigit() for device in devices):
            raise PlacementError("the GPUs have no index or UUID by which CUDA_VISIBLE_DEVICES could name one of them")
    if len(devices) != len(binding.ranks):
        raise PlacementError(
            f"{len(devices)} devices are visible and {len(binding.ranks)} placed: name them with --gpus"
        )
    return devices


# --- variables ---


def _device_variables(binding: Binding) -> dict[str, str]:
    visible = binding.selection.visible_devices
    if visible is not None:
        return _devices(visible)
    return {_ORDER: "PCI_BUS_ID"} if binding.spans else {}


def _devices(visible: str) -> dict[str, str]:
    indices = all(part.isdigit() for part in visible.split(","))
    return {_DEVICES: visible} | ({_ORDER: "PCI_BUS_ID"} if indices else {})


def _nics(plan: _Plan, command: EngineCommand, asked: bool | None) -> tuple[dict[str, str], tuple[str, ...]]:
    if plan.ranks or not wanted(plan.binding, command, asked):
        return {}, ()
    variables, note = of_ranks(plan.binding.ranks)
    told = [name for name in variables if name in command.prefix.environment]
    if told:
        return _without_told(command, variables), (f"{' and '.join(told)}: the command's own value is kept",)
    return variables, () if note is None else (note,)


def _without_told(command: EngineCommand, variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in command.prefix.environment}


def _too_few_gpus(binding: Binding, command: EngineCommand) -> tuple[str, ...]:
    """Say that an engine wants more GPUs than it will see (data parallelism may share GPUs, but in vLLM never does)."""
    used, selected = command.gpus_used, len(binding.selection.gpus)
    if used is None or used <= selected or (command.engine != "vllm" and command.data_parallel != 1):
        return ()
    return (f"{TITLES[command.engine]} is told to use {used} GPUs, and {selected} are selected",)


def _kept(command: EngineCommand, variables: dict[str, str]) -> dict[str, str]:
    """Return the variables that the command line does not set yet; raise PlacementError where it sets another value."""
    told = command.prefix.environment
    for name, value in variables.items():
        if name in told and name != _DEVICES and told[name] != value:
            raise PlacementError(f"the command sets {name}={told[name]}, the placement needs {value}: remove it")
    return _without_told(command, variables)


def _divide(command: EngineCommand, variables: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that must stand inside the command line because its words drop them, and the others."""
    prefix = command.prefix
    if prefix.dropper is None or prefix.carry_at is None:
        return {}, variables
    inside = {name: value for name, value in variables.items() if not prefix.unset or name in prefix.unset}
    return inside, {name: value for name, value in variables.items() if name not in inside}


# --- words ---


def _inside(command: EngineCommand, variables: dict[str, str]) -> _Insertion:
    prefix = command.prefix
    if not variables or prefix.carry_at is None:
        return _Insertion(0, ())
    env = ("env",) if prefix.dropper in RAISERS else ()
    return _Insertion(prefix.carry_at, (*env, *(f"{name}={value}" for name, value in variables.items())))


def _leading_env(command: EngineCommand) -> list[_Insertion]:
    """``A=B vllm serve`` is a shell's way to write ``env A=B vllm serve``."""
    return [_Insertion(0, ("env",))] if is_assignment(command.argv[0]) else []


def _inserted(argv: tuple[str, ...], insertions: list[_Insertion]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the command line with words put in, and these words in their order."""
    ordered = sorted((one for one in insertions if one.words), key=lambda one: one.at)
    out: list[str] = []
    added: list[str] = []
    last = 0
    for at, words in ordered:
        out += [*argv[last:at], *words]
        added += words
        last = at
    return (*out, *argv[last:]), tuple(added)


def _prefix_warnings(command: EngineCommand, inside: dict[str, str]) -> tuple[str, ...]:
    warnings: list[str] = []
    if "exec" in command.prefix.names:
        warnings.append(
            "exec is a word of the shell, not a program: leave it out, the command is started in place anyway"
        )
    if inside and command.prefix.dropper in RAISERS:
        told = ", ".join(inside)
        warnings.append(f"{command.prefix.dropper} drops variables: {told} are written behind it, with env")
    return tuple(warnings)
