import re
from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.facts import Host

PATH = "/sys/module/pcie_aspm/parameters/policy"


@check("HD211", "aspm-powersave", "info", needs=(needs.gpus,))
def aspm_powersave(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Say that the kernel lets PCIe links sleep whenever they are idle.

    ## What it checks
    The kernel's Active State Power Management policy: powersave or powersupersave.

    ## Why it matters
    A sleeping link takes microseconds to wake up. That shows in small copies and doorbells after pauses, not in
    bandwidth.

    ## Remedy
    Set the policy to default or performance (kernel option `pcie_aspm.policy=performance`) if latency after pauses
    matters more than a few watts.

    ## References
    - https://docs.kernel.org/admin-guide/kernel-parameters.html (pcie_aspm)
    """
    text = host.settings.get("pcie_aspm.policy")
    chosen = re.search(r"\[(\w+)\]", text or "")
    if chosen is None:
        yield Skip(kind="no-evidence", reason="the kernel's ASPM policy is not known")
    elif chosen.group(1) in ("powersave", "powersupersave"):
        yield finding(
            "host",
            f"PCIe links sleep when idle: ASPM policy {chosen.group(1)}",
            "info",
            evidence=[(PATH, text)],
            effect="microseconds to wake a link after a pause; bandwidth is not affected",
            remedy=Remedy(
                text="Boot with pcie_aspm.policy=performance if latency after pauses matters more than power.",
                risk="reboot",
                undo="Boot without the option.",
                verify=f"cat {PATH} shows [default] or [performance].",
            ),
        )
