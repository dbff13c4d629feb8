"""Memory modules by where they sit, so that like places can be compared."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from hostdoctor.facts import Dimm

GIB = 1 << 30
Groups = dict[str, str]  # the place -> what is in it, "8 × 64 GiB"


def by_socket(dimms: Iterable[Dimm]) -> Groups:
    """Return what each socket holds."""
    return _grouped(dimms, lambda dimm: f"socket {dimm.package}")


def by_channel(dimms: Iterable[Dimm]) -> Groups:
    """Return what each channel holds; modules whose channel nobody tells count as one channel of their controller."""
    return _grouped(dimms, _channel)


def _channel(dimm: Dimm) -> str:
    told = re.search(r"channel (\d{1,3})", dimm.location or "")
    return f"socket {dimm.package} {dimm.controller}" + (f" channel {told.group(1)}" if told else "")


def _grouped(dimms: Iterable[Dimm], place: Callable[[Dimm], str]) -> Groups:
    sizes: dict[str, Counter[float]] = {}
    for dimm in dimms:
        sizes.setdefault(place(dimm), Counter())[(dimm.size_bytes or 0) / GIB] += 1
    return {
        where: " + ".join(f"{count} × {size:g} GiB" for size, count in sorted(held.items()))
        for where, held in sizes.items()
    }
