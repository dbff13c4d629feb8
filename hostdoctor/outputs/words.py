"""Small pieces of text that every output shares; whatever comes from a machine is made printable here."""

import re

from hostdoctor.diagnosis.needs import is_listed
from hostdoctor.facts import Host, Link

GIB = 1 << 30
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
MAX_CHARACTERS = 300


def printable(text: str, most: int = MAX_CHARACTERS) -> str:
    """Return a machine's text fit for one line of a terminal: no control, bidirectional or escape characters.

    ``most`` is the longest that it may be.
    """
    cleaned = _UNPRINTABLE.sub("?", text.replace("\n", " ").replace("\t", " "))
    return cleaned if len(cleaned) <= most else cleaned[: most - 1] + "…"


def gib(size_bytes: int | None) -> str:
    """Return a size as ``503.7 GiB``, or ``? GiB`` when it is not known."""
    return "? GiB" if size_bytes is None else f"{size_bytes / GIB:.1f} GiB"


def link_words(link: Link) -> str:
    """Return a link as ``x16 32 GT/s``, with its maximum where that differs: ``x8 of x16, 16 of 32 GT/s``."""
    width = _of("x", link.width_lanes, link.max_width_lanes)
    speed = _of("", link.speed_gts, link.max_speed_gts)
    return f"{width} {speed} GT/s".strip() if speed else width


def _of(prefix: str, now: float | None, most: float | None) -> str:
    if now is None:
        return ""
    if most is None or most == now:
        return f"{prefix}{now:g}"
    return f"{prefix}{now:g} of {prefix}{most:g}"


def plural(count: int, noun: str) -> str:
    """Return ``1 GPU``, ``2 GPUs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def host_words(host: Host) -> str:
    """Return the host's name, or what to call it."""
    if host.system.hostname:
        return printable(host.system.hostname)
    return "this host" if host.is_live else f"unnamed host in {printable(', '.join(host.sources[:1]))}"


def counts(host: Host, in_scope: int | None = None) -> str:
    """Return what is there: ``2 of 8 GPUs, 2 NUMA nodes, 10 NICs``; what no source could list is left out."""
    gpus = plural(len(host.gpus), "GPU")
    if in_scope is not None and in_scope < len(host.gpus):
        gpus = f"{in_scope} of {gpus}"
    parts = [gpus] if is_listed(host, "gpus") else []
    parts += [plural(len(host.numa_nodes), "NUMA node")] if host.numa_nodes else []
    parts += [plural(len(host.nics), "NIC")] if is_listed(host, "nics") else []
    parts += [plural(len(host.nvme), "NVMe drive")] if is_listed(host, "nvme") else []
    return ", ".join(parts) or "no device told"
