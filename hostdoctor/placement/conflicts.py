"""What a command line already says of binding and of GPUs: the same as ours is kept, anything else is refused."""

from itertools import pairwise

from hostdoctor.errors import ParseError, PlacementError
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.placement.engines import TITLES, EngineCommand
from hostdoctor.placement.model import Binding
from hostdoctor.placement.prefixes import BINDERS, Binder
from hostdoctor.placement.words import basename

_POLICY_OPTIONS = {
    "bind": ("-m", "--membind"),
    "preferred": ("-p", "--preferred"),
    "interleave": ("-i", "--interleave"),
}
_MEMORY_OPTIONS = ("-m", "-p", "-P", "-i", "-w", "-l", "--membind", "--preferred", "--preferred-many", "--interleave")
_OTHER_BINDERS = ("hwloc-bind", "likwid-pin", "likwid-mpirun", "dplace", "omplace")
_MORE_MEMORY_OPTIONS = ("--weighted-interleave", "--localalloc")


def refuse_conflicts(command: EngineCommand, binding: Binding) -> str | None:
    """Return a sentence when the command line already binds as ``binding`` does, None when it does not bind.

    Raises PlacementError, saying what to remove, where it binds otherwise or names other GPUs.
    """
    _refuse_elsewhere(command)
    _refuse_devices(command, binding)
    _refuse_hidden_binders(command)
    own = _engine_binding(command, binding)
    if not command.prefix.binders:
        return own
    if own is None:
        return _binder(command, binding)
    raise PlacementError("the command has numactl or taskset and the engine's own binding as well: remove one of them")


def _refuse_elsewhere(command: EngineCommand) -> None:
    if command.elsewhere is None:
        return
    name = basename(command.argv[command.prefix.program])
    if name == "ssh":
        raise PlacementError("ssh starts the command on another host: run hostdoctor there")
    raise PlacementError(
        f"binding {name} would bind that program alone, not what it asks others to start: "
        f"give the command that runs inside, and --as {command.elsewhere}"
    )


def _refuse_hidden_binders(command: EngineCommand) -> None:
    """Refuse other binders between a runner and the engine, among the words of a command not recognised, in strings."""
    first, strings = command.prefix.program, command.strings
    words = command.argv[first : command.program] if command.recognised else command.argv[first:]
    for word, next_word in (*pairwise((*words, "")), *pairwise((*strings, ""))):
        if _binds(basename(word), next_word):
            raise PlacementError(f"the command already has {basename(word)}: remove it and its options")
    for word in strings:
        if word.startswith(("--numa-bind", "--numa-node")):
            raise PlacementError(f"the command already tells its engine how to bind ({word}): remove these options")


def _binds(name: str, next_word: str) -> bool:
    if name in _OTHER_BINDERS:
        return True
    return name in BINDERS and (next_word.startswith("-") or (name == "taskset" and next_word[:1].isdigit()))


# --- GPUs ---


def _refuse_devices(command: EngineCommand, binding: Binding) -> None:
    told = command.prefix.environment | _told_in_strings(command)
    named = told.get("CUDA_VISIBLE_DEVICES")
    if named is not None and _devices(named) not in _same_devices(binding):
        raise PlacementError(
            f"the command sets CUDA_VISIBLE_DEVICES={named}, the placement is for {', '.join(binding.selection.labels)}"
            f" ({binding.selection.origin}): remove the variable or choose the same GPUs"
        )
    if told.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID") != "PCI_BUS_ID":
        raise PlacementError(
            "the command sets CUDA_DEVICE_ORDER, and the placement counts GPUs by PCI address: remove the variable"
        )
    if binding.selection.visible_devices is not None or binding.spans:
        _refuse_device_options(command)


def _told_in_strings(command: EngineCommand) -> dict[str, str]:
    """Return the variables of CUDA that a shell string sets, and those that a runner's own option does."""
    between = command.argv[command.prefix.program : command.program] if command.runner else ()
    words = (*(word.rpartition("env=")[2] if word.startswith("-") else word for word in between), *command.strings)
    pairs = (word.partition("=") for word in words if word.startswith(("CUDA_VISIBLE_DEVICES=", "CUDA_DEVICE_ORDER=")))
    return {name: value.strip("\"'") for name, _, value in pairs}


def _refuse_device_options(command: EngineCommand) -> None:
    """Refuse options that make the engine count its GPUs otherwise than in visible order."""
    harmless = {"--base-gpu-id": "0", "--gpu-id-step": "1"} if command.engine == "sglang" else {}
    others = {"--device-ids": ""} if command.engine == "vllm" else harmless
    for option, default in others.items():
        if command.words.has(option) and command.words.value(option) != default:
            raise PlacementError(f"{option} chooses GPUs besides the placement: remove it and name them with --gpus")


