"""What ``wrap`` and ``run`` share: their options, and the way from a host and a command line to a Launch."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostdoctor.cli.common import some_gpus
from hostdoctor.facts import Fact, Host
from hostdoctor.placement.model import Arm, Launch, Selection
from hostdoctor.sources.base import Source

if TYPE_CHECKING:
    from hostdoctor.placement.engines import EngineCommand
    from hostdoctor.placement.versions import Version

_LARGEST_PART = 9999
_CUDA_S = 10.0
Policy = Literal["auto", "bind", "preferred", "interleave"]

GpusOption = Annotated[
    str,
    typer.Option(
        metavar="GPUS", callback=some_gpus, help="Which GPUs the command uses: indices, UUIDs, addresses, or all."
    ),
]
EngineOption = Annotated[
    str,
    typer.Option(metavar="NAME", help="vllm, sglang, tensorrt-llm, llama.cpp, torchrun or generic; told by COMMAND."),
]
EngineVersionOption = Annotated[
    str, typer.Option(metavar="VERSION", help="The engine's version; else the installed one is asked.")
]
PolicyOption = Annotated[
    Policy, typer.Option(help="For memory; auto binds it where the node has room, else only prefers the node.")
]
ArmOption = Annotated[Arm, typer.Option(help="The GPUs' own nodes, or the far ones (for comparisons).")]
AssumeNodeOption = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="The node of GPUs whose node nothing tells.")
]
IsolatedOption = Annotated[bool, typer.Option("--use-isolated", help="Also use CPUs that isolcpus or nohz_full name.")]
NicsOption = Annotated[
    bool | None,
    typer.Option("--nics/--no-nics", help="Name the nearest RDMA NICs to the engine; else only where it spans nodes."),
]
# After the first word everything is the command's.
COMMAND_LAST = {"allow_interspersed_args": False}
CommandArgument = Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="The command and its arguments.")]


class Wish(Fact, frozen=True, kw_only=True):
    """What the options asked for."""

    gpus: str = ""
    engine: str = ""
    engine_version: str = ""
    policy: Policy = "auto"
    arm: Arm = "near"
    assume_node: int | None = None
    use_isolated: bool = False
    nics: bool | None = None


def place(source: Source, host: Host, wish: Wish, argv: list[str], timeout_s: float) -> Launch:
    """Return how the command is started; raises UsageError, PlacementError or UnknownNodeError."""
    import msgspec

    from hostdoctor.placement.binding import bind
    from hostdoctor.placement.engine_version import installed_version
    from hostdoctor.placement.engines import recognise
    from hostdoctor.placement.launching import launch
    from hostdoctor.placement.selection import first_of, select
    from hostdoctor.placement.versions import asked_version

    visible = source.environ("CUDA_VISIBLE_DEVICES")
    command = recognise(argv, wish.engine or None)
    selection = select(
        host,
        wish.gpus,
        environ_devices=visible,
        environ_order=source.environ("CUDA_DEVICE_ORDER"),
    )
    if visible is not None and not wish.gpus.strip():  # said again, as a wrapper is started from another environment
        selection = msgspec.structs.replace(selection, visible_devices=visible)
    if not wish.gpus and command.gpus_used is not None:
        selection = first_of(host, selection, command.gpus_used, command.engine)
    version = asked_version(wish.engine_version) if wish.engine_version else None
    if version is None and source.is_live:
        version = installed_version(command, timeout_s)
    binding = bind(
        host,
        selection,
        policy=wish.policy,
        arm=wish.arm,
        assume_node=wish.assume_node,
        use_isolated=wish.use_isolated,
        extra_processes=max(0, (command.api_servers or 1) - 1) + max(0, (command.data_parallel or 1) - 1),
        fits=_fits(source, host, selection, command, version) if wish.policy == "auto" else {},
    )
    return launch(binding, command, version=version, nics=wish.nics)


def place_on_node(
    host: Host, node: int, argv: list[str], *, arm: Arm = "near", engine: str = "", use_isolated: bool = False
) -> Launch:
    """Return how a command without a GPU is started on one node; raises UsageError, PlacementError."""
    from msgspec import structs

    from hostdoctor.cli.common import FULL_TIMEOUT_S
    from hostdoctor.placement.engine_version import installed_version
    from hostdoctor.placement.engines import recognise
    from hostdoctor.placement.launching import launch
    from hostdoctor.placement.on_node import bind_to_node

    command = recognise(argv, engine or None)
    binding = bind_to_node(host, node, arm=arm, use_isolated=use_isolated)
    placed = launch(binding, command, version=installed_version(command, FULL_TIMEOUT_S), nics=False)
    return structs.replace(placed, warnings=binding.warnings)  # the others count GPUs, and none is meant


def versions_of(host: Host, launch: Launch) -> dict[str, str]:
    """Return the versions that a measurement depends on: driver, CUDA, kernel, engine."""
    return versions_with(host, launch.engine, launch.engine_version)


def versions_with(host: Host, engine: str, version: str | None) -> dict[str, str]:
    """Return the same for an engine that is not placed."""
    from hostdoctor.measure.cuda_version import installed_cuda

    system = host.system
    told = {
        "nvidia driver": system.nvidia_driver,
        "cuda driver": installed_cuda(_CUDA_S) if host.nvidia.state == "ok" else None,
        "kernel": system.kernel,
        engine if engine != "generic" else "engine": version,
    }
    return {name: value for name, value in told.items() if value}


def _fits(
    source: Source, host: Host, selection: Selection, command: "EngineCommand", version: "Version | None"
) -> dict[int, bool | None]:
    """Return which nodes have room for the command, by what its options and its engine are known to take."""
    from hostdoctor.budget.growth import ENGINES
    from hostdoctor.budget.room import nodes_with_room
    from hostdoctor.budget.whole import Request

    engine = next((name for name in ENGINES if name == command.engine), None)
    if engine is None:
        need = Request(positions=selection.gpus, growth_bytes=0)
        return nodes_with_room(source, host, need, need_known=False)
    used = command.gpus_used
    agreed = used is not None and used <= len(selection.gpus)
    need = Request(
        positions=selection.gpus[:used] if agreed else selection.gpus,
        engine=engine,
        engine_version=_plain(version),
        tp=command.tensor_parallel if agreed else None,
        pp=command.pipeline_parallel if agreed else None,
        dp=command.data_parallel if agreed else None,
        cpu_offload_gib=command.cpu_offload_gib_per_gpu or 0.0,
        kv_offload_gib=command.kv_offload_gib or 0.0,
        api_servers=command.api_servers or 1,
    )
    return nodes_with_room(source, host, need, need_known=agreed and command.memory_told)


def _plain(version: "Version | None") -> str:
    """Return a version as ``budget --engine-version`` takes it."""
    if version is None or max(version.release) > _LARGEST_PART:
        return ""
    return ".".join(map(str, (*version.release, 0)[:3]))


def warnings_of(launch: Launch) -> list[str]:
    """Return what the caller should know, each once."""
    return list(dict.fromkeys((*launch.binding.warnings, *launch.warnings)))
