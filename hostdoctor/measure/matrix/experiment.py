"""The experiment file: what is served, how it is driven, which cells there are, what they must keep to."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact
from hostdoctor.measure.matrix.strict import read_toml

Kind = Literal["vram", "weights", "kv-ram", "nvme", "other"]
Cut = Literal["grid", "mix", "prefix"]
Tokens = Annotated[int, msgspec.Meta(ge=2, le=10**8)]
Many = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$(?!\n)")]
MAX_CELLS = 20_000


class Slo(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What interactive use needs, in milliseconds at the 99th percentile; a latency that is left out is not judged."""

    ttft_p99_ms: Annotated[float, msgspec.Meta(gt=0)] | None = None
    itl_p99_ms: Annotated[float, msgspec.Meta(gt=0)] | None = None


class Model(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model as the engine and the client are told it."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    tokenizer: str = ""


class Server(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words that start the engine, the same for every variant; no shell reads them."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    environment: dict[str, str] = {}  # noqa: RUF012  msgspec copies it
    ready_url: str = ""
    ready_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 1800.0
    metrics_url: str = ""
    engine_version: str = ""


class Binding(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server is started: near these GPUs, on this node without a GPU, or as it is (``bind`` false)."""

    gpus: str = ""
    node: Annotated[int, msgspec.Meta(ge=0)] | None = None
    bind: bool = True


class Client(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words before and after those that name a cell, and the CPUs that the client gets to itself."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("vllm", "bench", "serve")
    options: tuple[str, ...] = ()
    environment: dict[str, str] = {}  # noqa: RUF012  msgspec copies it
    cpus: str = ""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 3600.0


class Contract(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tier on NVMe is for, in words: a tier without these answers is a leak with a cache in front."""

    holds: str
    cold_when: str
    answers_before_it_returns: str
    cleaned_by: str
    when_full: str
    when_restarted: str


class Variant(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to hold weights and KV: words added to the server's, and what they mean.

    ``struck`` says why the whole variant is left out; ``disks`` are what the kernel calls the drives of its tier.
    """

    name: Name
    kind: Kind = "other"
    title: str = ""
    args: tuple[str, ...] = ()
    environment: dict[str, str] = {}  # noqa: RUF012  msgspec copies it
    disks: tuple[str, ...] = ()
    struck: str = ""
    contract: Contract | None = None


class Grid(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The axes. ``contexts`` are tokens of prompt and answer together. No ``request_rates``: a closed loop."""

    contexts: Annotated[tuple[Tokens, ...], msgspec.Meta(min_length=1, max_length=64)]
    concurrency: Annotated[tuple[Many, ...], msgspec.Meta(min_length=1, max_length=64)]
    output_tokens: Many = 256
    kv_cache_dtypes: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=16)] = ("auto",)
    request_rates: Annotated[tuple[Rate, ...], msgspec.Meta(max_length=16)] = ()


class Mix(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Short requests with a constant small share of long ones beside them; what the short ones see is judged."""

    short_context: Tokens
    long_context: Tokens
    long_share: Annotated[float, msgspec.Meta(gt=0, le=0.5)] = 0.05
    concurrency: Annotated[tuple[Many, ...], msgspec.Meta(min_length=1, max_length=64)]


class Prefix(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cut in which the prefix cache is the point: prompts that share their beginnings."""

    context: Tokens
    shared_share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.9
    prefixes: Many = 4
    concurrency: Annotated[tuple[Many, ...], msgspec.Meta(min_length=1, max_length=64)]


class Load(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of it: requests of a cell (at least so many a slot), warm-up requests before, repeats of every cell."""

    requests: Many = 400
    requests_per_slot: Many = 8
    warm_ups: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 8
    repeats: Annotated[int, msgspec.Meta(ge=1, le=50)] = 3
    seed: Annotated[int, msgspec.Meta(ge=0, le=10**6)] = 1


class Struck(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cells that cannot be, from a concurrency up, and why."""

    variant: Name
    kv_cache_dtype: Name
    context: Tokens
    from_concurrency: Many = 1
    reason: str


class Signals(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is looked at beside the clients: disks by the kernel's names; none named: every NVMe drive."""

    disks: tuple[str, ...] = ()


class Experiment(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    schema_version: Literal["1"] = "1"
    name: Name = "matrix"
    slo: Slo
    model: Model
    server: Server
    binding: Binding = Binding()
    client: Client = Client()
    grid: Grid
    mix: Mix | None = None
    prefix: Prefix | None = None
    load: Load = Load()
    signals: Signals = Signals()
    variants: Annotated[tuple[Variant, ...], msgspec.Meta(min_length=1, max_length=32)]
    struck: tuple[Struck, ...] = ()


def read_experiment(path: Path) -> Experiment:
    """Return the experiment in a file; raise UsageError where it is none, or contradicts itself."""
    return checked(read_toml(path, Experiment), str(path))


def checked(experiment: Experiment, name: str) -> Experiment:
    """Return an experiment whose parts agree; raise UsageError for one whose parts do not."""
    wrong = next(filter(None, (find(experiment) for find in _FINDINGS)), None)
    if wrong is not None:
        raise UsageError(f"{name}: {wrong}")
    return experiment


def _no_slo(experiment: Experiment) -> str | None:
    limits = [limit for limit in (experiment.slo.ttft_p99_ms, experiment.slo.itl_p99_ms) if limit is not None]
    if not limits or not all(map(math.isfinite, limits)):
        return "slo: give ttft_p99_ms, itl_p99_ms or both, in milliseconds"
    return None


def _twice(experiment: Experiment) -> str | None:
    grid = experiment.grid
    mix, prefix = experiment.mix, experiment.prefix
    names = [re.sub("[._]", "-", variant.name).lower() for variant in experiment.variants]  # as jobs are named
    lists: dict[str, Sequence[object]] = {
        "variants": names,
        "grid.contexts": grid.contexts,
        "grid.concurrency": grid.concurrency,
        "grid.kv_cache_dtypes": grid.kv_cache_dtypes,
        "grid.request_rates": [f"{rate:g}" for rate in grid.request_rates],
        "mix.concurrency": mix.concurrency if mix else (),
        "prefix.concurrency": prefix.concurrency if prefix else (),
    }
    return next((f"{name}: one is named twice" for name, told in lists.items() if len(set(told)) < len(told)), None)


def _no_room_for_a_prompt(experiment: Experiment) -> str | None:
    output = experiment.grid.output_tokens
    contexts = [*experiment.grid.contexts]
    contexts += [experiment.mix.short_context, experiment.mix.long_context] if experiment.mix else []
    contexts += [experiment.prefix.context] if experiment.prefix else []
    least = min(contexts)
    return (
        f"a context of {least} tokens leaves none for a prompt (output_tokens = {output})" if least <= output else None
    )


def _unknown_variant(experiment: Experiment) -> str | None:
    names = {variant.name for variant in experiment.variants}
    return next(
        (f"struck: no variant is called {one.variant}" for one in experiment.struck if one.variant not in names), None
    )


def _no_contract(experiment: Experiment) -> str | None:
    bare = (v.name for v in experiment.variants if v.kind == "nvme" and v.contract is None and not v.struck)
    return next((f"variant {name}: a tier on NVMe needs its contract ([variants.contract])" for name in bare), None)


def _too_many(experiment: Experiment) -> str | None:
    grid = experiment.grid
    series = len(experiment.variants) * len(grid.kv_cache_dtypes) * max(1, len(grid.request_rates))
    cuts = (cut for cut in (experiment.mix, experiment.prefix) if cut is not None)
    cells = len(grid.contexts) * len(grid.concurrency) + sum(len(cut.concurrency) for cut in cuts)
    count = series * cells * experiment.load.repeats
    return f"{count} runs: more than {MAX_CELLS}" if count > MAX_CELLS else None


def _lonely_mix(experiment: Experiment) -> str | None:
    lonely = experiment.mix is not None and min(experiment.mix.concurrency) < 2
    return "mix.concurrency: 1 at once is no mix: a long request and a short one are 2" if lonely else None


def _no_words(experiment: Experiment) -> str | None:
    """Tell of words and variables that no process can be started with."""
    if any("\0" in word for word in _words(experiment)):
        return "a word or a variable has a NUL in it: no process can be started with that"
    told = [experiment.server.environment, experiment.client.environment]
    told += [variant.environment for variant in experiment.variants]
    names = (name for variables in told for name in variables)
    return next((f"environment: {n!r} is no variable's name" for n in names if not _VARIABLE.fullmatch(n)), None)


def _words(experiment: Experiment) -> Iterator[str]:
    server, client = experiment.server, experiment.client
    yield from (*server.command, *client.command, *client.options, experiment.model.name, experiment.model.tokenizer)
    for variant in experiment.variants:
        yield from (*variant.args, *variant.environment.values())
    yield from (*server.environment.values(), *client.environment.values())


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FINDINGS = (
    _no_slo, _twice, _no_room_for_a_prompt, _unknown_variant, _no_contract, _too_many, _lonely_mix, _no_words,
)  # fmt: skip
