from collections.abc import Iterable
from itertools import combinations

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.diagnosis.engines import Engine, bound_engines, shared_by_design
from hostdoctor.facts import Host
from hostdoctor.parsers.cpulist import format_cpulist


@check("HD118", "engines-share-cores", "warning", needs=(needs.live,))
def engines_share_cores(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find engines that are bound to the same CPUs.

    ## What it checks
    On the running host: whether the CPU sets of two programs that use GPUs overlap, where both are bound to less than
    all CPUs. The workers of one program count as one. Sets that are whole NUMA nodes are meant to be shared: they are
    judged only when they hold fewer cores than the engines need together (2, and 1 for each GPU).

    ## Why it matters
    Each engine has threads that poll or launch kernels without pause: where two of them meet on a core, one waits for
    a whole scheduler slice, and so does its GPU.

    ## Remedy
    Give each engine cores of its own, on its GPUs' node.

    ## References
    - https://docs.vllm.ai/en/latest/configuration/optimization.html (CPU resources)
    """
    engines = bound_engines(host)
    if not engines:
        yield Skip(kind="not-applicable", reason="no process that uses a GPU is bound to CPUs")
        return
    pairs = [(a, b) for a, b in combinations(engines, 2) if a.cpus & b.cpus and not shared_by_design(host, a, b)]
    for group in _by_cpus(pairs):
        both = sorted({engine.label for pair in group for engine in pair})
        cpus = format_cpulist(group[0][0].cpus & group[0][1].cpus)
        seen = {engine.label: engine for pair in group for engine in pair}
        yield finding(
            ", ".join(both),
            f"{len(both)} engines are bound to the same CPUs {cpus}: {', '.join(both)}",
            "warning",
            evidence=[
                (f"/proc/{engine.workers[0].pid}/status Cpus_allowed_list", format_cpulist(engine.cpus))
                for _, engine in sorted(seen.items())
            ],
            effect="effect unknown: threads that poll take turns on a core",
            remedy=Remedy(
                text="Bind each engine to cores of its own on its GPUs' node (numactl --physcpubind, or its unit's"
                " AllowedCPUs=), at least 2 and one for each GPU.",
                risk="restart",
                scope="process",
                undo="Start the engines with their former CPU sets.",
                verify="hostdoctor check --select HD118 finds nothing.",
            ),
        )


def _by_cpus(pairs: list[tuple[Engine, Engine]]) -> list[list[tuple[Engine, Engine]]]:
    """Group pairs that meet on the same CPUs: one cause is one finding."""
    groups: dict[frozenset[int], list[tuple[Engine, Engine]]] = {}
    for a, b in pairs:
        groups.setdefault(a.cpus & b.cpus, []).append((a, b))
    return list(groups.values())
