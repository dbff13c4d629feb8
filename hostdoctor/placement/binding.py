"""From chosen GPUs to a binding: nodes, CPUs within the caller's CPU set, memory nodes, policy, and the reasons."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from hostdoctor.diagnosis.cores import core_threads, count_cores, second_threads, wanted_cores
from hostdoctor.diagnosis.disagreements import placements, quoted
from hostdoctor.diagnosis.engines import ISOLATED
from hostdoctor.diagnosis.paths import is_c2c
from hostdoctor.diagnosis.subjects import nodes_by_id, online_cpus
from hostdoctor.errors import PlacementError
from hostdoctor.facts import Fact, Host
from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.placement.affinity import with_near_cpus
from hostdoctor.placement.model import Arm, Binding, MemoryPolicy, Rank, Reason, Selection
from hostdoctor.placement.nics import NearestNics, nearest_nics
from hostdoctor.placement.nodes import Place, far_places, near_places
from hostdoctor.placement.reach import Reach, reach_of

PolicyAsked = Literal["auto", "bind", "preferred", "interleave"]


class Cores(Fact, frozen=True, kw_only=True):
    """Physical cores among the bound CPUs, and whether limiting a command to them leaves it enough."""

    physical: int | None = None
    siblings: str | None = None
    limits_cpus: bool = True
    warnings: tuple[str, ...] = ()


def bind(
    host: Host,
    selection: Selection,
    *,
    policy: PolicyAsked,
    arm: Arm = "near",
    assume_node: int | None = None,
    use_isolated: bool = False,
    extra_processes: int = 0,
    fits: Mapping[int, bool | None] = {},
) -> Binding:
    """Return where a command that uses the selected GPUs goes.

    ``policy`` ``auto`` binds memory where ``fits`` does not say that it does not fit a node, and prefers the node
    where it does. ``arm`` ``far`` takes each GPU's farthest node instead. ``assume_node`` is used for GPUs of which no
    source tells the node. ``extra_processes`` are further API servers and engines beside the first of each.

    Raises UnknownNodeError where a GPU's node is not known, PlacementError where the caller cannot be bound to it,
    UsageError for an assumed node that cannot be one.
    """
    if not selection.gpus:
        raise PlacementError("no GPU selected: nothing to place")
    reach = reach_of(host, use_isolated=use_isolated)
    host, guessed = with_near_cpus(host)
    near = near_places(host, selection.gpus, assume_node, complete=not guessed)
    if arm == "far":
        places = far_places(host, near, reach)
        nodes_of = [place.nodes for place in places]
        left: tuple[str, ...] = ()
    else:
        places = near
        nodes_of, left = _within_reach(host, selection, places, reach)
    nodes = _union(nodes_of)
    decided, why = _policy(policy, nodes, fits)
    mems = _interleaved(host, nodes, reach) if decided == "interleave" else nodes
    cpus = _bindable(host, nodes, reach)
    cores = _cores(host, cpus, reach, wanted_cores(len(selection.gpus), extra_processes))
    nics = [nearest_nics(host, host.gpus[i]) for i in selection.gpus]
    ranks = tuple(
        Rank(
            gpu=label,
            nodes=own,
            mems=mems if decided == "interleave" else own,
            cpus=format_cpulist(_bindable(host, own, reach)),
            nics=near_nics.names,
        )
        for label, own, near_nics in zip(selection.labels, nodes_of, nics, strict=True)
    )
    return Binding(
        selection=selection,
        ranks=ranks,
        nodes=nodes,
        mems=mems,
        cpus=format_cpulist(cpus),
        whole_nodes=cpus == _all_cpus(host, nodes) and guessed.isdisjoint(nodes),
        limits_cpus=cores.limits_cpus,
        physical_cores=cores.physical,
        smt_siblings=cores.siblings,
        policy=decided,
        arm=arm,
        assumed=any(place.assumed for place in places),
        reasons=(
            *dict.fromkeys(place.reason for place in places),
            *_cpu_reasons(host, nodes, reach, guessed),
            *why,
            *_nic_reasons(selection, nics),
        ),
        warnings=tuple(
            dict.fromkeys(
                (
                    *(warning for place in places for warning in place.warnings),
                    *left,
                    *_doubts(host, selection, reach),
                    *_guesses(guessed.intersection(nodes)),
                    *cores.warnings,
                    *_alone(decided, mems),
                )
            )
        ),
    )


def _within_reach(
    host: Host, selection: Selection, places: Sequence[Place], reach: Reach
) -> tuple[list[tuple[int, ...]], tuple[str, ...]]:
    """Return each GPU's nodes that the caller may use, and a warning for each that is left out."""
    kept, warnings = [], []
    for label, place in zip(selection.labels, places, strict=True):
        refusals = {i: why for i in place.nodes if (why := refusal(host, i, reach)) is not None}
        own = tuple(i for i in place.nodes if i not in refusals)
        if not own:
            raise PlacementError(f"{label}: {'; '.join(refusals.values())}")
        kept.append(own)
        warnings += [f"{label}: {why}: left out" for why in refusals.values()]
    return kept, tuple(warnings)


def refusal(host: Host, node_id: int, reach: Reach) -> str | None:
    """Return why the caller cannot be bound to a node, None where nothing forbids it."""
    node = nodes_by_id(host)[node_id]
    if reach.mems is not None and node_id not in reach.mems:
        return f"the caller's memory nodes (Mems_allowed_list {host.allowed.mems}) leave out node {node_id} (HD106)"
    if not reach.allowed(node):
        return f"the caller's CPU set (Cpus_allowed_list {host.allowed.cpus}) leaves out node {node_id} (HD106)"
    if not reach.bindable(node):
        return f"all CPUs of node {node_id} that the caller may use are isolated (HD112): --use-isolated binds to them"
    return None


