"""The plan for a person at a terminal: at most 25 lines first, everything with ``show_all``."""

from collections.abc import Iterator

from hostdoctor.budget.options import Option
from hostdoctor.budget.plan import Fit, Plan, Precision
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import gib, plural, printable

FIRST_SCREEN_LINES = 25
SHOWN_PRECISIONS = ("bf16", "fp8", "nvfp4", "fp8_ds_mla", "nvfp4_ds_mla")
_DAYS = {"normal": "normal request", "long": "long dialogue", "bad-day": "bad day"}


def render_plan(plan: Plan, style: Style, *, show_all: bool = False) -> str:
    """Return the plan as text; ``show_all`` adds every precision, the options, the log, notes and remedies' numbers."""
    head = [_headline(plan, style), *_memory(plan), *_table(plan, show_all=show_all), *_traffic(plan)]
    head += [f"  {_fit_words(fit, plan.max_tokens)}" for fit in plan.profiles if _is_known(fit)]
    head += [*_alive(plan), *_remedies(plan, style)]
    if show_all:
        tail = [*_options(plan, style), *_log(plan), *_notes(plan, style), *_missing(plan, style, None)]
    else:
        room = FIRST_SCREEN_LINES - sum(line.count("\n") + 1 for line in head) - 1
        tail = [
            *_missing(plan, style, room),
            style.paint("--all shows every precision, other hardware and notes", "dim"),
        ]
    return "\n".join([*head, *tail]) + "\n"


def _headline(plan: Plan, style: Style) -> str:
    word, colour = {True: ("FITS", "ok"), False: ("DOES NOT FIT", "critical"), None: ("NOT KNOWN", "unknown")}[
        plan.fits
    ]
    model = printable(plan.model_type or "stated KV") if plan.config or plan.kv.bytes_per_token_total else "no model"
    gpus = f"{plural(plan.tp, 'GPU')} ({printable(plan.gpu or 'memory not known')})"
    return f"{style.paint(word, colour)}{_but(plan)}  {model} on {gpus} a replica"


def _but(plan: Plan) -> str:
    """Say of a plan that fits which day it is not for: the verdict judges the normal and the long one."""
    bad = plan.replicas and any(fit.fits is False for fit in plan.profiles if fit.name == "bad-day")
    return " but for a bad day" if plan.fits and bad else ""


def _memory(plan: Plan) -> Iterator[str]:
    vram, kv = plan.vram, plan.kv
    if vram.gpu_bytes is not None:
        parts = (
            ("measured use", vram.used_bytes),
            ("weights", vram.weights_bytes),
            ("reserve", vram.reserve_bytes),
            ("KV", vram.kv_bytes),
        )
        told = ", ".join(f"{name} {gib(size)}" for name, size in parts if size is not None)
        yield f"Each GPU, {gib(vram.gpu_bytes)}: {told}"
        if vram.short_bytes:
            yield f"  too small by {gib(vram.short_bytes)}: {_larger(plan)}"
        if vram.planned_kv_bytes is not None:
            taken, left = gib(vram.planned_kv_bytes), gib(vram.batch_room_bytes)
            yield f"  of the KV {_judged(plan)} take {taken}; {left} are left for the batch"
    if kv.bytes_per_token_per_rank is not None:
        total = "" if plan.tp == 1 else f", {kv.bytes_per_token_total:,} B on all"
        state = f", and up to {kv.state_bytes_per_sequence:,} B a sequence" if kv.state_bytes_per_sequence else ""
        named = f" in {kv.kv_dtype}" if kv.kv_dtype else ""
        each = f"{kv.bytes_per_token_per_rank:,} B a token on each GPU"
        yield f"KV{named}: {each}{total}{state}; blocks of {kv.block_tokens}"


def _larger(plan: Plan) -> str:
    """Return what could make room; the reserve alone only where it is larger than what lacks."""
    vram = plan.vram
    if (vram.reserve_bytes or 0) > (vram.short_bytes or 0):
        return "more GPUs a replica (--tp), smaller weights, or a smaller reserve (--reserve-percent)"
    return "more GPUs a replica (--tp) or smaller weights"


def _judged(plan: Plan) -> str:
    """Return whose planned requests the split shows: the long dialogue's where they are known."""
    known = {fit.name for fit in plan.profiles if fit.session_bytes is not None and fit.planned_requests is not None}
    return "long dialogues" if "long" in known else "normal requests"


def _table(plan: Plan, *, show_all: bool) -> Iterator[str]:
    """Yield the sequences that one replica holds, by context and precision."""
    if not plan.sessions:
        return
    columns = [found for found in plan.precisions if found.sessions and _is_shown(plan, found, show_all=show_all)]
    names = [found.kv_dtype for found in columns] or ["sequences"]
    rows = [found.sessions for found in columns] or [plan.sessions]
    widths = [max(len(name), 9) for name in names]
    yield "Sequences at once  " + "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True))
    for at, session in enumerate(plan.sessions):
        cells = [f"{row[at].sessions:,}".rjust(width) for row, width in zip(rows, widths, strict=True)]
        most = " (max)" if session.context_tokens == plan.max_tokens else ""
        yield f"{f'  {session.context_tokens:,}{most}':<19}" + "  ".join(cells)


def _is_shown(plan: Plan, found: Precision, *, show_all: bool) -> bool:
    return show_all or found.kv_dtype in (*SHOWN_PRECISIONS, plan.kv.kv_dtype)


