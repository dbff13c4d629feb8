"""Verdicts on near and far as the report shows them, whichever experiment they come from."""

from collections.abc import Sequence

from hostdoctor.measure import comparison, verdicts
from hostdoctor.outputs.page.documents import AgainstNear, Interval, Row
from hostdoctor.outputs.page.figures import figure, number
from hostdoctor.outputs.page.model import Figure, Tone, Verdict
from hostdoctor.outputs.words import plural

TONES: dict[str, Tone] = {"near-faster": "near", "far-faster": "far", "no-measurable-difference": "same"}
KNOWN = (*TONES, "insufficient", "unstable")
ARMS = ("near", "far")


def words_of(row: Row, arms: tuple[str, str] = ARMS) -> str:
    """Return a row's verdict in words; one that a later version brought is called by its name."""
    if row.verdict not in KNOWN:
        return f"{row.verdict}{f' ({row.reason})' if row.reason else ''}"
    told = comparison.Row(
        verdict=row.verdict,  # type: ignore[arg-type]  # one of them, as was just seen
        ratio=row.ratio,
        detectable_ratio=row.detectable_ratio,
        reason=row.reason,
        samples_needed=0,
    )
    return verdicts.words(told, arms)


def verdict_of(what: str, near: Figure, far: Figure, told: AgainstNear) -> Verdict:
    """Return what pairs say of a far cell as the table shows it."""
    adjusted = "" if told.p_value is None else f", p = {number(told.p_value)}"
    return Verdict(
        what=what,
        near=near,
        far=far,
        ratio=figure(told.ratio, "", told.ratio_ci),
        tone=TONES.get(told.verdict, "unknown"),
        words=words_of(told.row),
        samples=f"{plural(told.pairs, 'pair')}{adjusted}",
    )


def summed(shown: Sequence[Verdict], kind: str) -> tuple[str, Tone]:
    """Return one sentence for several verdicts, and its tone; ``kind`` is what they are of: ``kinds of copy``."""
    if not shown:
        return "", "unknown"
    near, far, same = (sum(verdict.tone == tone for verdict in shown) for tone in ("near", "far", "same"))
    parts = [f"near faster in {near} of {len(shown)} {kind}", f"no measurable difference in {same}"]
    parts += [f"far faster in {far}"] if far else []
    open_ = len(shown) - near - far - same
    parts += [f"no verdict on {open_}"] if open_ else []
    tone: Tone = "near" if near else "far" if far else "same" if same == len(shown) else "unknown"
    return f"far node against near: {', '.join(parts)}", tone


def band(interval: Interval | None) -> tuple[float, float] | None:
    """Return an interval that can be drawn."""
    if interval is None or not interval[0] or not interval[1]:
        return None
    return interval[0], interval[1]
