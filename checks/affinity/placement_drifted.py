from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.facts import Host, PlacedBefore

FAR_APART = 0.10  # of the process' memory


@check("HD119", "placement-drifted", "warning", needs=(needs.several_cpu_nodes,))
def placement_drifted(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find engines whose memory lies on other nodes than before their last restart.

    ## What it checks
    The agent keeps the first split over the nodes of each service's or container's private and shared memory, taken
    when its GPU processes had run for ten minutes, and compares every later start with it: a node's part that differs
    by more than 10 percentage points is a warning. It reads `memory.numa_stat` of the control group, never
    `numa_maps`.

    ## Why it matters
    Memory lies where the thread ran that touched it first. A binding that was lost, or another service that filled the
    node before, shows after a restart only, as latency that nobody can explain.

    ## Remedy
    Look where it runs now (`hostdoctor ps`) and restart it bound to its GPUs' node.

    ## References
    - https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.numa_stat)
    - https://github.com/pytorch/pytorch/issues/160420
    """
    if not host.placed_before:
        yield Skip(kind="no-evidence", reason="no engine was seen before and after a restart: the agent remembers them")
    for placed in host.placed_before:
        worst = max((abs(placed.now.get(n, 0.0) - placed.before.get(n, 0.0)) for n in _nodes(placed)), default=0.0)
        if round(worst, 6) <= FAR_APART:
            continue
        name = f"{placed.names[0] if placed.names else 'process'} of {placed.unit}"
        now, before = _split(placed, placed.now), _split(placed, placed.before)
        yield finding(
            name,
            f"{name}: memory by node is {now}, before the restart {before}",
            "warning",
            evidence=[
                (placed.source, f"{now} of {placed.bytes} bytes"),
                (f"the same on {placed.since}", before),
            ],
            effect="effect unknown: compare its latency with that before the restart",
            remedy=Remedy(
                text="See where it runs (hostdoctor ps) and restart it bound to its GPUs' node (hostdoctor wrap);"
                " if the new split is meant: hostdoctor agent accept-baseline.",
                risk="restart",
                scope="process",
                undo="Start it as before.",
                verify="hostdoctor ps says ok.",
            ),
        )


def _nodes(placed: PlacedBefore) -> list[str]:
    return sorted({*placed.before, *placed.now}, key=int)


def _split(placed: PlacedBefore, shares: dict[str, float]) -> str:
    return ", ".join(f"node {node} {shares.get(node, 0.0):.0%}" for node in _nodes(placed))
