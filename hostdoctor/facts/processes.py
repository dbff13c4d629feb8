"""Where a running process is: the CPUs that it may use, its threads, and its memory on each NUMA node."""

from typing import Literal

from hostdoctor.facts.base import Fact

# DCGM, the fabric manager, persistence and monitoring daemons: they use every GPU and move next to nothing.
_MONITORS = ("dcgm", "nv-hostengine", "nv-fabricmanage", "nvidia-persiste", "nvidia-smi", "nvsm", "gpud", "Xorg")

MemorySource = Literal["numa_maps", "memory.numa_stat"]


class ProcessMemory(Fact, frozen=True, kw_only=True):
    """A process' memory on one node. ``shared_bytes`` is shared memory, which CUDA's pinned buffers are too.

    ``anon_bytes`` is private memory (memory that was pinned after it was allocated stays among it), ``file_bytes`` is
    page cache of files that it maps.
    """

    node: int
    anon_bytes: int = 0
    shared_bytes: int = 0
    file_bytes: int = 0


class Process(Fact, frozen=True, kw_only=True):
    """A running process. ``gpus`` are the driver's indices of the GPUs that it uses.

    ``container_pid`` is its PID in its own PID namespace where that is another one. ``engine_pid`` is the topmost of
    its ancestors below a shell or service manager: the same for all workers of one engine. ``cpus`` and ``mems`` are
    ``Cpus_allowed_list`` and ``Mems_allowed_list``. ``threads_by_node`` counts threads by the node (``"0"``) of the
    CPU that each ran on last, ``{}`` when not asked. ``pinned_bytes`` is VmPin, which CUDA's pinned memory is not in.
    ``memory_source`` is what can tell ``memory``; None where nothing may, which leaves a gap. ``policies`` maps memory
    policies in the kernel's words (``bind:0``) to the bytes below them.
    """

    pid: int
    name: str | None = None
    gpus: tuple[int, ...] = ()
    container_pid: int | None = None
    user_id: int | None = None
    start_ticks: int | None = None
    engine_pid: int | None = None
    cpus: str | None = None
    mems: str | None = None
    threads: int | None = None
    threads_by_node: dict[str, int] = {}
    rss_bytes: int | None = None
    rss_shared_bytes: int | None = None
    pinned_bytes: int | None = None
    locked_bytes: int | None = None
    cgroup: str | None = None
    memory_source: MemorySource | None = None
    memory: tuple[ProcessMemory, ...] = ()
    policies: dict[str, int] = {}


def is_monitor(process: Process) -> bool:
    """Tell whether a process only watches GPUs, by its name (of which the kernel keeps 15 characters)."""
    return (process.name or "").startswith(_MONITORS)


def shared_counter(process: Process, node: int | str) -> str:
    """Return the name in ``Sample`` of a process' shared memory on a node, in bytes; with its start, as PIDs recur."""
    return f"process.{process.pid}.{process.start_ticks}.shared.{node}"
