"""A comparison as a short table under its verdict."""

from collections.abc import Sequence

from hostdoctor.measure.comparison import Comparison, Guard, Interval, Primary, Row
from hostdoctor.measure.verdicts import share, words
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import plural, printable

NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL", "wall": "wall time"}
_GUARD: dict[Guard, str] = {
    "held": "{} is not worse than {} by more than {}",
    "broken": "{} is worse than {} by more than {}",
    "not-shown": "not shown that {} is not worse than {} by more than {}",
    "not-applicable": "",
}


def render_comparison(comparison: Comparison, style: Style) -> str:
    """Return the verdict, the p99 guard, the table, and what limits what they say."""
    primary = comparison.primary
    colour = {"near-faster": "ok", "far-faster": "ok", "unstable": "warning", "insufficient": "unknown"}
    verdict = style.paint(primary.words, colour.get(primary.verdict, "bold"))
    lines = [f"{verdict}: {_name(primary.metric, primary.quantile)}, {plural(comparison.pairs, 'pair')}"]
    lines += _guard(primary, comparison.arms)
    lines += _control(comparison)
    lines += _table(comparison)
    lines += [style.wrap(text, "  note: ", "        ") for text in _notes(comparison)]
    return "\n".join(lines) + "\n"


def _guard(primary: Primary, arms: tuple[str, str]) -> list[str]:
    favoured, other = reversed(arms) if primary.verdict == "far-faster" else arms
    text = _GUARD[primary.guard].format(favoured, other, share(primary.margin))
    return [f"  at p99: {text}"] if text else []


def _control(comparison: Comparison) -> list[str]:
    """Say how far near was from near again, in the primary latency; nothing where that was not measured."""
    primary, near = comparison.primary, comparison.arms[0]
    told = comparison.metrics[primary.metric]
    interval = (told.p50 if primary.quantile == "p50" else told.p99).control_ratio_ci
    if interval is None:
        return []
    verdict = "no difference" if interval[0] <= 1 <= interval[1] else "differs: this host does not repeat itself"
    low, high = map(_number, interval)
    return [f"  control: {near} again/{near} [{low}–{high}], {verdict}"]


def _name(metric: str, quantile: str) -> str:
    latency = NAMES.get(metric, printable(metric))
    return f"median {latency}" if quantile == "p50" else f"{latency} {quantile}"


def _table(comparison: Comparison) -> list[str]:
    metric = comparison.primary.metric
    names = sorted(comparison.metrics, key=lambda name: name != metric)
    near, far = comparison.arms
    rows: list[tuple[str, ...]] = [
        ("", f"{near} ms [95 %]", f"{far} ms [95 %]", f"{far}/{near} [95 %]", "p", "verdict")
    ]
    for name in names:
        quantiles = comparison.metrics[name]
        for label, row in (("p50", quantiles.p50), ("p99", quantiles.p99)):
            if row.pairs:
                rows.append((f"{NAMES.get(name, printable(name))} {label}", *_cells(row, comparison.arms)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [f"  {line}" for line in lines] if len(rows) > 1 else []


def _cells(row: Row, arms: tuple[str, str]) -> tuple[str, ...]:
    return (
        "n/a" if row.near_ms is None else _with_interval(row.near_ms, row.near_ci_ms),
        "n/a" if row.far_ms is None else _with_interval(row.far_ms, row.far_ci_ms),
        _with_interval(row.ratio, row.ratio_ci),
        "–" if row.p_value is None else _p(row.p_value if row.adjusted_p_value is None else row.adjusted_p_value),
        words(row, arms),
    )


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "–"
    if interval is None:
        return _number(value)
    low, high = ("?" if end is None else _number(end) for end in interval)
    return f"{_number(value)} [{low}–{high}]"


def _number(value: float) -> str:
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 1 else 3
    return f"{value:.{digits}f}" if 0.001 <= value < 1e7 else f"{value:.3g}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def _notes(comparison: Comparison) -> Sequence[str]:
    rows = [row for quantiles in comparison.metrics.values() for row in (quantiles.p50, quantiles.p99)]
    found = [printable(text) for text in comparison.warnings]
    failed = comparison.failed_requests
    if failed.near or failed.far:
        near, far = comparison.arms
        found.append(f"failed requests, left out: {near} {_count(failed.near)}, {far} {_count(failed.far)}")
    if any(row.basis == "runs-own-quantiles" for row in rows):
        found.append("no samples in the files: near and far are the geometric means of the runs' own quantiles")
    if not _is_tested(comparison):
        found.append("no near-against-near control (--control): whether this host repeats itself was not tested")
    return found


def _is_tested(comparison: Comparison) -> bool:
    """Tell whether near was compared with near, or nothing was said that would need it."""
    controlled = bool(comparison.provenance.control) or comparison.arms == ("near", "near again")
    return controlled or comparison.primary.verdict == "insufficient"


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)
