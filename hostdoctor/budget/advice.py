"""What is to be said of a budget: a plan that does not fit, a node that binding would fill, two kinds of offload."""

from collections.abc import Iterable, Iterator

from hostdoctor.budget.available import node_available
from hostdoctor.budget.fit import Fit, Largest, Shortage
from hostdoctor.budget.pinned import Budget, NodeBudget
from hostdoctor.budget.ranks import Wish
from hostdoctor.diagnosis.api import finding
from hostdoctor.diagnosis.report import Finding, Remedy
from hostdoctor.facts import Host

GIB = 1 << 30
MOST_OF_A_NODE = 0.8
TOTALS_AGREE = 0.02


def advise(host: Host, budget: Budget, wish: Wish, fit: Fit, largest: Largest, notes: Iterable[str]) -> list[Finding]:
    """Return the findings, the gravest first."""
    found = [_short(wish, shortage, largest) for shortage in fit.shortages]
    found += _near_full(host, budget)
    found += _most_of_a_node(budget)
    found += _both(wish)
    found += _totals_differ(host)
    found += [_note(text) for text in notes]
    return found


def size_words(size: int) -> str:
    """Return a size in GiB with what matters of its digits."""
    return f"{size / GIB:.1f} GiB" if size >= GIB // 10 or not size else f"{size / (1 << 20):.1f} MiB"


def whole_tenths(size: int) -> str:
    """Return a size in GiB, rounded down to a tenth, so that what is stated fits."""
    tenths = size * 10 // GIB
    return f"{tenths // 10}.{tenths % 10}"


def _short(wish: Wish, shortage: Shortage, largest: Largest) -> Finding:
    planned, room = size_words(shortage.planned_bytes), size_words(shortage.room_bytes)
    return finding(
        shortage.where,
        f"{shortage.where}: {planned} planned, {room} may be pinned ({shortage.bound_by}):"
        f" {size_words(shortage.missing_bytes)} too much",
        "critical",
        evidence=[(shortage.source, f"{shortage.room_bytes} bytes left for pinning")],
        effect="reclaim stalls, then the out-of-memory killer; pinned pages cannot be swapped or moved",
        remedy=Remedy(
            text=_largest(wish, largest),
            risk="restart",
            scope="process",
            undo="Go back to the former sizes.",
            verify="hostdoctor budget with the smaller sizes exits 0.",
        ),
    )


def _largest(wish: Wish, largest: Largest) -> str:
    """Say what fits, for each of the two kinds that is planned."""
    found = []
    if wish.kv_bytes and largest.kv_offload_bytes is not None:
        beside = " beside these weights" if wish.weights_bytes else ""
        found.append(_at_most("--kv-offload-gib", largest.kv_offload_bytes, beside))
    if wish.weights_bytes and largest.cpu_offload_bytes is not None:
        beside = " beside this KV pool" if wish.kv_bytes else ""
        found.append(_at_most("--cpu-offload-gib", largest.cpu_offload_bytes, beside))
    text = "; ".join(found) or "plan less: the largest that fits cannot be told"
    return f"{text[0].upper()}{text[1:]}."


def _at_most(option: str, size: int, beside: str) -> str:
    if size * 10 < GIB:
        return f"nothing fits{beside} by {option}"
    return f"the largest that fits{beside} is {option} {whole_tenths(size)}"


