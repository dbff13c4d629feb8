from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.facts import Host


@check("HD902", "source-unreadable", "warning")
def source_unreadable(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Name sources that were there, but whose text could not be understood.

    ## What it checks
    Texts that their parser refused; the line that it stopped at is quoted.

    ## Why it matters
    All that the text would have told is unknown, so the map and the verdicts may be incomplete. A damaged or cut text
    and a format that hostdoctor does not know yet look alike.

    ## Remedy
    Give the complete, unedited output. If it is complete, report the quoted line as a defect of hostdoctor.

    ## References
    - hostdoctor explain HD901 (sources that are not there)
    """
    unreadable = dict.fromkeys((gap.source, gap.reason) for gap in host.gaps if gap.kind == "unreadable")
    if unreadable:
        sources = ", ".join(dict.fromkeys(source for source, _ in unreadable))
        yield finding(
            sources,
            f"Could not be read: {sources}",
            "warning",
            evidence=unreadable,
            effect="what it tells is unknown; checks that need it are skipped",
            remedy=Remedy(
                text="Give the complete, unedited output; if it is complete, report the quoted line.",
                scope="process",
                undo="None needed.",
                verify="hostdoctor check reads it.",
            ),
        )
