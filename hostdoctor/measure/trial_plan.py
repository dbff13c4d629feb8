"""What an experiment will do, before it does it: order of runs, commands with their placeholders, what it could see."""

import math
import shlex
from collections.abc import Sequence
from functools import reduce

from hostdoctor.errors import UsageError
from hostdoctor.measure.paired import detectable_ratio
from hostdoctor.measure.trial_model import Arm, Plan, Role, Trial

LOAD_SHARE = 0.80  # of the slower arm's capacity: above it queues grow and tails measure the queue
MAX_PAIRS, MAX_WARM_UPS = 100, 10
SPREADS = (0.02, 0.05, 0.20)  # how much runs of one arm may vary, for the forecast
PLACEHOLDERS = ("{result}", "{seed}", "{rate}", "{run}")
_ORDER: tuple[Role, ...] = ("far", "current", "near", "again")  # near beside current and beside its control


def roles_of(arms: Sequence[str], *, control: bool) -> tuple[Role, ...]:
    """Return the roles of one pair in their order, for ``--arms``; near twice is the control alone.

    Raises UsageError for what is no arm, and without near: every comparison is against it.
    """
    for arm in arms:
        if arm not in ("near", "far", "current"):
            raise UsageError(f"--arms: {arm[:40]!r} is none of current, near, far")
    if "near" not in arms:
        raise UsageError("--arms: near must be among them: the others are compared with it")
    if list(arms).count("near") > 2 or any(list(arms).count(arm) > 1 for arm in ("far", "current")):
        raise UsageError("--arms: each once (near,near is near against itself)")
    wanted = set(arms) | ({"again"} if control or list(arms).count("near") == 2 else set())
    if len(wanted) < 2:
        raise UsageError("--arms: near alone is compared with nothing: near,near is near against itself")
    return tuple(role for role in _ORDER if role in wanted)


def trials(plan: Plan) -> tuple[Trial, ...]:
    """Return every run in its order: warm-ups, one probe of each arm's capacity, then the pairs, A B B A."""
    found: list[tuple[str, Role, int | None]] = [("warm-up", "near", None)] * plan.warm_ups
    if plan.probes:
        found += [("probe", role, None) for role in plan.order if role != "again"]
    for pair in range(plan.pairs):
        order = plan.order if pair % 2 == 0 else plan.order[::-1]
        found += [("run", role, pair) for role in order]
    return tuple(
        Trial(number=number, kind=kind, role=role, pair=pair)  # type: ignore[arg-type]
        for number, (kind, role, pair) in enumerate(found)
    )


def why_unusable(plan: Plan) -> str | None:
    """Return why a plan that was read from a file cannot be carried out; None where it can."""
    roles = set(plan.order)
    if "near" not in roles or len(roles) != len(plan.order) or len(roles) < 2:
        return f"an order that is none: {', '.join(plan.order)}"
    if not all(("near" if role == "again" else role) in plan.arms for role in roles):
        return "an arm is missing"
    if not (1 <= plan.pairs <= MAX_PAIRS and 0 <= plan.warm_ups <= MAX_WARM_UPS):
        return f"{plan.pairs} pairs after {plan.warm_ups} warm-ups"
    lacks = plan.server and (plan.ready_url is None or not plan.client)
    return "a server without a client or an address" if lacks else None


def arm_of(plan: Plan, role: Role) -> Arm:
    """Return how a role is started; near again is near."""
    return plan.arms["near" if role == "again" else role]


def seed_of(trial: Trial) -> int:
    """Return a run's seed: the same within a pair, another for every pair."""
    return 1 + trial.pair if trial.pair is not None else 1000 + trial.number


def rate_of(plan: Plan, trial: Trial, found: float | None) -> float | str | None:
    """Return what stands for ``{rate}``: everything at once in a probe, else as stated or found."""
    if trial.kind == "probe":
        return "inf"
    rate = plan.rate_per_s if plan.rate_per_s is not None else found
    return "inf" if rate is None and plan.probes else rate


def filled(words: Sequence[str], values: dict[str, str]) -> tuple[str, ...]:
    """Return words with the placeholders in them replaced; other braces are left alone."""
    return tuple(reduce(lambda text, pair: text.replace(*pair), values.items(), word) for word in words)


def uses(words: Sequence[str], placeholder: str) -> bool:
    """Tell whether a placeholder stands in the words."""
    return any(placeholder in word for word in words)


def values_of(trial: Trial, result: str, rate: float | str | None) -> dict[str, str]:
    """Return the placeholders' values in one run."""
    told = "inf" if rate is None else rate if isinstance(rate, str) else f"{rate:g}"
    return dict(zip(PLACEHOLDERS, (result, str(seed_of(trial)), told, str(trial.number)), strict=True))


def workload(plan: Plan) -> tuple[str, ...]:
    """Return the words that hold the placeholders: the client's, or the workload's own."""
    return plan.client if plan.server else plan.arms["near"].argv


def detectable(pairs: int, spread: float) -> float:
    """Return the smallest ratio seen four times in five by so many pairs whose runs vary by ``spread`` (a share)."""
    return detectable_ratio(spread * math.sqrt(2), pairs) or 1.0


def rate_found(capacities: Sequence[float]) -> float:
    """Return 80 % of the slowest arm's capacity, two digits, rounded down."""
    rate = LOAD_SHARE * min(capacities)
    unit = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return math.floor(rate / unit + 1e-9) * unit


def command_line(words: Sequence[str], environment: dict[str, str]) -> str:
    """Return words as a shell would be given them, variables first."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    return " ".join((*variables, shlex.join(words)))
