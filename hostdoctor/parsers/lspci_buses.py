"""The tree behind an lspci listing: bridges print their secondary and subordinate buses in ``-v``."""

from collections.abc import Iterable, Mapping, Sequence, Set

from hostdoctor.parsers.lspci_records import LspciFunction


def upstream_from_buses(functions: Iterable[LspciFunction]) -> dict[str, tuple[str, ...]]:
    """Return each function's bridges, root port first, by the bridges' secondary buses; ``()`` on a root bus.

    A function is left out unless its chain is certain: every bus on the way is the secondary bus of exactly one
    bridge whose range lies in its parent's, and the last one is a root bus: bus 00, or one that holds a root port,
    an integrated endpoint or a host bridge.
    """
    listed = list(functions)
    bridges: dict[str, list[LspciFunction]] = {}
    for function in listed:
        if function.secondary_bus:
            bridges.setdefault(f"{function.bdf[:-8]}:{function.secondary_bus:02x}", []).append(function)
    roots = {root_complex(function.bdf) for function in listed if _is_on_root_bus(function)}
    chains = {bus: _chain(bus, bridges, roots) for bus in {root_complex(function.bdf) for function in listed}}
    found = ((function.bdf, chains[root_complex(function.bdf)]) for function in listed)
    return {bdf: chain for bdf, chain in found if chain is not None}


def root_complex(bdf: str, upstream: tuple[str, ...] = ()) -> str:
    """Return domain and root bus (``0000:15``) of a function below these bridges; without any, its own bus."""
    return (upstream[0] if upstream else bdf)[:-5]


def _is_on_root_bus(function: LspciFunction) -> bool:
    if function.bdf[-7:-5] == "00":
        return True
    if (function.port_type or "").startswith("Root "):
        return True
    return (function.class_code or "").startswith("0600") or function.class_name == "Host bridge"


def _chain(bus: str, bridges: Mapping[str, Sequence[LspciFunction]], roots: Set[str]) -> tuple[str, ...] | None:
    chain: tuple[str, ...] = ()
    first = last = int(bus[-2:], 16)
    while bus in bridges and bus not in roots:
        bridge = bridges[bus][0]
        secondary, subordinate = bridge.secondary_bus or 0, bridge.subordinate_bus or 0
        own_bus = int(bridge.bdf[-7:-5], 16)
        if len(bridges[bus]) > 1 or not own_bus < secondary <= first <= last <= subordinate:
            return None
        chain = (bridge.bdf, *chain)
        first, last, bus = secondary, subordinate, root_complex(bridge.bdf)
    return chain if bus in roots and bus not in bridges else None
