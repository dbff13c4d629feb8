"""Metrics as text: the exposition format of Prometheus, version 0.0.4.

    # HELP name what it is
    # TYPE name gauge
    name{label="value"} 1

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
from collections.abc import Iterable, Iterator, Mapping

from hostdoctor.facts import Fact
from hostdoctor.outputs.metric_names import METRICS, PREFIX, Kind
from hostdoctor.outputs.words import printable

MAX_SERIES = 500  # of one metric: a host of 32 GPUs with everything around them has fewer
MAX_LABEL_CHARACTERS = 100
LEFT_OUT = "metrics_left_out_series"

Row = tuple[str, Mapping[str, object], float | None]


class Series(Fact, frozen=True, kw_only=True):
    """One value of a metric, told from the others by its labels."""

    labels: tuple[tuple[str, str], ...] = ()
    value: float


class Family(Fact, frozen=True, kw_only=True):
    """A metric with all its values; ``name`` has the prefix, and ``_total`` where it is a counter."""

    name: str
    kind: Kind
    help: str
    series: tuple[Series, ...]


def families(rows: Iterable[Row]) -> tuple[Family, ...]:
    """Return the metrics that have a value, in the order of the catalogue; names in rows are without the prefix.

    A value of None is not known and left out, as is a label of None. Of rows with the same labels the first counts.
    """
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {name: {} for name in METRICS}
    for name, labels, value in rows:
        if value is not None and math.isfinite(value):
            found[name].setdefault(_labels(labels), value)
    for name, kept in found.items():
        if len(kept) > MAX_SERIES:
            found[LEFT_OUT][("metric", PREFIX + name),] = len(kept) - MAX_SERIES
    return tuple(_family(name, kept) for name, kept in found.items() if kept)


def render_prometheus(metrics: Iterable[Family]) -> str:
    """Return the metrics as text, each line ended."""
    return "".join(line for metric in metrics for line in _lines(metric))


def _family(name: str, kept: Mapping[tuple[tuple[str, str], ...], float]) -> Family:
    kind, text = METRICS[name]
    series = tuple(Series(labels=labels, value=value) for labels, value in list(kept.items())[:MAX_SERIES])
    return Family(name=PREFIX + name, kind=kind, help=text, series=series)


def _labels(labels: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    told = ((name, printable(str(value), MAX_LABEL_CHARACTERS)) for name, value in labels.items() if value is not None)
    return tuple((name, value) for name, value in told if value)


def _lines(metric: Family) -> Iterator[str]:
    text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.kind}\n"
    for series in metric.series:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in series.labels)
        yield (
            f"{metric.name}{{{labels}}} {number(series.value)}\n"
            if labels
            else (f"{metric.name} {number(series.value)}\n")
        )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """Return a number exactly: whole ones without a point."""
    return str(int(value)) if value == int(value) and abs(value) < 1 << 63 else repr(float(value))
