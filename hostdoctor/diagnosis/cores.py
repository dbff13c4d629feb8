"""Physical cores: how many a set of CPUs has, how many an engine needs, which CPUs are second hardware threads."""

from hostdoctor.diagnosis.subjects import cpuset
from hostdoctor.facts import Host

CORES_BESIDE_WORKERS = 2  # vLLM's documented minimum: the API server and the engine core


def wanted_cores(gpus: int, extra_processes: int = 0) -> int:
    """Return how many physical cores an engine wants: one a GPU, two more, and one a further server or engine."""
    return CORES_BESIDE_WORKERS + gpus + extra_processes


def core_threads(host: Host) -> tuple[frozenset[int], ...]:
    """Return the hardware threads of every physical core; ``()`` when not known."""
    return tuple(cpuset(core.cpus) or frozenset() for core in host.cores)


def count_cores(host: Host, cpus: frozenset[int] | None) -> int:
    """Return how many physical cores have at least one of the CPUs (None: any); 0 when cores are not known."""
    return sum(1 for threads in core_threads(host) if cpus is None or threads & cpus)


def second_threads(host: Host, cpus: frozenset[int]) -> frozenset[int]:
    """Return those of the CPUs whose core has a lower one among them."""
    return frozenset(cpu for threads in core_threads(host) for cpu in sorted(threads & cpus)[1:])
