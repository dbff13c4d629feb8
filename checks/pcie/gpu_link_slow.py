from collections.abc import Iterable, Iterator

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.paths import GENERATIONS, Tree, on_pcie, pcie_links, physical_ports
from hostdoctor.diagnosis.subjects import brief, gpu_labels, sysfs
from hostdoctor.diagnosis.under_load import measured_links, slow_while_copying
from hostdoctor.facts import Gpu, Host

Slow = tuple[str, str, float, float]  # where it was seen, and in how many readings, what runs, what both ends can do


@check("HD203", "gpu-link-slow", "warning", needs=(needs.gpus, physical_ports, pcie_links))
def gpu_link_slow(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find GPUs at full speed whose PCIe link runs a lower generation than both of its ends can.

    ## What it checks
    The generation of each link between a GPU in scope and the CPU against what both ends of the link can do: the
    fastest that was read while `hostdoctor measure copy` kept the link busy (`--measured FILE`); else, for GPUs that
    the driver says are in P0, the fastest P-state, what it read together with the P-state, and the links above. Links
    of idle GPUs slow down to save power, so those are skipped.

    ## Why it matters
    Each generation less halves every copy between host and GPU. A link that falls back under load often has a signal
    problem that gets worse.

    ## Remedy
    Reseat card, riser and cables; look for a speed limit in the BIOS and for correctable errors (HD210).

    ## References
    - https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html (nvmlDeviceGetCurrPcieLinkGeneration)
    - https://github.com/NVIDIA/NVSentinel/issues/890
    """
    tree = Tree(host)
    scope = on_pcie(host, in_scope(host, ask))
    measured = {gpu.bdf: found for gpu in scope if (found := measured_links(host, tree, gpu)) is not None}
    busy = [gpu for gpu in scope if gpu.bdf in measured or gpu.pstate == 0]
    groups: dict[tuple[str, float, float], list[tuple[Gpu, Slow]]] = {}
    for gpu in busy:
        found = measured.get(gpu.bdf)
        when = "in P0" if found is None else "while copying"
        for slow in _slow_links(tree, gpu) if found is None else slow_while_copying(found):
            groups.setdefault((when, *slow[2:]), []).append((gpu, slow))
    for (when, now, most), members in groups.items():
        labels = list(dict.fromkeys(gpu_labels(host, (gpu for gpu, _ in members))))
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: PCIe link runs {_generation(now)} {when}, both ends can do {_generation(most)}",
            "warning",
            evidence=[(where, f"{now:g} GT/s of {most:g}{times}") for _, (where, times, _, _) in members],
            effect=f"copies to and from the host at most {now / most:.0%} as fast (signalling rate)",
            remedy=Remedy(
                text="Reseat card, riser and cables; look for a speed limit in the BIOS and for PCIe errors (HD210).",
                risk="reboot",
                undo="Restore the former BIOS setting.",
                verify="nvidia-smi -q -d PERFORMANCE,PCIE under load shows the maximal generation.",
            ),
        )
    idle = [gpu for gpu in scope if gpu not in busy]
    if idle:
        states = {f"P{gpu.pstate}" for gpu in idle if gpu.pstate is not None}
        why = f"not in P0 ({', '.join(sorted(states))}): links slow down when idle" if states else "P-state not known"
        yield Skip(kind="no-evidence", reason=f"{brief(gpu_labels(host, idle))}: {why}; run it under load")


def _slow_links(tree: Tree, gpu: Gpu) -> Iterator[Slow]:
    hops = tree.hops(gpu)
    most = (hops[-1].max_speed_gts if hops else None) or gpu.driver_link.max_speed_gts
    links = [("NVML: current PCIe link generation", gpu.driver_link.speed_gts, most)]
    links += [(sysfs(hop.port_bdf, "current_link_speed"), hop.port.speed_gts, hop.max_speed_gts) for hop in hops[:-1]]
    for where, now, most in links:
        if now and most and now < most:
            yield where, "", now, most


def _generation(speed_gts: float) -> str:
    return f"Gen{GENERATIONS[speed_gts]}" if speed_gts in GENERATIONS else f"{speed_gts:g} GT/s"
