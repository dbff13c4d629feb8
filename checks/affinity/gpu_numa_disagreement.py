from collections.abc import Iterable, Iterator

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.diagnosis.disagreements import placements, quoted
from hostdoctor.diagnosis.paths import Tree, is_c2c, overstepped
from hostdoctor.diagnosis.subjects import FAR_NODE_EFFECT, brief, gpu_labels, positions, sysfs
from hostdoctor.facts import Gpu, Host


@check("HD102", "gpu-numa-disagreement", "warning", needs=(needs.gpus,))
def gpu_numa_disagreement(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs that sources place differently, and links whose own registers contradict each other.

    ## What it checks
    NUMA nodes and CPU lists of each GPU in scope from sysfs, NVML and `nvidia-smi topo -m`; CPU lists count only where
    they differ on CPUs that are online and allowed. On bare metal also, as information, ports on the GPU's path whose
    maximal link width or speed is below the current one. GPUs joined chip to chip (Grace, GB10) are not judged.

    ## Why it matters
    One of the sources is wrong, and whatever reads that one binds to the wrong socket. A maximum below the current
    value makes every statement about that link a guess.

    ## Remedy
    Trust sysfs first, then compare copy bandwidth bound to each node before binding. Update firmware and driver.

    ## References
    - https://docs.kernel.org/admin-guide/abi-testing.html (sysfs-bus-pci)
    - https://github.com/open-mpi/hwloc/issues/761
    """
    scope = [i for i in positions(host, ask) if not is_c2c(host.gpus[i])]
    differing = {i: found for i in scope if (found := placements(host, i))}
    labels = gpu_labels(host, (host.gpus[i] for i in differing))
    if labels:
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: sources disagree on the NUMA node or the CPUs",
            "warning",
            evidence=[pair for i, found in differing.items() for d in found for pair in quoted(host, i, d)],
            effect=FAR_NODE_EFFECT,
            remedy=Remedy(
                text="Compare copy bandwidth bound to each node (numactl), bind by that; update firmware and driver.",
                risk="reboot",
                undo="None needed.",
                verify="hostdoctor check --select HD102 finds nothing.",
            ),
        )
    if not host.system.virtualization:
        yield from _contradictions(host, [host.gpus[i] for i in scope])


def _contradictions(host: Host, scope: list[Gpu]) -> Iterator[Finding]:
    """Yield one finding per kind of contradiction: like functions of a board state the same wrong maximum."""
    tree = Tree(host)
    alike: dict[tuple[object, ...], dict[str, list[Gpu]]] = {}
    for gpu in scope:
        for bdf in (*tree.upstream(gpu), gpu.bdf or ""):
            if (exceeded := overstepped(tree.link_at(bdf))) and not tree.is_virtual(bdf):
                alike.setdefault((tree.ids(bdf), exceeded), {}).setdefault(bdf, []).append(gpu)
    for functions in alike.values():
        first, *others = functions
        labels = list(dict.fromkeys(gpu_labels(host, (gpu for gpus in functions.values() for gpu in gpus))))
        exceeded = overstepped(tree.link_at(first))
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: link of {first}{f' and {len(others)} like it' if others else ''} runs above its stated"
            f" maximum ({', '.join(f'{now:g} of {most:g} {unit}' for _, now, most, unit in exceeded)})",
            "info",
            evidence=[
                (sysfs(bdf, f"{kind}_link_{name}"), f"{value:g} {unit}")
                for bdf in functions
                for name, now, most, unit in exceeded
                for kind, value in (("current", now), ("max", most))
            ],
            effect="effect unknown: one of the two registers is wrong",
            remedy=Remedy(
                text="Do not rely on this stated maximum; if measured copies are as fast as the others, all is well.",
                undo="None needed.",
                verify=f"lspci -vv -s {first} as root shows LnkSta within LnkCap.",
            ),
        )
