"""The engines among the processes that use GPUs, and the CPUs that each is bound to."""

from hostdoctor.diagnosis.subjects import cpuset, online_cpus
from hostdoctor.facts import Fact, Host, Process
from hostdoctor.facts.processes import is_monitor

ISOLATED = ("cpu.isolated", "cpu.nohz_full")  # `hostdoctor run` leaves them out of a node
CORES_EACH = 2  # with one more for each GPU: the documented minimum of vLLM, as HD115 has it


class Engine(Fact, frozen=True, kw_only=True):
    """A program with all of its workers that use GPUs; ``cpus`` are those its bound workers may run on."""

    pid: int
    workers: tuple[Process, ...]
    cpus: frozenset[int]

    @property
    def label(self) -> str:
        """What a person calls it: the name and PID of its first worker."""
        return f"{self.workers[0].name or 'process'} {self.workers[0].pid}"

    @property
    def gpus(self) -> frozenset[int]:
        """The driver's indices of its GPUs."""
        return frozenset(index for worker in self.workers for index in worker.gpus)


def bound_engines(host: Host) -> tuple[Engine, ...]:
    """Return the engines with a worker that may use less than the CPUs that the caller may, in order of PID."""
    online = online_cpus(host)
    allowed = cpuset(host.allowed.cpus) or online or frozenset()
    everywhere = allowed & online if online else allowed
    groups: dict[int, list[Process]] = {}
    for process in host.processes:
        if not is_monitor(process):
            groups.setdefault(process.engine_pid or process.pid, []).append(process)
    engines = []
    for pid, workers in sorted(groups.items()):
        sets = (cpuset(worker.cpus) or everywhere for worker in workers)
        bound = frozenset().union(*(cpus for cpus in sets if not everywhere <= cpus))
        if bound:
            engines.append(Engine(pid=pid, workers=tuple(workers), cpus=bound))
    return tuple(engines)


def shared_by_design(host: Host, a: Engine, b: Engine) -> bool:
    """Tell whether two engines are bound to whole nodes, or share their pods' pool, with cores enough for both.

    A node is whole with or without its isolated CPUs.
    """
    pooled = a.cpus == b.cpus and all("kubepods" in (engine.workers[0].cgroup or "") for engine in (a, b))
    if not pooled and not (_is_whole_nodes(host, a.cpus) and _is_whole_nodes(host, b.cpus)):
        return False
    needed = sum(CORES_EACH + len(engine.gpus) for engine in (a, b))
    return _cores(host, a.cpus | b.cpus) >= needed


def _is_whole_nodes(host: Host, cpus: frozenset[int]) -> bool:
    allowed = cpuset(host.allowed.cpus)
    isolated = frozenset[int]().union(*(cpuset(host.settings.get(name)) or () for name in ISOLATED))
    sets = [cpuset(node.cpus) or frozenset() for node in host.numa_nodes]
    usable = [own & allowed if allowed else own for own in sets]
    return bool(usable) and all(own - isolated <= cpus or not own & cpus for own in usable)


def _cores(host: Host, cpus: frozenset[int]) -> int:
    """Count physical cores; where cores are not known, two CPUs are taken for one."""
    if not host.cores:
        return len(cpus) // 2
    return sum(bool((cpuset(core.cpus) or frozenset()) & cpus) for core in host.cores)
