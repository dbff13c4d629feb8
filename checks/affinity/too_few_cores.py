from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.cores import count_cores, wanted_cores
from hostdoctor.diagnosis.subjects import cpuset, gpu_labels
from hostdoctor.facts import Host


@check("HD115", "too-few-cores", "warning", needs=(needs.gpus,))
def too_few_cores(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find callers with fewer physical cores than an engine on their GPUs needs.

    ## What it checks
    Physical cores with at least one allowed CPU against 2 + the GPUs in scope, vLLM's documented minimum: the API
    server, the engine core and one worker a GPU. Two hardware threads are one core.

    ## Why it matters
    These processes busy-wait. On shared cores they take turns, and the GPUs wait for their launches: latency tails
    first, throughput next.

    ## Remedy
    Raise the container's CPU request or the CPU set, or use fewer GPUs in it.

    ## References
    - https://docs.vllm.ai/en/latest/configuration/optimization.html (CPU resources)
    """
    allowed = cpuset(host.allowed.cpus)
    gpus = in_scope(host, ask)
    wanted = wanted_cores(len(gpus))
    usable = count_cores(host, allowed)
    # Without the allowed CPUs all cores are an upper bound: too few is certain, enough is not.
    if not usable or (allowed is None and usable >= wanted):
        missing = "the physical cores are" if not usable else "the allowed CPUs are"
        yield Skip(kind="no-evidence", reason=f"{missing} not known")
        return
    if usable >= wanted:
        return
    yield finding(
        ", ".join(gpu_labels(host, gpus)),
        f"{usable} physical core{'s' if usable > 1 else ''} for {len(gpus)} GPU{'s' if len(gpus) > 1 else ''};"
        f" vLLM needs {wanted} or more (2 + GPUs)",
        "warning",
        evidence=[
            ("/proc/self/status Cpus_allowed_list", host.allowed.cpus or "not told"),
            ("/sys/devices/system/cpu/cpu*/topology/thread_siblings_list", f"{usable} cores"),
        ],
        effect="effect unknown: busy-waiting processes take turns on a core",
        remedy=Remedy(
            text=f"Give the process {wanted} physical cores or more (CPU request, CPU set), or fewer GPUs.",
            risk="restart",
            scope="process",
            undo="Restore the former CPU request.",
            verify="grep Cpus_allowed_list /proc/self/status",
        ),
    )
