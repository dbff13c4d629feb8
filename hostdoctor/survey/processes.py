"""Running processes: which use a GPU, what each may use, and which files can tell where its memory is.

Nothing here reads ``numa_maps``; :mod:`hostdoctor.survey.process_memory` does, when it is asked to.
"""

from collections.abc import Iterable, Mapping

from hostdoctor.errors import ParseError
from hostdoctor.facts import Gap, GapKind, MemorySource, Process
from hostdoctor.parsers.nvml import parse_nvml
from hostdoctor.parsers.proc_pid import ProcessStat, parse_stat, parse_status
from hostdoctor.sources.base import Source
from hostdoctor.survey.cgroups import MOUNT
from hostdoctor.survey.values import cpulist, integer

GIB = 1 << 30
CHECK_LIMIT_BYTES = 8 * GIB
PS_LIMIT_BYTES = 64 * GIB
_HINTS = {
    0: "the agent never reads it",
    CHECK_LIMIT_BYTES: "`hostdoctor ps` reads it",
    PS_LIMIT_BYTES: "--deep reads it all the same",
}
MAX_PROCESSES = 1024
MAX_ANCESTORS = 64
MAX_OPEN_FILES = 4096
ENDED = frozenset({"Z", "X"})  # states of a process that has ended
# The PID namespace of the machine itself: PROC_PID_INIT_INO.
_OWN_NAMESPACE = "/pid:[4026531836]"
_GPU_FILES = ("/dev/nvidia", "/dev/dxg")
# What starts services and is no part of them. The kernel keeps 15 characters of a name.
SUPERVISORS = frozenset(
    (
        "systemd", "init", "(sd-pam)", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "s6-supervise",
        "runsv", "runsvdir", "supervisord", "containerd-shim", "conmon", "runc", "crun", "dockerd", "containerd", "sh",
        "bash", "dash", "zsh", "fish", "ksh", "tcsh", "csh", "ash", "busybox", "login", "sshd", "sshd-session", "sudo",
        "su", "tmux", "tmux: server", "screen", "cron", "crond", "atd", "timeout", "nohup", "make", "slurmd", "kubelet",
    )
)  # fmt: skip


def gpu_users(source: Source) -> tuple[dict[int, tuple[int, ...]], tuple[Gap, ...]]:
    """Return the processes that use a GPU as the driver lists them: PIDs, and the driver's indices of their GPUs.

    In a container with PIDs of its own, one that the driver lists is believed only where it has a GPU's device open;
    the others are gaps.
    """
    users: dict[int, list[int]] = {}
    for gpu in parse_nvml(source.nvml().document).gpus:
        for pid in gpu.processes if gpu.index is not None else ():
            users.setdefault(pid, []).append(gpu.index or 0)
    listed = {pid: tuple(sorted(set(indices))) for pid, indices in sorted(users.items())}
    if not _is_alive(source) or (source.readlink("/proc/self/ns/pid") or _OWN_NAMESPACE).endswith(_OWN_NAMESPACE):
        return listed, ()
    known = {pid: gpus for pid, gpus in listed.items() if _has_gpu_open(source, pid)}
    reason = "the driver counts PIDs of another namespace than this container's"
    return known, tuple(_gap(pid, "", "NVML", reason) for pid in listed if pid not in known)


def _is_alive(source: Source) -> bool:
    """Tell whether processes run here now: no capture has any, nor keeps what is asked of them."""
    return source.read_lines("/proc/self/stat") is not None


def read_processes(
    source: Source, users: Mapping[int, tuple[int, ...]], limit_bytes: int | None
) -> tuple[tuple[Process, ...], tuple[Gap, ...]]:
    """Return the processes that are there, and a gap for each fact that could not be had.

    ``users`` are PIDs and the GPUs of each; ``limit_bytes`` is the largest resident size up to which ``numa_maps`` may
    be read (None: any). Where nothing runs (captures), nothing is returned.
    """
    if not _is_alive(source):
        return (), ()
    processes, gaps = [], []
    for pid, gpus in list(users.items())[:MAX_PROCESSES]:
        stat = read_stat(source, pid)
        if stat is None:
            gaps.append(_gap(pid, "", f"/proc/{pid}", "no such process, or hidden from this user", "missing"))
            continue
        process, more = _process(source, stat, gpus, limit_bytes)
        processes.append(process)
        gaps += more
    if len(users) > MAX_PROCESSES:
        reason = f"{len(users) - MAX_PROCESSES} more than hostdoctor looks at"
        gaps.append(Gap(fact="processes", source="NVML", reason=reason))
    return tuple(processes), tuple(gaps)


def read_stat(source: Source, pid: int) -> ProcessStat | None:
    """Return a process' ``stat``, None when it is not there or has ended."""
    try:
        stat = parse_stat(source.read(f"/proc/{pid}/stat") or "")
    except ParseError:
        return None
    return None if stat.state in ENDED else stat