def _traffic(plan: Plan) -> Iterator[str]:
    traffic = plan.traffic
    if traffic.active_requests is None and traffic.output_tokens_per_s is None:
        return
    peak = ""
    if traffic.peak_active_requests is not None:
        peak = f"; at the peak {_number(traffic.peak_active_requests)}"
        if traffic.peak_output_tokens_per_s is not None:
            peak += f" and {_number(traffic.peak_output_tokens_per_s)}"
    margin = f"margin for growth {traffic.growth_percent:g} %"
    active, tokens = _number(traffic.active_requests), _number(traffic.output_tokens_per_s)
    yield f"Traffic: {active} requests at once, {tokens} output tokens/s{peak}; {margin}"


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def _is_known(fit: Fit) -> bool:
    return fit.context_tokens is not None or fit.planned_requests is not None


def _fit_words(fit: Fit, limit: int | None) -> str:
    tokens = "?" if fit.context_tokens is None else f"{fit.context_tokens:,}"
    requests = "?" if fit.planned_requests is None else f"{fit.planned_requests:,}"
    text = f"{_DAYS[fit.name]}: {requests} requests of {tokens} tokens"
    if limit is not None and (fit.context_tokens or 0) > limit:
        return f"{text}, longer than the model's {limit:,}"
    if fit.sessions_per_replica is not None:
        text += f", {fit.sessions_per_replica:,} fit on a replica"
    if fit.replicas is not None:
        text += f": {plural(fit.replicas, 'replica')}, {fit.replicas_n_plus_1} with one node down"
    if fit.fits_one_down is False:
        text += " (not with one of yours down)" if fit.fits else " (not on yours)"
    return text


def _alive(plan: Plan) -> Iterator[str]:
    if plan.alive_kv_bytes is None:
        return
    where = "" if plan.tp == 1 else " on each rank"
    held = f"{plan.traffic.sessions:,} sessions alive would hold {gib(plan.alive_kv_bytes)} of KV{where}"
    if plan.vram.kv_bytes is None:
        yield f"  {held}"
        return
    engines = plan.replicas or 1
    room = plan.vram.kv_bytes * engines
    rest = "all of it stays" if room >= plan.alive_kv_bytes else "what does not fit is computed again when they go on"
    yield f"  {held}, {plural(engines, 'replica')} {'has' if engines == 1 else 'have'} {gib(room)}: {rest}"


def _remedies(plan: Plan, style: Style) -> list[str]:
    if not plan.remedies:
        return []
    where = "on one replica" if plan.replicas is None else f"on {plural(plan.replicas, 'replica')}"
    day = next((f", {_DAYS[fit.name]}" for fit in plan.profiles if fit.short_bytes), "")
    lines = [f"KV is what does not fit {where}{day}. In this order:"]
    return lines + [style.wrap(f"{at}. {remedy.text}", "  ", "     ") for at, remedy in enumerate(plan.remedies, 1)]


def _missing(plan: Plan, style: Style, room: int | None) -> list[str]:
    if not plan.missing:
        return ["No figure is missing."]
    shown = plan.missing if room is None else plan.missing[: max(1, room - 2)]
    lines = [f"Not finished, {plural(len(plan.missing), 'figure')} missing:"]
    lines += [style.wrap(f"- {printable(text)}", "  ", "    ") for text in shown]
    if len(shown) < len(plan.missing):
        lines[-1] += f" (and {len(plan.missing) - len(shown)} more)"
    return lines


def _options(plan: Plan, style: Style) -> Iterator[str]:
    if not plan.options:
        return
    context = next((option.context_tokens for option in plan.options if option.context_tokens), None)
    yield f"Side by side, {context:,} tokens a request:" if context else "Side by side:"
    for option in plan.options:
        yield style.wrap(_option_words(option), "  ", "    ")


def _option_words(option: Option) -> str:
    text = f"{option.name}: {printable(option.gpu or 'this GPU')} x {option.tp}"
    if option.sessions is not None:
        text += f", KV {gib(option.kv_bytes)} each, {option.sessions:,} requests a replica"
    if option.replicas is not None:
        text += f", {plural(option.replicas, 'replica')} and one spare, {plural(option.gpus_total or 0, 'GPU')} in all"
    return f"{text}. {printable(option.note)}"


def _log(plan: Plan) -> Iterator[str]:
    log = plan.log
    if log is None:
        return
    rates = ", ".join(
        f"{name} {_number(rate)}/s"
        for name, rate in (("normal hour", log.rps), ("busiest minute", log.peak_rps), ("second", log.burst_rps))
    )
    yield f"Log: {plural(log.requests, 'request')} ({log.malformed} malformed lines left out); {rates}"
    for name, tokens in (("input", log.input_tokens), ("output", log.output_tokens)):
        mean, p95, p99 = (_number(value) for value in (tokens.mean, tokens.p95, tokens.p99))
        yield f"  {name} tokens: mean {mean}, p95 {p95}, p99 {p99}"


def _notes(plan: Plan, style: Style) -> Iterator[str]:
    for note in plan.notes:
        yield style.wrap(f"note: {printable(note)}", "  ", "    ")
    for found in plan.precisions:
        if found.unsupported:
            yield style.wrap(f"note: {printable(found.unsupported)}", "  ", "    ")
