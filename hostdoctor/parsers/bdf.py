"""PCI addresses: ``0000:3b:00.0`` (domain, bus, device, function) in one canonical spelling."""

import re

_BDF = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])")


def canonical_bdf(text: str) -> str | None:
    """Return the canonical BDF, or None when the text is not one.

    ``3b:00.0`` -> ``0000:3b:00.0``; NVML's ``00000000:3B:00.0`` -> ``0000:3b:00.0``; a domain above 16 bits keeps
    its digits (``10000:e1:00.0``, VMD and Hyper-V).
    """
    match = _BDF.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups(default="0")
    if int(device, 16) > 0x1F:
        return None
    return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"
