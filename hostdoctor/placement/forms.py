"""What each form's template is given: the launch in that form's terms."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hostdoctor.errors import PlacementError
from hostdoctor.parsers.cpulist import count_cpulist, parse_cpulist
from hostdoctor.placement import quoting
from hostdoctor.placement.model import Binding, Launch, Rank
from hostdoctor.placement.nic_variables import NCCL
from hostdoctor.placement.tiers import Tier, ended, id_list, memory_option, rank_tiers, tiers

if TYPE_CHECKING:
    from hostdoctor.placement.emitting import Container, Form

Context = dict[str, Any]

VISIBLE = "CUDA_VISIBLE_DEVICES"
# Engines that start their workers under numactl.
_RUN_NUMACTL = frozenset({"vllm", "sglang", "torchrun"})
_UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+\Z")
_SYSTEMD_LINE = 1_000_000
_LABEL = re.compile(r"GPU([0-9]{1,4})\Z")


def shell(launch: Launch, _: "Container") -> Context:
    """Return the guard's ways and the command of a shell script; a case for each rank that has its own command."""
    last = len(launch.rank_commands) - 1
    return {
        "argv": launch.argv,
        "environment": sorted(launch.environment.items()),
        "place": _whole_place(launch),
        "ranks": [
            {
                "number": str(command.rank),
                "head": [f"{command.binding.gpu}: NUMA nodes {id_list(command.binding.nodes)}"],
                "environment": sorted(command.environment.items()),
                "place": _rank_place(launch, command.binding),
            }
            for command in launch.rank_commands
        ],
        "rank_message": f"no rank from 0 to {last}: set HOSTDOCTOR_RANK, or start it with torchrun, srun or mpirun",
    }


def args(launch: Launch, _: "Container") -> Context:
    """Return one command line, or one for each rank."""
    if launch.rank_commands:
        places = [(rank_tiers(launch.binding, c.binding), c.environment) for c in launch.rank_commands]
        return {"lines": [_line(launch, ways[0], launch.environment | own) for ways, own in places]}
    return {"lines": [_line(launch, tiers(launch.binding)[0] if launch.outer else None, launch.environment)]}


def systemd(launch: Launch, _: "Container") -> Context:
    """Return a drop-in's settings: NUMAPolicy=preferred takes one node."""
    _refuse_ranks(launch, "systemd", "a script (--as shell), started once for each rank,")
    if sum(len(quoting.systemd_word(word)) + 1 for word in launch.argv) > _SYSTEMD_LINE:
        raise PlacementError("the command is longer than a line of a systemd unit may be (1 MiB)")
    binding = launch.binding
    one = binding.policy == "preferred"
    return {
        "argv": launch.argv,
        "absolute": launch.argv[0].startswith("/"),
        "environment": sorted(launch.environment.items()),
        "outer": launch.outer,
        "cpus": _limited_cpus(binding),
        "mems": id_list(binding.mems),
        "mask": id_list(binding.mems[:1] if one else binding.mems),
        "first_of_many": one and len(binding.mems) > 1,
        "policy": binding.policy,
    }


def docker(launch: Launch, container: "Container") -> Context:
    """Return the options of ``docker run``: cpusets for what is to be hard, numactl inside for the rest."""
    binding = launch.binding
    hard = binding.policy == "bind"
    shared = _container(launch, container, memory_is_set=hard)
    if container.image and container.image.startswith("-"):
        raise PlacementError(f"{container.image!r}: not the name of an image")
    return shared | {
        "gpus": '"device=' + ",".join(shared["devices"]) + '"',
        "mems": id_list(binding.mems) if hard else "",
        "environment": [f"{name}={value}" for name, value in shared["environment"]],
    }


def compose(launch: Launch, container: "Container") -> Context:
    """Return a service: Compose has ``cpuset`` but nothing for memory nodes."""
    return _container(launch, container, memory_is_set=False)


def k8s(launch: Launch, container: "Container") -> Context:
    """Return a pod that the kubelet can bind. Raises PlacementError for what only a named node could be asked for."""
    _refuse_ranks(launch, "Kubernetes", "one pod for each rank")
    binding = launch.binding
    if binding.arm == "far":
        raise PlacementError("Kubernetes cannot be asked for the far node: the kubelet aligns CPUs with the GPUs")
    inner = memory_option("interleave", binding.mems) if launch.outer and binding.policy == "interleave" else ()
    return {
        "argv": _under(inner, launch.argv),
        "name": _service_name(launch),
        "image": container.image,
        "environment": sorted((n, v) for n, v in launch.environment.items() if n != VISIBLE),
        "spans": binding.spans,
        "rdma": NCCL in launch.environment,
        "own_nodes": bool(inner) or not launch.outer,
        "cpu_count": str(count_cpulist(binding.cpus)) if binding.cpus else None,
        "gpu_count": str(len(binding.selection.gpus)),
        "memory": f"{container.memory_gib}Gi" if container.memory_gib else None,
        "shm": f"{container.shm_gib}Gi" if container.shm_gib else None,
    }


