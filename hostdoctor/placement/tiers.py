"""The ways to start a command under a binding with numactl, the best first: what a wrapper tries in this order."""

from typing import Literal

from hostdoctor.facts import Fact
from hostdoctor.placement.model import Binding, MemoryPolicy, Rank

TierName = Literal["bind", "preferred", "interleave", "cpus-only", "unbound"]


class Tier(Fact, frozen=True, kw_only=True):
    """One way: ``argv`` goes before the command, and alone before ``true`` to try it; empty where nothing is bound."""

    name: TierName
    argv: tuple[str, ...] = ()


def tiers(binding: Binding) -> tuple[Tier, ...]:
    """Return the ways to bind a whole command: as asked, then weaker, at last unbound.

    ``--cpunodebind`` asks libnuma whether there is a memory policy at all (2.0.19 and newer), so that the way without
    one names CPUs: numactl's ``--physcpubind``, then taskset.
    """
    whole = _nodes("--cpunodebind=", binding.nodes) if binding.whole_nodes else ()
    return _tiers(whole, binding.cpus if binding.limits_cpus else "", binding.mems, binding.policy)


def rank_tiers(binding: Binding, rank: Rank) -> tuple[Tier, ...]:
    """Return the ways to bind one rank's own command."""
    whole = binding.whole_nodes and rank.nodes == binding.nodes and rank.cpus == binding.cpus
    nodes = _nodes("--cpunodebind=", rank.nodes) if whole else ()
    return _tiers(nodes, rank.cpus if binding.limits_cpus else "", rank.mems, binding.policy)


def id_list(ids: tuple[int, ...]) -> str:
    """Return ids as numactl, docker and systemd take them: ``0,1``."""
    return ",".join(map(str, ids))


def ended(argv: tuple[str, ...], command: str) -> tuple[str, ...]:
    """Return ``argv`` as it goes before a command of this name: numactl would take a name ``-x`` for an option."""
    return (*argv, "--") if argv[:1] == ("numactl",) and command.startswith("-") else argv


def _tiers(whole: tuple[str, ...], cpus: str, mems: tuple[int, ...], policy: MemoryPolicy) -> tuple[Tier, ...]:
    listed = (f"--physcpubind={cpus}",) if cpus else ()
    placed = (whole or listed) if cpus else ()
    found = [
        Tier(name=name, argv=("numactl", *placed, *memory_option(name, mems)))
        for name in (("bind", "preferred") if policy == "bind" else (policy,))
        if mems
    ]
    if cpus:
        found.append(Tier(name="cpus-only", argv=("numactl", *listed)))
        found.append(Tier(name="cpus-only", argv=("taskset", "-c", cpus)))
    return (*found, Tier(name="unbound"))


def memory_option(policy: MemoryPolicy, mems: tuple[int, ...]) -> tuple[str, ...]:
    """Return numactl's option for a memory policy; none without nodes.

    Several preferred nodes take Linux 5.15 and a numactl that knows ``--preferred-many``.
    """
    options: dict[MemoryPolicy, str] = {
        "bind": "--membind=",
        "interleave": "--interleave=",
        "preferred": "--preferred=",
    }
    many = policy == "preferred" and len(mems) > 1
    return _nodes("--preferred-many=" if many else options[policy], mems)


def _nodes(option: str, ids: tuple[int, ...]) -> tuple[str, ...]:
    return (option + id_list(ids),) if ids else ()