def _process(
    source: Source, stat: ProcessStat, gpus: tuple[int, ...], limit_bytes: int | None
) -> tuple[Process, tuple[Gap, ...]]:
    pid = stat.pid
    status = parse_status(source.read(f"/proc/{pid}/status") or "")
    rss_bytes = _bytes(status, "VmRSS")
    cgroup = _cgroup(source, pid)
    memory_source, gaps = _memory_source(source, pid, rss_bytes, cgroup, limit_bytes)
    own_pid = integer((status.get("NSpid") or "").split()[-1:][0]) if status.get("NSpid") else None
    process = Process(
        pid=pid,
        name=stat.name,
        gpus=gpus,
        container_pid=None if own_pid == pid else own_pid,
        user_id=integer((status.get("Uid") or "").partition("\t")[0]),
        start_ticks=stat.start_ticks,
        engine_pid=_engine(source, stat),
        cpus=cpulist(status.get("Cpus_allowed_list")),
        mems=cpulist(status.get("Mems_allowed_list")),
        threads=stat.threads,
        rss_bytes=rss_bytes,
        rss_shared_bytes=_bytes(status, "RssShmem"),
        pinned_bytes=_bytes(status, "VmPin"),
        locked_bytes=_bytes(status, "VmLck"),
        cgroup=cgroup,
        memory_source=memory_source,
    )
    return process, gaps


def _memory_source(
    source: Source, pid: int, rss_bytes: int | None, cgroup: str | None, limit_bytes: int | None
) -> tuple[MemorySource | None, tuple[Gap, ...]]:
    """Return which file may tell where the memory is, or the reason why none may."""
    path = f"/proc/{pid}/numa_maps"
    kind: GapKind = "not-told"
    if rss_bytes is None:
        return None, (_gap(pid, ".memory", f"/proc/{pid}/status", "no VmRSS: a kernel thread, or it is ending"),)
    if source.readlink(f"/proc/{pid}/exe") is None:  # asks for the same right as numa_maps, and costs nothing
        kind, reason = "denied", "permission denied: only its user or root may see its memory"
    elif limit_bytes is None or rss_bytes <= limit_bytes:
        return "numa_maps", ()
    else:
        hint = _HINTS.get(limit_bytes, f"{limit_bytes >> 30} GiB are read")
        reason = f"{rss_bytes / GIB:.1f} GiB: reading it would stall the process ({hint})"
    if cgroup is not None and _is_alone(source, pid, cgroup):
        return "memory.numa_stat", ()
    return None, (_gap(pid, ".memory", path, f"{reason}, and its control group does not hold it alone", kind),)


def _is_alone(source: Source, pid: int, cgroup: str) -> bool:
    """Tell whether a version 2 group holds this process and nothing else, below it either."""
    folder = f"{MOUNT}{cgroup}".rstrip("/")
    if (source.read(f"{folder}/cgroup.procs") or "").split() != [str(pid)]:
        return False
    below = [name for name in source.listdir(folder) if source.listdir(f"{folder}/{name}")]
    return not below and source.read(f"{folder}/memory.numa_stat") is not None


def _cgroup(source: Source, pid: int) -> str | None:
    """Return the path of a process' version 2 group, None where there is none or another namespace holds it."""
    rows = (source.read(f"/proc/{pid}/cgroup") or "").splitlines()[:64]
    path = next((row[3:] for row in rows if row.startswith("0::/")), None)
    return None if path is None or ".." in path.split("/") else path


def _engine(source: Source, stat: ProcessStat) -> int:
    """Return the topmost ancestor that no shell or service manager is, the process itself where there is none."""
    seen = {stat.pid}
    while len(seen) < MAX_ANCESTORS and stat.parent_pid > 1 and stat.parent_pid not in seen:
        parent = read_stat(source, stat.parent_pid)
        if parent is None or parent.name in SUPERVISORS:
            break
        seen.add(parent.pid)
        stat = parent
    return stat.pid


def _has_gpu_open(source: Source, pid: int) -> bool:
    folder = f"/proc/{pid}/fd"
    links = (source.readlink(f"{folder}/{name}") or "" for name in source.listdir(folder)[:MAX_OPEN_FILES])
    return any(link.startswith(_GPU_FILES) for link in links)


def _bytes(status: Mapping[str, str], name: str) -> int | None:
    size, _, unit = status.get(name, "").partition(" ")
    kib = integer(size)
    return kib << 10 if kib is not None and unit == "kB" else None


def _gap(pid: int, fact: str, source: str, reason: str, kind: GapKind = "not-told") -> Gap:
    return Gap(fact=f"processes[{pid}]{fact}", source=source, reason=reason, kind=kind)


def users_of(users: Mapping[int, tuple[int, ...]], gpus: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return those of the processes that use one of these GPUs (the driver's indices)."""
    wanted = frozenset(gpus)
    return {pid: indices for pid, indices in users.items() if wanted & frozenset(indices)}