def slurm(launch: Launch, _: "Container") -> Context:
    """Return a job of one task, bound as a whole or not at all, or of one task for each rank."""
    binding = launch.binding
    places = [c.binding for c in launch.rank_commands]
    inner = memory_option("interleave", binding.mems) if launch.outer and binding.policy == "interleave" else ()
    argv = _under(inner, launch.argv)
    return {
        "argv": ("--", *argv) if not places and argv[0].startswith("-") else argv,
        "environment": sorted((n, v) for n, v in launch.environment.items() if n != VISIBLE),
        "tasks": str(len(places) or 1),
        "gpu_count": str(len(binding.selection.gpus)),
        "unbound": not (launch.outer or places),
        "flags": _slurm_flags(launch, places),
        "rank_script": _rank_script(launch) if places else None,
    }


CONTEXTS: Mapping["Form", Callable[[Launch, "Container"], Context]] = {
    "shell": shell,
    "args": args,
    "systemd": systemd,
    "docker": docker,
    "compose": compose,
    "k8s": k8s,
    "slurm": slurm,
}


def _whole_place(launch: Launch) -> Context:
    binding = launch.binding
    place = _place(binding.nodes, binding.mems, binding.cpus, tiers(binding) if launch.outer else (), launch.argv[0])
    if launch.outer:
        return place
    mems = dict.fromkeys(rank.mems for rank in binding.ranks if rank.mems)
    runs_numactl = launch.engine in _RUN_NUMACTL
    return place | {
        "inner": f"{launch.engine} binds its own workers, nothing is bound around it",
        "outer_failed": f"what {launch.engine} can bind without it",
        "probes": [("numactl", *memory_option("bind", nodes)) for nodes in mems] if runs_numactl else [],
    }


def _rank_place(launch: Launch, rank: Rank) -> Context:
    return _place(rank.nodes, rank.mems, rank.cpus, rank_tiers(launch.binding, rank), launch.argv[0])


def _place(nodes: tuple[int, ...], mems: tuple[int, ...], cpus: str, ways: tuple[Tier, ...], command: str) -> Context:
    if command.startswith("-") and "=" in command:
        raise PlacementError(f"{command!r}: not a name that a shell can start")
    return {
        "nodes": list(map(str, nodes)),
        "all_nodes": list(map(str, dict.fromkeys((*nodes, *mems)))),
        "cpus": cpus,
        "tiers": [
            {
                "argv": way.argv,
                "before": ended(way.argv, command),
                "title": f"{way.name}: {' '.join(way.argv)}",
                "first": position == 0,
            }
            for position, way in enumerate(ways)
            if way.argv
        ],
        "probes": [],
        "inner": None,
        "outer_failed": None,
        "plain": ("env", "--") if command.startswith("-") else (),
    }


