"""The budget for a person at a terminal: a bar for each node, the limits, the options, what is to be said."""

from collections.abc import Iterator

from hostdoctor.budget.advice import size_words
from hostdoctor.budget.document import BudgetDocument
from hostdoctor.budget.pinned import Budget, NodeBudget
from hostdoctor.facts import Host
from hostdoctor.outputs.style import Style
from hostdoctor.outputs.words import host_words, plural, printable

BAR = 60
LEGEND = "#=in use and kernel a=engine's growth c=page cache r=reserve W=weights K=KV cache .=free"
_WORD = {True: "FITS", False: "DOES NOT FIT", None: "NOT KNOWN"}
_TONE = {True: "ok", False: "critical", None: "unknown"}


def render_budget(host: Host, budget: Budget, told: BudgetDocument, style: Style, *, has_plan: bool) -> str:
    """Return the budget as text."""
    lines = [_headline(host, told, style, has_plan=has_plan), ""]
    for node in budget.nodes:
        lines += _node(node)
    if any(node.memory_bytes for node in budget.nodes):
        lines += [f"  {LEGEND}", ""]
    lines += _taken(host)
    lines += _shares(told)
    lines += _limits(told)
    lines += _options(told)
    for finding in told.findings:
        word = finding.severity if finding.severity == "info" else finding.severity.upper()
        lines.append(style.wrap(printable(finding.message), f"  {style.paint(word, finding.severity)} ", "    "))
        if finding.severity != "info":
            lines.append(style.wrap(f"do: {printable(finding.remedy.text)}", "    ", "        "))
    return "\n".join(lines) + "\n"


def _headline(host: Host, told: BudgetDocument, style: Style, *, has_plan: bool) -> str:
    word = style.paint(_WORD[told.fits], _TONE[told.fits]) if has_plan else style.paint("BUDGET", "bold")
    if told.total.pinnable_bytes is None:
        total = f"how much may be pinned is not known: {printable(told.reason or 'no source tells')}"
    else:
        total = (
            f"{size_words(told.total.pinnable_bytes)} may be pinned, bound by {printable(told.total.bound_by or '?')}"
        )
    reason = f" ({printable(told.reason)})" if has_plan and told.fits is None and told.reason else ""
    return f"{word}  {host_words(host)}: {total}{reason if told.total.pinnable_bytes is not None else ''}"


def _node(node: NodeBudget) -> list[str]:
    if not node.memory_bytes:
        return [f"  node {node.id}: " + ("no memory" if node.memory_bytes == 0 else "its memory is not known")]
    may = f"not known ({printable(node.reason or '?')})"
    if node.pinnable_bytes is not None:
        may = f"{size_words(node.pinnable_bytes)} ({printable(node.bound_by or '?')})"
    available = "?" if node.available_bytes is None else size_words(node.available_bytes)
    planned = sum(part or 0 for part in (node.weights_bytes, node.kv_bytes))
    words = f"{size_words(node.memory_bytes)}, {available} available, may pin {may}"
    lines = [f"  node {node.id}: {words}" + (f", planned {size_words(planned)}" if planned else "")]
    return [*lines, f"    [{_bar(node)}]"] if node.available_bytes is not None else lines


def _bar(node: NodeBudget) -> str:
    """Return the node's memory in 60 characters; what is planned beyond its end is cut off there."""
    total = node.memory_bytes or 1
    parts = (
        ("#", total - (node.available_bytes or 0)),
        ("a", node.growth_bytes or 0),
        ("c", node.cache_bytes),
        ("r", node.reserve_bytes),
        ("W", node.weights_bytes or 0),
        ("K", node.kv_bytes or 0),
    )
    bar, end = "", 0
    for letter, size in parts:
        end += size
        least = len(bar) + (size > 0)  # a part that is there is seen
        bar += letter * (max(least, round(end * BAR / total)) - len(bar))
    return bar[:BAR].ljust(BAR, ".")


def _taken(host: Host) -> Iterator[str]:
    """Say what is pinned or reserved already; neither is in what is available."""
    found = [f"pinned now {size_words(host.memory.pinned_bytes)}"] if host.memory.pinned_bytes else []
    for node in host.numa_nodes:
        pages = sum(pool.size_bytes * pool.total for pool in node.hugepages)
        found += [f"node {node.id} huge pages {size_words(pages)}"] if pages else []
    if found:
        yield f"  Taken already: {', '.join(found)}"
        yield ""


def _shares(told: BudgetDocument) -> Iterator[str]:
    if not any(share.weights_bytes or share.kv_bytes for share in told.shares):
        return
    yield "  Shares:"
    for share in told.shares:
        where = f"node {share.node}" if share.node is not None else f"node not known: {share.reason}"
        sizes = f"weights {size_words(share.weights_bytes)}, KV {size_words(share.kv_bytes)}"
        gpu = f" {printable(share.gpu)}" if share.gpu else ""
        yield f"    rank {share.rank}{gpu}, {printable(where)}: {sizes}"
    yield ""


def _limits(told: BudgetDocument) -> Iterator[str]:
    if told.limits:
        yield "  Limits beside the nodes:"
        for limit in told.limits:
            room = size_words(limit.bytes) if limit.bytes is not None else f"not known: {limit.reason}"
            yield f"    {printable(limit.name)}: {printable(room)}"
        yield ""


def _options(told: BudgetDocument) -> Iterator[str]:
    import shlex

    if told.weights.rounding_factor is not None:
        yield f"  Offloaded weights pin {told.weights.rounding_factor:.3f} times their size ({told.weights.source})"
    if told.kv_offload.chunks is not None:
        kv = told.kv_offload
        yield f"  KV pool: {plural(kv.chunks or 0, 'chunk')} of {kv.bytes_per_chunk} bytes, {kv.tokens} tokens"
    words = [f"{name}={value}" for name, value in told.environment.items()] + [shlex.quote(w) for w in told.flags]
    if words:
        yield f"  Options: {' '.join(words)}"
        yield ""
