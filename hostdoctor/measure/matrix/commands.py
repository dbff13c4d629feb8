"""The commands of an experiment: a server for each series, a client for each cell. Pure."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from hostdoctor.facts import Fact
from hostdoctor.measure.matrix.experiment import Experiment
from hostdoctor.measure.matrix.grid import CLOSED_LOOP, Cell, Series, long_slots, open_cells, variant_of
from hostdoctor.measure.matrix.order import Run, seed_of
from hostdoctor.measure.trial_server import default_ready_url

LONG_BEFORE = 32  # long requests of a slot while the short client is still making its prompts
METADATA = "hostdoctor_"
_ROOM = 128  # of so many tokens one stays free


class Clients(Fact, frozen=True, kw_only=True):
    """The client that is judged, and in a mix the one beside it, which is started first and ended last."""

    words: tuple[str, ...]
    beside: tuple[str, ...] = ()


def server_words(experiment: Experiment, series: Series) -> tuple[str, ...]:
    """Return the words that start a series' server."""
    variant = variant_of(experiment, series)
    words = (*experiment.server.command, *variant.args)
    if series.kv_cache_dtype != "auto" and not _has(words, "--kv-cache-dtype"):
        words = (*words, "--kv-cache-dtype", series.kv_cache_dtype)
    if not _has(words, "--max-model-len"):
        words = (*words, "--max-model-len", str(_longest(experiment, series)))
    return words


def server_environment(experiment: Experiment, series: Series) -> dict[str, str]:
    """Return the variables that are added for a series' server."""
    return experiment.server.environment | variant_of(experiment, series).environment


def ready_url(experiment: Experiment) -> str:
    """Return what answers when the server is ready; raise UsageError where its port is not told."""
    return experiment.server.ready_url or default_ready_url(experiment.server.command, "vllm")


def metrics_url(experiment: Experiment) -> str:
    """Return where the engine tells its counters."""
    return experiment.server.metrics_url or f"{base_url(experiment)}/metrics"


def base_url(experiment: Experiment) -> str:
    """Return the server's address."""
    parts = urlsplit(ready_url(experiment))
    return f"{parts.scheme}://{parts.netloc}"


def requests_of(experiment: Experiment, cell: Cell) -> int:
    """Return how many requests a cell sends."""
    wanted = max(experiment.load.requests, experiment.load.requests_per_slot * cell.concurrency)
    prefixes = experiment.prefix.prefixes if experiment.prefix is not None and cell.cut == "prefix" else 1
    return -(-wanted // prefixes) * prefixes  # the client sends as many of each


def prompt_tokens(experiment: Experiment, context: int) -> int:
    """Return the tokens of a prompt: what the answer leaves, less a little, as random texts come out a few longer."""
    return max(1, context - experiment.grid.output_tokens - context // _ROOM)


def clients(experiment: Experiment, run: Run, result: str, versions: dict[str, str] | None = None) -> Clients:
    """Return the words that drive one run of a cell and leave its result in a file."""
    cell = run.cell
    if cell.cut != "mix" or experiment.mix is None:
        words = _bench(experiment, run, _dataset(experiment, cell), cell.concurrency, result, versions or {})
        return Clients(words=words)
    many = long_slots(experiment.mix, cell.concurrency)
    short = _bench(
        experiment, run, _random(experiment, cell.context), max(1, cell.concurrency - many), result, versions or {}
    )
    long = _random(experiment, experiment.mix.long_context)
    requests = long_requests(experiment, cell)
    beside = _common(experiment, run, long, many, requests, seed_of(experiment, run) + 500_000)
    return Clients(words=short, beside=beside)


def long_requests(experiment: Experiment, cell: Cell) -> int:
    """Return how many requests outlast the short ones of a mix; the client makes every prompt before it sends one.

    A long request takes no less than a short one, so a slot answers no more of them; twice as many are asked for.
    """
    assert experiment.mix is not None
    many = long_slots(experiment.mix, cell.concurrency)
    short = requests_of(experiment, cell) + experiment.load.warm_ups
    return many * (2 * -(-short // max(1, cell.concurrency - many)) + LONG_BEFORE)


def _bench(
    experiment: Experiment, run: Run, dataset: Sequence[str], many: int, result: str, versions: dict[str, str]
) -> tuple[str, ...]:
    requests = requests_of(experiment, run.cell)
    return (
        *_common(experiment, run, dataset, many, requests, seed_of(experiment, run)),
        *("--num-warmups", str(experiment.load.warm_ups)),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99"),
        *("--save-result", "--save-detailed", "--result-filename", result),
        *("--metadata", *(f"{name}={value}" for name, value in metadata(experiment, run, versions).items())),
    )


def _common(
    experiment: Experiment, run: Run, dataset: Sequence[str], many: int, requests: int, seed: int
) -> tuple[str, ...]:
    model = experiment.model
    rate = run.cell.series.request_rate if run.cell.cut == "grid" else CLOSED_LOOP
    return (
        *experiment.client.command,
        *("--backend", "openai", "--endpoint", "/v1/completions", "--base-url", base_url(experiment)),
        *("--model", model.name, *(("--tokenizer", model.tokenizer) if model.tokenizer else ())),
        *dataset,
        *("--num-prompts", str(requests), "--max-concurrency", str(many), "--request-rate", rate),
        *("--seed", str(seed), "--ignore-eos", "--temperature", "0"),
        *experiment.client.options,
    )


def metadata(experiment: Experiment, run: Run, versions: dict[str, str]) -> dict[str, str]:
    """Return what a result file is to tell of its cell, so that it can be gathered from anywhere."""
    cell = run.cell
    told = {
        "experiment": experiment.name,
        "variant": cell.series.variant,
        "kv_cache_dtype": cell.series.kv_cache_dtype,
        "cut": cell.cut,
        "context": str(cell.context),
        "concurrency": str(cell.concurrency),
        "repeat": str(run.repeat),
    }
    named = {f"{METADATA}{key}": value for key, value in told.items()}
    return named | {f"{name.replace(' ', '_')}_version": value for name, value in versions.items()}


def _dataset(experiment: Experiment, cell: Cell) -> tuple[str, ...]:
    if cell.cut != "prefix" or experiment.prefix is None:
        return _random(experiment, cell.context)
    tokens = prompt_tokens(experiment, cell.context)
    shared = min(tokens - 1, round(experiment.prefix.shared_share * tokens))
    return (
        *("--dataset-name", "prefix_repetition"),
        *("--prefix-repetition-prefix-len", str(shared), "--prefix-repetition-suffix-len", str(tokens - shared)),
        *("--prefix-repetition-num-prefixes", str(experiment.prefix.prefixes)),
        *("--prefix-repetition-output-len", str(experiment.grid.output_tokens)),
    )


def _random(experiment: Experiment, context: int) -> tuple[str, ...]:
    output = experiment.grid.output_tokens
    return (
        *("--dataset-name", "random", "--random-range-ratio", "0"),
        *("--random-input-len", str(prompt_tokens(experiment, context)), "--random-output-len", str(output)),
    )


def _longest(experiment: Experiment, series: Series) -> int:
    """Return the longest context that a series is asked; the engine refuses to start for one that it cannot hold."""
    contexts = [cell.context for cell in open_cells(experiment, series)]
    if experiment.mix is not None and any(cell.cut == "mix" for cell in open_cells(experiment, series)):
        contexts.append(experiment.mix.long_context)
    return max(contexts, default=max(experiment.grid.contexts))


def _has(words: Sequence[str], option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in words)
