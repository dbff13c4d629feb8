"""From numbers to a verdict, and to a sentence that promises no more than the numbers do."""

from hostdoctor.measure.comparison import ARMS, Guard, Row, Verdict
from hostdoctor.measure.paired import SIGNIFICANCE, Paired


def judge(paired: Paired, p_value: float | None, lacking: str | None, control: Paired | None) -> tuple[Verdict, str]:
    """Return the verdict and, for ``insufficient`` and ``unstable``, why; ``""`` for the others.

    A difference is one where the test (``p_value``, adjusted where it is one of several) and the ratio's interval both
    say so. ``lacking`` says what the samples lack; a control whose interval excludes 1 disqualifies the host.
    """
    if lacking:
        return "insufficient", lacking
    if paired.pairs < paired.pairs_needed or paired.ratio_ci is None or p_value is None:
        return "insufficient", f"{paired.pairs} of {paired.pairs_needed} pairs"
    if control is not None and _differs(control):
        return "unstable", "near against near differs"
    if p_value > SIGNIFICANCE or not _differs(paired):
        return "no-measurable-difference", ""
    return ("near-faster" if paired.ratio_ci[0] > 1 else "far-faster"), ""


def _differs(paired: Paired) -> bool:
    return paired.ratio_ci is not None and not paired.ratio_ci[0] <= 1 <= paired.ratio_ci[1]


def words(row: Row, arms: tuple[str, str] = ARMS) -> str:
    """Return the row's verdict in words: ``near is faster by 12 %``."""
    if row.verdict in ("near-faster", "far-faster") and row.ratio is not None:
        arm, ratio = (arms[0], row.ratio) if row.verdict == "near-faster" else (arms[1], 1 / row.ratio)
        return f"{arm} is faster by {share(ratio - 1)}"
    if row.verdict == "no-measurable-difference":
        seen = f" (would have seen ≥ {share(row.detectable_ratio - 1)})" if row.detectable_ratio is not None else ""
        return f"no measurable difference{seen}"
    if row.verdict == "unstable":
        return f"host unstable ({arms[0]} against {arms[0]} differs)"
    return f"insufficient ({row.reason})" if row.reason else "insufficient"


def share(value: float) -> str:
    """Return a share as per cent with two digits that count: 0.0312 → ``3.1 %``, 1.27 → ``127 %``."""
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %" if percent >= 0.95 else f"{percent:.2g} %"


def guard(primary: Row, tail: Row, margin: float) -> Guard:
    """Return whether the favoured arm (near, where none is) is shown to be no worse at p99 than by ``margin``."""
    if primary.verdict in ("insufficient", "unstable"):
        return "not-applicable"
    if tail.verdict in ("insufficient", "unstable") or tail.ratio_ci is None:
        return "not-shown"
    low, high = tail.ratio_ci
    if primary.verdict == "far-faster":
        low, high = 1 / high, 1 / low
    allowed = 1 / (1 + margin)
    if low >= allowed:
        return "held"
    return "broken" if high < allowed else "not-shown"