def _near_full(host: Host, budget: Budget) -> Iterator[Finding]:
    """Warn of a node that a bound process would run out of while others have memory."""
    used = {rank.node for rank in budget.ranks}
    for node in budget.nodes:
        left = _left(host, node) if node.id in used else None
        others = [n for n in budget.nodes if n.id != node.id and (n.available_bytes or 0) > n.reserve_bytes]
        if left is None or not others or left >= node.reserve_bytes:
            continue
        yield finding(
            f"node {node.id}",
            f"node {node.id}: {size_words(max(0, left))} would be left of {size_words(node.available_bytes or 0)}"
            f" available: with --membind={node.id} a process is killed there while other nodes have memory",
            "warning",
            evidence=[(f"node {node.id}, MemAvailable by the kernel's rule", f"{node.available_bytes} bytes")],
            effect="oom-kill with constraint=CONSTRAINT_MEMORY_POLICY, with free memory on other nodes",
            remedy=Remedy(
                text=f"For a service use --preferred={node.id} instead of --membind={node.id}: it spills over.",
                risk="none",
                scope="process",
                undo="Bind again.",
                verify="numastat -p PID shows where the memory went.",
            ),
        )


def _left(host: Host, node: NodeBudget) -> int | None:
    """Return what would be left on a node that ranks use, None while it is unknown."""
    if node.growth_bytes is None or node.weights_bytes is None or node.kv_bytes is None:
        return None
    facts = next(n for n in host.numa_nodes if n.id == node.id)
    pinnable = node_available(facts).pinnable_bytes
    return None if pinnable is None else pinnable - node.growth_bytes - node.weights_bytes - node.kv_bytes


def _most_of_a_node(budget: Budget) -> Iterator[Finding]:
    for node in budget.nodes:
        planned = (node.weights_bytes or 0) + (node.kv_bytes or 0)
        if node.memory_bytes and planned > MOST_OF_A_NODE * node.memory_bytes:
            yield finding(
                f"node {node.id}",
                f"node {node.id}: {planned / node.memory_bytes:.0%} of its memory would be pinned",
                "warning",
                evidence=[(f"/sys/devices/system/node/node{node.id}/meminfo MemTotal", f"{node.memory_bytes} bytes")],
                effect="the page cache and everything else on the node live in what is left",
                remedy=Remedy(
                    text="Pin less than 80 % of a node.",
                    scope="process",
                    undo="Go back to the former sizes.",
                    verify="hostdoctor budget no longer says so.",
                ),
            )


def _both(wish: Wish) -> Iterator[Finding]:
    if wish.weights_bytes and wish.kv_bytes:
        yield finding(
            "host",
            "Weights and KV cache are both offloaded: they share the same links and memory, keep their limits apart",
            "warning",
            evidence=[("--cpu-offload-gib, --kv-offload-gib", f"{wish.weights_bytes} a rank, {wish.kv_bytes} in all")],
            effect="weights are read on every forward pass (TPOT, ITL), KV after a miss (TTFT): they delay each other",
            remedy=Remedy(
                text="Measure each alone first; offload weights for a small shortfall only.",
                risk="restart",
                scope="process",
                undo="Take one of the two out again.",
                verify="p99 TTFT and ITL of the two runs.",
            ),
        )


def _totals_differ(host: Host) -> Iterator[Finding]:
    """Tell where the kernel counts memory that no node has: only the nodes' is budgeted."""
    total, nodes = host.memory.total_bytes, [node.memory_bytes for node in host.numa_nodes]
    if total is None or not nodes or None in nodes or abs(total - sum(n or 0 for n in nodes)) <= TOTALS_AGREE * total:
        return
    together = sum(n or 0 for n in nodes)
    yield finding(
        "host",
        f"MemTotal is {size_words(total)}, the nodes have {size_words(together)} together: only theirs is budgeted",
        "info",
        evidence=[("/proc/meminfo MemTotal", f"{total} bytes"), ("nodeN/meminfo MemTotal", f"{together} bytes")],
        effect="memory that no node shows may come and go (ballooning), or the view is a container's own",
        remedy=Remedy(text="Nothing to do.", undo="None needed.", verify="grep MemTotal /proc/meminfo"),
    )


def _note(text: str) -> Finding:
    return finding(
        "plan",
        text,
        "info",
        evidence=[("command line", text)],
        effect="the figures rest on it",
        remedy=Remedy(text="State it to be exact.", scope="process", undo="None needed.", verify="hostdoctor budget"),
    )
