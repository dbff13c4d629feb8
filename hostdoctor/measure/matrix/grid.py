"""The cells of an experiment: which there are, which are struck, which cut each belongs to."""

from collections.abc import Iterator

from hostdoctor.facts import Fact
from hostdoctor.measure.matrix.experiment import Cut, Experiment, Mix, Variant

CLOSED_LOOP = "inf"


class Series(Fact, frozen=True, kw_only=True):
    """What a server is started with and a boundary is told of; ``request_rate`` a second, ``inf``: a closed loop."""

    variant: str
    kv_cache_dtype: str = "auto"
    request_rate: str = CLOSED_LOOP

    @property
    def label(self) -> str:
        """``A``, ``A fp8``, ``A 4/s``, ``A fp8 4/s``: only what is not the default."""
        dtype = "" if self.kv_cache_dtype == "auto" else f" {self.kv_cache_dtype}"
        return f"{self.variant}{dtype}" + ("" if self.request_rate == CLOSED_LOOP else f" {self.request_rate}/s")

    @property
    def slug(self) -> str:
        """The same as a file's name."""
        return f"{self.variant}-{self.kv_cache_dtype}-{self.request_rate}"


class Cell(Fact, frozen=True, kw_only=True):
    """One load on one server: ``context`` tokens each, ``concurrency`` at once."""

    series: Series
    cut: Cut = "grid"
    context: int
    concurrency: int

    @property
    def slug(self) -> str:
        """``grid-8192x4``."""
        return f"{self.cut}-{self.context}x{self.concurrency}"

    @property
    def label(self) -> str:
        """``A: 8,192 tokens × 4``."""
        cut = "" if self.cut == "grid" else f" ({self.cut})"
        return f"{self.series.label}: {self.context:,} tokens × {self.concurrency}{cut}"


class StruckCell(Fact, frozen=True, kw_only=True):
    """A cell that is not run, and why."""

    cell: Cell
    reason: str


def variant_of(experiment: Experiment, series: Series) -> Variant:
    """Return a series' variant."""
    return next(variant for variant in experiment.variants if variant.name == series.variant)


def all_series(experiment: Experiment) -> tuple[Series, ...]:
    """Return every series, struck ones included, in the file's order."""
    grid = experiment.grid
    rates = tuple(f"{rate:g}" for rate in grid.request_rates) or (CLOSED_LOOP,)
    return tuple(
        Series(variant=variant.name, kv_cache_dtype=dtype, request_rate=rate)
        for variant in experiment.variants
        for dtype in grid.kv_cache_dtypes
        for rate in rates
    )


def cells_of(experiment: Experiment, series: Series) -> tuple[Cell, ...]:
    """Return the cells of a series, struck ones included: the grid by context and concurrency, then mix and prefix."""
    return (*_grid(experiment, series), *_others(experiment, series))


def _grid(experiment: Experiment, series: Series) -> Iterator[Cell]:
    for context in sorted(experiment.grid.contexts):
        for concurrency in sorted(experiment.grid.concurrency):
            yield Cell(series=series, context=context, concurrency=concurrency)


def _others(experiment: Experiment, series: Series) -> Iterator[Cell]:
    mix, prefix = experiment.mix, experiment.prefix
    for concurrency in sorted(mix.concurrency) if mix else ():
        assert mix is not None
        yield Cell(series=series, cut="mix", context=mix.short_context, concurrency=concurrency)
    for concurrency in sorted(prefix.concurrency) if prefix else ():
        assert prefix is not None
        yield Cell(series=series, cut="prefix", context=prefix.context, concurrency=concurrency)


def why_struck(experiment: Experiment, cell: Cell) -> str | None:
    """Return why a cell is not run, None where it is."""
    variant = variant_of(experiment, cell.series)
    if variant.struck:
        return variant.struck
    loads = [(cell.context, cell.concurrency)]
    if cell.cut == "mix" and experiment.mix is not None:
        loads.append((experiment.mix.long_context, long_slots(experiment.mix, cell.concurrency)))
    found = (
        one.reason
        for one in experiment.struck
        if (one.variant, one.kv_cache_dtype) == (variant.name, cell.series.kv_cache_dtype)
        and any(tokens >= one.context and many >= one.from_concurrency for tokens, many in loads)
    )
    return next(found, None)


def long_slots(mix: Mix, concurrency: int) -> int:
    """Return how many of the requests at once are long ones: their share, at least one."""
    return max(1, round(mix.long_share * concurrency))


def open_cells(experiment: Experiment, series: Series) -> tuple[Cell, ...]:
    """Return the cells of a series that are run."""
    return tuple(cell for cell in cells_of(experiment, series) if why_struck(experiment, cell) is None)


def struck_cells(experiment: Experiment) -> tuple[StruckCell, ...]:
    """Return the cells that are not run, each with its reason."""
    found = []
    for series in all_series(experiment):
        for cell in cells_of(experiment, series):
            reason = why_struck(experiment, cell)
            if reason is not None:
                found.append(StruckCell(cell=cell, reason=reason))
    return tuple(found)


def slices(experiment: Experiment, cell: Cell) -> tuple[str, ...]:
    """Return the cuts that a cell of the grid is part of: one request, steady concurrency, short and long context."""
    if cell.cut != "grid":
        return (cell.cut,)
    contexts = sorted(experiment.grid.contexts)
    found = ["single"] if cell.concurrency == 1 else []
    found += ["steady"] if cell.context == contexts[0] else []
    found += ["lengths"] if cell.context in (contexts[0], contexts[-1]) else []
    return tuple(found) or ("grid",)