def _policy(
    asked: PolicyAsked, nodes: Iterable[int], fits: Mapping[int, bool | None]
) -> tuple[MemoryPolicy, tuple[Reason, ...]]:
    if asked != "auto":
        return asked, (Reason(text=f"memory policy {asked}: as asked"),)
    short = [i for i in nodes if fits.get(i) is False]
    if short:
        text = (
            f"memory policy preferred: node {format_cpulist(short)} has no room for it (`hostdoctor budget`); what"
            " spills is elsewhere: once it runs, `hostdoctor ps` tells where its memory is"
        )
        return "preferred", (Reason(text=text),)
    if all(fits.get(i) for i in nodes):
        return "bind", (Reason(text="memory policy bind: the memory asked for fits the node"),)
    untold = (
        "memory policy bind: whether the memory fits could not be told; --policy preferred spills where it does not"
    )
    return "bind", (Reason(text=untold),)


def _interleaved(host: Host, nodes: tuple[int, ...], reach: Reach) -> tuple[int, ...]:
    """Return the memory nodes to spread over: those of the binding, or for a single one all that may be used."""
    if len(nodes) > 1:
        return nodes
    others = (node.id for node in host.numa_nodes if reach.is_home(node))
    return _union([nodes, others])


def _alone(policy: MemoryPolicy, mems: tuple[int, ...]) -> tuple[str, ...]:
    if policy != "interleave" or len(mems) > 1:
        return ()
    return (f"memory policy interleave: node {mems[0]} is the only one, so that nothing is spread",)


def _cores(host: Host, cpus: frozenset[int], reach: Reach, wanted: int) -> Cores:
    if not cpus <= frozenset[int]().union(*core_threads(host)):
        return Cores()
    physical = count_cores(host, cpus)
    siblings = format_cpulist(second_threads(host, cpus))
    if physical >= wanted:
        return Cores(physical=physical, siblings=siblings)
    everywhere = online_cpus(host) if reach.cpus is None else reach.cpus
    elsewhere = count_cores(host, (everywhere or cpus) - reach.isolated)
    few = f"{physical} physical core{'s' if physical > 1 else ''} in the binding, {wanted} wanted (HD115)"
    if elsewhere <= physical:
        return Cores(physical=physical, siblings=siblings, warnings=(f"{few}: the caller may use no more",))
    placed = f"{few}, {elsewhere} may be used: memory is placed, the CPUs are not limited"
    return Cores(physical=physical, siblings=siblings, limits_cpus=False, warnings=(placed,))


def _guesses(nodes: Iterable[int]) -> Iterable[str]:
    ids = sorted(nodes)
    if ids:
        those = f"CPUs of node{'s' if len(ids) > 1 else ''} {format_cpulist(ids)}"
        yield f"{those} are known from GPUs alone, the memory there is not (numactl --hardware tells both)"


def _cpu_reasons(host: Host, nodes: Iterable[int], reach: Reach, guessed: frozenset[int]) -> Iterable[Reason]:
    by_id = nodes_by_id(host)
    whole = _all_cpus(host, nodes)
    for i in nodes:
        source = "CPU affinity of its GPUs" if i in guessed else f"/sys/devices/system/node/node{i}/cpulist"
        yield Reason(text=f"CPUs of node {i}", source=source, value=by_id[i].cpus)
    if reach.cpus is not None and not whole <= reach.cpus:
        text = "CPUs outside the caller's CPU set are left out"
        yield Reason(text=text, source="/proc/self/status Cpus_allowed_list", value=host.allowed.cpus)
    for name in ISOLATED if whole & reach.isolated else ():
        if shown := host.settings.get(name):
            file = f"/sys/devices/system/cpu/{name.partition('.')[2]}"
            yield Reason(text="isolated CPUs are left out", source=file, value=shown)


def _nic_reasons(selection: Selection, nics: Sequence[NearestNics]) -> Iterable[Reason]:
    told = [
        f"{label} {', '.join(n.names)} ({n.kind})" for label, n in zip(selection.labels, nics, strict=True) if n.names
    ]
    if told:
        yield Reason(text=f"nearest RDMA NICs: {'; '.join(told)}")
    untold = list(dict.fromkeys(name for near in nics for name in near.untold))
    if untold:
        yield Reason(text=f"whether {', '.join(untold)} can do RDMA is not known: not among the NICs")


def _doubts(host: Host, selection: Selection, reach: Reach) -> Iterable[str]:
    if reach.cpus is None:
        yield "the caller's CPU set was not told: taken as the whole host"
    for label, i in zip(selection.labels, selection.gpus, strict=True):
        for disagreement in () if is_c2c(host.gpus[i]) else placements(host, i):
            told = ", ".join(f"{source} {value}" for source, value in quoted(host, i, disagreement))
            yield f"{label}: sources disagree (HD102): {told}; placed by the first of them"


def _bindable(host: Host, nodes: Iterable[int], reach: Reach) -> frozenset[int]:
    by_id = nodes_by_id(host)
    return frozenset[int]().union(*(reach.bindable(by_id[i]) for i in nodes))


def _all_cpus(host: Host, nodes: Iterable[int]) -> frozenset[int]:
    everything = Reach(cpus=None, mems=None, isolated=frozenset())
    return _bindable(host, nodes, everything)


def _union(groups: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(sorted({i for group in groups for i in group}))