def _line(launch: Launch, way: Tier | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    before = ended(way.argv, launch.argv[0]) if way else ()
    if environment and not before and "=" in launch.argv[0]:
        raise PlacementError(f"{launch.argv[0]!r}: env would take it for a variable")
    variables = [f"{quoting.variable_name(name)}={value}" for name, value in sorted(environment.items())]
    ends_options = ("--",) if variables and not before and launch.argv[0].startswith("-") else ()
    return (*(("env", *ends_options) if variables else ()), *variables, *before, *launch.argv)


def _limited_cpus(binding: Binding) -> str:
    return binding.cpus if binding.limits_cpus else ""


def _container(launch: Launch, container: "Container", *, memory_is_set: bool) -> Context:
    """Return what docker and Compose share."""
    _refuse_ranks(launch, "one container", "one container for each rank (--gpus N)")
    devices = container.devices or _devices(launch)
    inner = () if memory_is_set else _inner_memory(launch)
    environment = _inside(launch.environment, devices)
    return {
        "argv": _under(inner, launch.argv),
        "inner": bool(inner),
        "name": _service_name(launch),
        "image": container.image,
        "devices": devices,
        "environment": sorted(environment.items()),
        "dropped": VISIBLE in launch.environment and VISIBLE not in environment,
        "rdma": NCCL in environment,
        "cpus": _limited_cpus(launch.binding),
        "shm": f"{container.shm_gib}g" if container.shm_gib else None,
    }


def _inner_memory(launch: Launch) -> tuple[str, ...]:
    """Return numactl's option for inside: threads that stay on a node prefer its memory without being told."""
    binding = launch.binding
    local = binding.policy == "preferred" and bool(_limited_cpus(binding)) and set(binding.mems) == set(binding.nodes)
    return memory_option(binding.policy, binding.mems) if launch.outer and not local else ()


def _under(options: tuple[str, ...], argv: tuple[str, ...]) -> tuple[str, ...]:
    return (*ended(("numactl", *options), argv[0]), *argv) if options else argv


def _devices(launch: Launch) -> tuple[str, ...]:
    """Return the GPUs as the container runtime names them."""
    selection = launch.binding.selection
    visible = launch.environment.get(VISIBLE, selection.visible_devices)
    named = tuple(part.strip() for part in visible.split(",")) if visible else selection.labels
    return tuple(map(_device, named))


def _device(name: str) -> str:
    label = _LABEL.match(name)
    if label:
        return label[1]
    if _UUID.match(name) or (name.isascii() and name.isdigit()):
        return name
    raise PlacementError(f"{name!r}: neither an index nor the UUID of a GPU")


def _inside(environment: Mapping[str, str], devices: tuple[str, ...]) -> dict[str, str]:
    """Return the variables as they are right in a container that sees only these GPUs.

    There they are counted from 0 in PCI order whatever order they were asked for in; UUIDs stay what they are.
    """
    inside = dict(environment)
    if VISIBLE not in inside:
        return inside
    if all(map(_UUID.match, devices)):
        return inside | {VISIBLE: ",".join(devices)}
    if not all(device.isdigit() for device in devices):
        raise PlacementError(f"GPUs by index and by UUID together ({', '.join(devices)}): name them all one way")
    order = sorted(devices, key=int)
    del inside[VISIBLE]
    if list(devices) != order:
        inside[VISIBLE] = ",".join(str(order.index(device)) for device in devices)
        inside["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return inside


def _service_name(launch: Launch) -> str:
    return launch.engine.replace(".", "-")


def _refuse_ranks(launch: Launch, form: str, instead: str) -> None:
    if launch.rank_commands:
        raise PlacementError(f"every rank has its own command, which {form} does not start: write {instead} instead")


def _slurm_flags(launch: Launch, ranks: list[Rank]) -> list[str]:
    binding = launch.binding
    if not (launch.outer or ranks):
        return ["--cpu-bind=none", "--mem-bind=none", "--gpu-bind=none"]
    cpus = [rank.cpus for rank in ranks] or [binding.cpus]
    mems = [rank.mems for rank in ranks] or [binding.mems]
    return [
        "--cpu-bind=" + (f"verbose,mask_cpu:{','.join(map(_mask, cpus))}" if _all_limited(binding, cpus) else "none"),
        "--mem-bind=" + (_slurm_memory(binding.policy, mems) if all(mems) else "none"),
        "--gpu-bind=" + ("none" if ranks else "closest"),
    ]


def _all_limited(binding: Binding, cpus: list[str]) -> bool:
    return binding.limits_cpus and all(cpus)


def _slurm_memory(policy: str, mems: list[tuple[int, ...]]) -> str:
    if policy == "interleave":
        return "none"
    prefer = "prefer," if policy == "preferred" else ""
    if all(len(nodes) == 1 for nodes in mems):
        return f"verbose,{prefer}map_mem:{','.join(str(nodes[0]) for nodes in mems)}"
    return f"verbose,{prefer}mask_mem:{','.join(hex(sum(1 << node for node in nodes)) for nodes in mems)}"


def _mask(cpus: str) -> str:
    return hex(sum(1 << cpu for cpu in parse_cpulist(cpus)))


def _rank_script(launch: Launch) -> str:
    """Return the shell text that sets a task's own variables; the job's GPUs are counted from 0, in its own order."""
    return "\n".join(_rank_lines(launch))


def _rank_lines(launch: Launch) -> Iterator[str]:
    yield 'case "$SLURM_LOCALID" in'
    for command in launch.rank_commands:
        yield f"{command.rank})"
        for name, value in sorted(command.environment.items()):
            counted = str(command.rank) if name == VISIBLE and not _UUID.match(value) else value
            yield f"export {quoting.variable_name(name)}={quoting.sh_word(counted)}"
        yield ";;"
    yield "esac"
    yield 'exec "$@"'
