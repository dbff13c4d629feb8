"""What ``report`` adds to a verdict: launch wrappers for the sets of GPUs, and how the page came to be."""

import datetime
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostdoctor.cli.placing import Wish, place, warnings_of
from hostdoctor.diagnosis import Ask, in_scope
from hostdoctor.errors import HostdoctorError
from hostdoctor.facts import Gpu, Host
from hostdoctor.sources.base import Source

if TYPE_CHECKING:
    from hostdoctor.outputs.page.model import About, Wrapper
    from hostdoctor.sources.commands import Running
    from hostdoctor.sources.cpu import CpuDescription

STAND_IN = ["vllm", "serve", "MODEL"]
# Those that inference on CPUs and compression care for, in py-cpuinfo's spelling.
INSTRUCTIONS: tuple[str, ...] = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "bf16", "i8mm", "svebf16"),
)


def gpu_sets(host: Host, ask: Ask) -> Iterator[tuple[str, tuple[Gpu, ...]]]:
    """Yield the sets of GPUs that somebody may start a command on: those of each node, then all."""
    from hostdoctor.diagnosis.subjects import near_nodes

    scope = in_scope(host, ask)
    by_nodes: dict[tuple[int, ...], list[Gpu]] = {}
    for gpu in scope:
        by_nodes.setdefault(near_nodes(gpu), []).append(gpu)
    if len(by_nodes) > 1:
        for nodes, gpus in sorted(by_nodes.items()):
            known = f"NUMA node {', '.join(map(str, nodes))}" if nodes else "a NUMA node that is not known"
            yield f"The GPUs of {known}", tuple(gpus)
    if scope:
        yield "All GPUs" if ask.gpus is None else "The GPUs that were asked for", scope


def wrapper_of(
    source: Source,
    host: Host,
    title: str,
    gpus: tuple[Gpu, ...],
    command: list[str] | None,
    version: str,
    limit_s: float,
) -> "Wrapper":
    """Return how the command is started on these GPUs, or why it cannot be bound."""
    from hostdoctor import __version__
    from hostdoctor.diagnosis.subjects import brief, gpu_labels
    from hostdoctor.outputs.page.model import Wrapper
    from hostdoctor.placement.emitting import Made, render

    names = [str(gpu.index) if gpu.index is not None else gpu.bdf or gpu.uuid or "" for gpu in gpus]
    labels = brief(gpu_labels(host, gpus))
    argv = command or [*STAND_IN, "--tensor-parallel-size", str(len(gpus))]
    made = Made(host=host.system.hostname, version=__version__, time=_now())
    named = f"{title} ({labels})"
    try:
        launch = place(source, host, Wish(gpus=",".join(names), engine_version=version), argv, limit_s)
        line = render(launch, "args", made=made)
        script = render(launch, "shell", made=made)
    except HostdoctorError as error:
        return Wrapper(title=named, gpus=labels, reason=str(error))
    line, script = (text.encode("utf-8", "replace").decode() for text in (line, script))
    return Wrapper(title=named, gpus=labels, line=line.rstrip("\n"), script=script, warnings=tuple(warnings_of(launch)))


def cpu_of(source: Source, running: "Running | None") -> "CpuDescription | None":
    """Return what py-cpuinfo says of the host's CPU: of this machine's, or what a capture keeps of that."""
    from hostdoctor.sources.cpu import CpuDescription, captured_cpu, cpu_output

    told = captured_cpu(source) if running is None else cpu_output(running.wait())
    return told if isinstance(told, CpuDescription) else None


def about(host: Host | None, cpu: "CpuDescription | None" = None) -> "About":
    """Return how the report comes to be: now, of which versions, by which command."""
    import platform

    from hostdoctor import __version__
    from hostdoctor.outputs.page.model import About

    versions = {"hostdoctor": __version__, "Python": platform.python_version()}
    if host is not None:
        told = host.system
        named = {
            "Linux": told.kernel,
            "CPU": told.cpu_model,
            "NVIDIA driver": told.nvidia_driver,
            "Architecture": told.architecture,
        }
        flags = [flag for flag in INSTRUCTIONS if cpu is not None and flag in cpu.flags]
        named["CPU instructions"] = ", ".join(flags) or None
        versions |= {name: value for name, value in named.items() if value}
    return About(made_at=_now(), versions=versions, commands=(shlex.join(["hostdoctor", *sys.argv[1:]]), *_again(host)))


def _again(host: Host | None) -> Iterator[str]:
    """Yield the command that keeps what a live report was made of."""
    if host is not None and host.is_live:
        yield "hostdoctor capture -o host.tar.gz"
        yield "hostdoctor report --from host.tar.gz -o report.html"


def _now() -> str:
    return datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
