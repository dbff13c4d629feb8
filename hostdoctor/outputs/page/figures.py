"""Numbers as a person reads them; the exact value goes beside the text."""

from hostdoctor.outputs.page.documents import Circumstances, Interval, Quantile
from hostdoctor.outputs.page.model import Figure
from hostdoctor.outputs.words import GIB


def number(value: float) -> str:
    """Return four digits that count, without an exponent for what people write out."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 0.001 or not value else f"{value:.3g}"


def figure(value: float | None, unit: str, interval: Interval | None = None, none: str = "n/a") -> Figure:
    """Return a value with its unit and interval; an end of the interval that is not known is ``?``."""
    if value is None:
        return Figure(text=none)
    around = ""
    if interval is not None and interval != (None, None):
        low, high = ("?" if end is None else number(end) for end in interval)
        around = f" [{low}, {high}]"
    return Figure(text=f"{number(value)}{f' {unit}' if unit else ''}{around}", value=value)


def of_quantile(quantile: Quantile | None, unit: str) -> Figure:
    """Return a quantile with its interval."""
    if quantile is None or quantile.value is None:
        return Figure(text="n/a (N too small)")
    return figure(quantile.value, unit, (quantile.low, quantile.high))


def plain(text: object) -> Figure:
    """Return words, or a number that stands for itself."""
    return Figure(text=str(text))


def size(value: int | None, none: str = "not known") -> Figure:
    """Return a size in GiB, or in MiB where it is small."""
    if value is None:
        return Figure(text=none)
    return Figure(
        text=f"{value / GIB:.1f} GiB" if value >= GIB // 10 or not value else f"{value / (1 << 20):.1f} MiB",
        value=value,
    )


def percent(share: float) -> str:
    """Return a share as per cent with two digits that count: 0.0312 → ``3.1 %``."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %" if value >= 0.95 else f"{value:.2g} %"


def block(size_bytes: int) -> str:
    """Return the size of a transfer: ``16 KiB``, ``2 MiB``."""
    return f"{size_bytes / (1 << 20):g} MiB" if size_bytes >= 1 << 20 else f"{size_bytes / 1024:g} KiB"


def early(stopped: str | None) -> tuple[str, ...]:
    """Return the note on what ended a measurement early, if anything did."""
    return (f"Ended early: {stopped}",) if stopped else ()


def made(told: Circumstances) -> str:
    """Return when, where and by what something was measured."""
    parts = [told.at, told.hostname and f"on {told.hostname}", told.hostdoctor and f"hostdoctor {told.hostdoctor}"]
    parts.append(f"ended early by {told.interrupted}" if told.interrupted else None)
    return ", ".join(part for part in parts if part)


def node_id(node: int | None) -> str:
    """Return a node's number in words."""
    return "not known" if node is None else str(node)
