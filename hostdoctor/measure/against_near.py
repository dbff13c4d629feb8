"""Each far cell against its near cell, from paired visits: the same numbers and verdicts for every experiment."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hostdoctor.facts import Fact
from hostdoctor.measure.comparison import Verdict
from hostdoctor.measure.paired import Paired, compare_pairs, holm
from hostdoctor.measure.verdicts import judge

Cell = TypeVar("Cell")


class AgainstNear(Fact, frozen=True, kw_only=True):
    """What the pairs say. ``ratio`` is far/near of times, above 1 where near is faster.

    ``p_value`` is adjusted for all comparisons of this statistic (Holm). ``reason`` says why there is no verdict.
    """

    pairs: int
    pairs_needed: int
    ratio: float | None = None
    ratio_ci: tuple[float, float] | None = None
    p_value: float | None = None
    detectable_ratio: float | None = None
    verdict: Verdict
    reason: str = ""


def against_near(
    times: Mapping[Cell, Sequence[float]], near_of: Callable[[Cell], Cell | None]
) -> dict[Cell, AgainstNear]:
    """Return what each cell says beside its near cell: time i of the one and time i of the other are a pair.

    ``near_of`` names a cell's near cell, None for a near cell itself; a cell without times, or whose near cell has
    none, is left out. Near against near is the control: each second time with the one before it.
    """
    pairs: dict[Cell, tuple[list[float], list[float]]] = {}
    controls: dict[Cell, Paired] = {}
    for cell, far in times.items():
        near = times.get(own, ()) if (own := near_of(cell)) is not None else ()
        both = list(zip(near, far, strict=False))  # an interrupted round lacks its second half
        if both:
            pairs[cell] = [pair[0] for pair in both], [pair[1] for pair in both]
            controls[cell] = _control(near)
    paired = {cell: compare_pairs(*both, tests=len(pairs)) for cell, both in pairs.items()}
    adjusted = _adjusted(paired)
    return {cell: _judged(found, adjusted.get(cell), controls[cell]) for cell, found in paired.items()}


def _adjusted(paired: Mapping[Cell, Paired]) -> dict[Cell, float]:
    told = [(cell, found.p_value) for cell, found in paired.items() if found.p_value is not None]
    return dict(zip((cell for cell, _ in told), holm([p_value for _, p_value in told]), strict=True))


def _control(near: Sequence[float]) -> Paired:
    both = list(zip(near[::2], near[1::2], strict=False))
    return compare_pairs([pair[0] for pair in both], [pair[1] for pair in both])


def _judged(found: Paired, p_value: float | None, control: Paired) -> AgainstNear:
    verdict, reason = judge(found, p_value, None, control if control.pairs >= control.pairs_needed else None)
    return AgainstNear(
        pairs=found.pairs,
        pairs_needed=found.pairs_needed,
        ratio=found.ratio,
        ratio_ci=found.ratio_ci,
        p_value=p_value,
        detectable_ratio=found.detectable_ratio,
        verdict=verdict,
        reason=reason,
    )
