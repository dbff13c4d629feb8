from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.facts import Host


@check("HD901", "source-missing", "info")
def source_missing(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """List sources that are not there: a command is not installed, or its output was not given.

    ## What it checks
    The sources that were looked for and not found, in one line.

    ## Why it matters
    What only such a source tells stays unknown, and checks that need it are skipped. Nothing is guessed instead.

    ## Remedy
    Install the command, or add its output to the input. All of them are optional.

    ## References
    - https://github.com/numactl/numactl, https://github.com/pciutils/pciutils, https://github.com/linux-nvme/nvme-cli
    """
    missing = {gap.source: gap.reason for gap in host.gaps if gap.kind == "missing" and gap.fact.startswith("source:")}
    if missing:
        yield finding(
            ", ".join(missing),
            f"Not available: {', '.join(missing)}",
            "info",
            evidence=missing.items(),
            effect="what only these tell is unknown; checks that need it are skipped",
            remedy=Remedy(
                text="Optional: install the missing commands with the distribution's packages."
                if host.is_live
                else "Optional: add the missing outputs to what you hand to --from.",
                undo="Remove them again.",
                verify="hostdoctor check no longer lists them.",
            ),
        )
