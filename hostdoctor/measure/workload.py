"""Whether runs are repeats of one workload, and what else a reader of their comparison should know."""

from collections.abc import Callable, Mapping, Sequence

from hostdoctor.facts.runs import RunResult

MEAN_TOKENS_TOLERANCE = 0.10  # random lengths differ a little from seed to seed
_FAILED_SHARE = 0.01
_MOST_TWINS = 3  # named
_OWN_RESULT = "result.json"  # what each run of an experiment leaves in its folder

Arms = Mapping[str, Sequence[RunResult]]
Value = float | str | None

_SAME: dict[str, Callable[[RunResult], Value]] = {
    "client": lambda run: run.tool,
    "model": lambda run: run.model,
    "tokenizer": lambda run: run.tokenizer,
    "backend": lambda run: run.backend,
    "request rate": lambda run: run.request_rate,
    "concurrency limit": lambda run: run.max_concurrency,
    "burstiness": lambda run: run.burstiness,
    "requests": lambda run: run.prompts,
}
_ALIKE: dict[str, Callable[[RunResult], float | None]] = {
    "mean input tokens": lambda run: _mean(run.input_tokens, run.completed),
    "mean output tokens": lambda run: _mean(run.output_tokens, run.completed),
}


def differences(arms: Arms) -> tuple[str, ...]:
    """Return what makes the runs different workloads, each as one phrase that names two files."""
    runs = [run for arm in arms.values() for run in arm]
    found = [_first_difference(name, [(run, read(run)) for run in runs], 0.0) for name, read in _SAME.items()]
    found += [
        _first_difference(name, [(run, read(run)) for run in runs], MEAN_TOKENS_TOLERANCE)
        for name, read in _ALIKE.items()
    ]
    for name in dict.fromkeys(key for run in runs for key in run.versions):
        found.append(_first_difference(name, [(run, run.versions.get(name)) for run in runs], 0.0))
    return tuple(text for text in found if text)


_TOGETHER: dict[str, Callable[[RunResult], Value]] = {
    "client": lambda run: run.tool,
    "model": lambda run: run.model,
    "tokenizer": lambda run: run.tokenizer,
}


def mixed(runs: Sequence[RunResult]) -> tuple[str, ...]:
    """Return what keeps runs from being cells of one matrix, each as one phrase that names two files.

    Loads differ from cell to cell; model, tokenizer, client and length of the answers must not.
    """
    found = [_first_difference(name, [(run, read(run)) for run in runs], 0.0) for name, read in _TOGETHER.items()]
    outputs = [(run, _mean(run.output_tokens, run.completed)) for run in runs]
    found.append(_first_difference("mean output tokens", outputs, MEAN_TOKENS_TOLERANCE))
    return tuple(text for text in found if text)


def mixed_versions(runs: Sequence[RunResult]) -> tuple[str, ...]:
    """Return the versions that differ between runs, each as one phrase that names two files."""
    names = dict.fromkeys(key for run in runs for key in run.versions)
    found = (_first_difference(name, [(run, run.versions.get(name)) for run in runs], 0.0) for name in names)
    return tuple(text for text in found if text)


def _first_difference(name: str, told: Sequence[tuple[RunResult, Value]], tolerance: float) -> str | None:
    known = [(run, value) for run, value in told if value is not None]
    for run, value in known[1:]:
        first, expected = known[0]
        if not _alike(expected, value, tolerance):
            return f"{name} {_text(expected)} ({_file(first)}) but {_text(value)} ({_file(run)})"
    return None


def _alike(a: Value, b: Value, tolerance: float) -> bool:
    if isinstance(a, float | int) and isinstance(b, float | int):
        return abs(a - b) <= tolerance * max(abs(a), abs(b))
    return a == b


def _file(run: RunResult) -> str:
    """Return what the run's file is called; where all are called the same, with the folder that tells them apart."""
    *folders, name = run.source.split("/")
    return f"{folders[-1]}/{name}" if name == _OWN_RESULT and folders else name


def _text(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def _mean(total: int | None, count: int | None) -> float | None:
    return total / count if total is not None and count else None


def remarks(arms: Arms) -> tuple[str, ...]:
    """Return what does not forbid the comparison but limits what it says, one sentence each."""
    runs = [run for arm in arms.values() for run in arm]
    found = list(dict.fromkeys(note for run in runs for note in run.notes))
    found += [text for arm, members in arms.items() if (text := _failures(arm, members))]
    found += _twins(runs)
    seeds = {run.seed for run in runs}
    if len(runs) > 2 and len(seeds) == 1 and None not in seeds:
        found.append("every run has the same seed: repeats on one server then hit its prefix cache")
    if any(run.request_rate == "inf" for run in runs):
        found.append("no request rate was set: a slower server is also loaded less, so tails look alike")
    return tuple(found)


def _failures(arm: str, runs: Sequence[RunResult]) -> str | None:
    failed = sum(run.failed or 0 for run in runs)
    total = failed + sum(run.completed or 0 for run in runs)
    if failed <= _FAILED_SHARE * total:
        return None
    return f"{failed} of {total} requests of {arm} failed: its latencies are those of the others"


def _twins(runs: Sequence[RunResult]) -> list[str]:
    """Return a sentence for each run that is another one again, the rest counted: a copy tells not how runs vary."""
    seen: dict[tuple[object, ...], str] = {}
    twins = []
    for run in runs:
        latencies = tuple((name, x.samples_ms, tuple(x.quantiles_ms.items())) for name, x in run.latencies.items())
        key = (run.date, run.duration_s, latencies)
        if key in seen:
            twins.append(f"{_file(run)} holds the same run as {seen[key]}")
        seen.setdefault(key, _file(run))
    more = len(twins) - _MOST_TWINS
    return [*twins[:_MOST_TWINS], f"and {more} more hold the same run as another"] if more > 0 else twins
