from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.error_rates import Counted, counted, fast
from hostdoctor.diagnosis.nearby import nearby_devices
from hostdoctor.diagnosis.paths import Device
from hostdoctor.diagnosis.report import Severity
from hostdoctor.diagnosis.subjects import brief, sysfs
from hostdoctor.facts import Host


@check("HD210", "pcie-errors", "info")
def pcie_errors(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find PCIe functions that report link or transaction errors.

    ## What it checks
    The error totals (Advanced Error Reporting) of the GPUs in scope, the NICs and drives near them, and every bridge
    above: information. With `--sample`: fatal or non-fatal errors that rise are critical; correctable errors or NVML
    replays of at least 10 a minute during 10 minutes (`--sample 600`), and 10 times the siblings' median, a warning.

    ## Why it matters
    Correctable errors cost a repeated packet each and announce a contact or cable that gets worse. The others end in a
    lost device or a wrong transfer.

    ## Remedy
    Reseat the card, riser and cables and compare after swapping slots; if the errors follow the card, replace it.

    ## References
    - https://docs.kernel.org/admin-guide/abi-testing.html (sysfs-bus-pci-devices-aer_stats)
    - https://docs.kernel.org/PCI/pcieaer-howto.html
    """
    devices: list[Device] = [*in_scope(host, ask), *nearby_devices(host, ask)]
    every = counted(host, devices)
    severe = [c for c in every if c.severe]
    rapid = [c for c in fast(every) if c not in severe]
    rest = [c for c in every if c.total and c not in severe and c not in rapid]
    if severe:
        yield _found(severe, "critical", "fatal or non-fatal PCIe errors are rising")
    if rapid:
        rates = ", ".join(f"{c.correctable.per_minute:.0f} a minute" for c in rapid if c.correctable)
        yield _found(rapid, "warning", f"correctable PCIe errors rise fast ({rates})")
    if rest:
        yield _found(rest, "info", f"PCIe errors since boot: {sum(c.total for c in rest)}")
    if not devices:
        yield needs.none_known(host, "no GPU, NIC or NVMe drive in scope", "gpus", "nics", "nvme")
    elif all(c.totals is None and c.correctable is None for c in every):
        yield Skip(kind="no-evidence", reason="the kernel shows no PCIe error counters here")


def _found(functions: list[Counted], severity: Severity, message: str) -> Finding:
    labels = [c.label for c in functions]
    return finding(
        ", ".join(labels),
        f"{brief(labels)}: {message}",
        severity,
        evidence=[pair for c in functions for pair in _evidence(c)],
        effect="a repeated packet for each correctable error; a lost device or a failed transfer for the others",
        remedy=Remedy(
            text="Reseat card, riser and cables; if the errors follow the card to another slot, replace it."
            if severity != "info"
            else "Watch whether they rise: hostdoctor check --sample 600.",
            risk="reboot" if severity != "info" else "none",
            undo="None needed.",
            verify="hostdoctor check --select HD210 --sample 600 shows no rise.",
        ),
    )


def _evidence(c: Counted) -> Iterable[tuple[str, object]]:
    for name in ("correctable", "nonfatal", "fatal"):
        if total := getattr(c.totals, name, None):
            yield sysfs(c.bdf, f"aer_dev_{name}"), total
    yield from (r.evidence for r in (c.correctable, *c.severe) if r and r.by)