def _devices(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _same_devices(binding: Binding) -> list[tuple[str, ...]]:
    """Return the ways to name the selected GPUs in their order."""
    selection = binding.selection
    same = [tuple(label.removeprefix("GPU") for label in selection.labels)]
    return same if selection.visible_devices is None else [_devices(selection.visible_devices)]


# --- numactl and taskset in front ---


def _binder(command: EngineCommand, binding: Binding) -> str:
    binders = command.prefix.binders
    if len(binders) == 1 and not binding.spans and _is_ours(binders[0], binding):
        return "the command already binds itself this way with numactl: its words are kept, nothing is added"
    names = " and ".join(dict.fromkeys(binder.name for binder in binders))
    raise PlacementError(f"the command already has {names}: remove it and its options, so that one binding is left")


def _is_ours(binder: Binder, binding: Binding) -> bool:
    if binder.name != "numactl":
        return False
    return _same_memory(binder, binding) and _same_cpus(binder, binding)


def _same_memory(binder: Binder, binding: Binding) -> bool:
    used = [(name, value) for name, value in binder.options if name in (*_MEMORY_OPTIONS, *_MORE_MEMORY_OPTIONS)]
    if len(used) != 1 or used[0][0] not in _POLICY_OPTIONS[binding.policy]:
        return False
    return _ids(used[0][1]) == frozenset(binding.mems)


def _same_cpus(binder: Binder, binding: Binding) -> bool:
    nodes = [value for name, value in binder.options if name in ("-N", "--cpunodebind")]
    cpus = [value for name, value in binder.options if name in ("-C", "--physcpubind")]
    if not binding.limits_cpus:
        return not nodes and not cpus
    if len(nodes) + len(cpus) != 1:
        return False
    if nodes:
        return binding.whole_nodes and _ids(nodes[0]) == frozenset(binding.nodes)
    return _ids(cpus[0]) == _ids(binding.cpus)


def _ids(text: str) -> frozenset[int] | None:
    try:
        return parse_cpulist(text)
    except ParseError:
        return None


# --- the engine's own options and variables ---


def _engine_binding(command: EngineCommand, binding: Binding) -> str | None:
    if command.engine in ("vllm", "sglang"):
        return _node_lists(command, binding)
    if command.engine == "torchrun":
        return _torchrun(command, binding)
    if command.engine == "llama.cpp":
        _refuse_llama(command)
    if command.engine == "tensorrt-llm":
        _refuse_mpirun(command)
    return None


def _node_lists(command: EngineCommand, binding: Binding) -> str | None:
    """Judge ``--numa-bind-nodes`` (vLLM) and ``--numa-node`` (SGLang): one node for each visible GPU."""
    own = command.words.starting("--numa")
    if binding.spans and command.words.has("--no-numa-bind"):
        raise PlacementError("the command says --no-numa-bind, and GPUs on several nodes need --numa-bind: remove it")
    if not own:
        return None
    option = "--numa-bind-nodes" if command.engine == "vllm" else "--numa-node"
    alone = {option} if command.engine == "sglang" else {option, "--numa-bind"}
    wanted = tuple(str(rank.mems[0]) for rank in binding.ranks if rank.mems == rank.nodes and len(rank.mems) == 1)
    plain = binding.whole_nodes and binding.limits_cpus and binding.policy != "interleave"
    if plain and set(own) == alone and wanted == command.words.words(option) and len(wanted) == len(binding.ranks):
        return f"the command already binds its workers this way ({option}): its words are kept, nothing is added"
    title = TITLES[command.engine]
    raise PlacementError(f"the command already tells {title} how to bind ({', '.join(own)}): remove these options")


def _torchrun(command: EngineCommand, binding: Binding) -> str | None:
    mode = command.words.value("--numa-binding")
    if mode is None:
        return None
    if mode != "node" or binding.arm == "far" or binding.assumed:
        raise PlacementError(f"the command already has --numa-binding={mode}: remove it")
    if binding.spans and binding.limits_cpus and binding.policy != "interleave":
        return "the command already binds its workers' CPUs (--numa-binding=node): its words are kept, nothing is added"
    return None


def _refuse_llama(command: EngineCommand) -> None:
    for mode in (command.words.value("--numa"), command.prefix.environment.get("LLAMA_ARG_NUMA")):
        if mode not in (None, "numactl"):
            raise PlacementError(f"llama.cpp is told to place threads itself (--numa {mode}): remove it")


def _refuse_mpirun(command: EngineCommand) -> None:
    before = command.argv[command.prefix.program : command.program]
    for option, value in pairwise(before):
        if option in ("--bind-to", "-bind-to") and value != "none":
            raise PlacementError(f"{option} {value} binds each rank to CPUs of its own choice: write {option} none")
