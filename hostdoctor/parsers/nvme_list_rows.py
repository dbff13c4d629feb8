"""What one row or object of ``nvme list`` tells, and the names in it, for the table and the JSON form alike."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from hostdoctor.parsers.bdf import canonical_bdf

_NAMESPACE = re.compile(r"(?:/dev/)?nvme(\d{1,6})(?:c(\d{1,6}))?n(\d{1,9})")
_CONTROLLER = re.compile(r"(?:/dev/)?(nvme\d{1,6})")
_TRANSPORT = re.compile(r"[a-z][a-z0-9-]{1,15}")
_NOTHING = frozenset({"", "NULL", "(NULL)", "NONE", "N/A", "-"})
_TEXT_CHARS = 64  # a model has at most 40 characters, a firmware revision eight


class Row(NamedTuple):
    """A drive, or one namespace of it. ``is_derived``: the controller is only what the namespace's name suggests.

    ``serial`` is compared and then dropped: it never leaves the parser. ``sizes`` are bytes by namespace.
    """

    controller: str | None
    namespaces: tuple[str, ...] = ()
    model: str | None = None
    firmware: str | None = None
    bdf: str | None = None
    transport: str | None = None
    serial: str | None = None
    sizes: Mapping[str, int] = {}
    is_derived: bool = False
    is_flat: bool = False


def namespace_and_controller(text: str) -> tuple[str | None, str | None]:
    """Return ``("nvme2n1", "nvme2")`` for ``/dev/nvme2n1``; a path's own name ``nvme2c5n1`` tells its controller.

    ``(None, None)`` for what is no namespace's name.
    """
    match = _NAMESPACE.fullmatch(text.strip())
    if match is None:
        return None, None
    instance, controller, number = match.groups()
    return f"nvme{instance}n{number}", f"nvme{controller or instance}"


def controller_name(text: str) -> str | None:
    """Return ``nvme0`` for ``nvme0`` and ``/dev/nvme0``, else None."""
    match = _CONTROLLER.fullmatch(text.strip())
    return match[1] if match else None


def told(value: object) -> str | None:
    """Return a text that says something, blanks stripped; None for blanks, ``NULL`` and what is no text."""
    if not isinstance(value, str):
        return None
    text = " ".join(value[:1024].split())
    return None if text.upper() in _NOTHING or len(text) > _TEXT_CHARS else text


def transport_and_bdf(transport: object, address: object) -> tuple[str | None, str | None]:
    """Return the transport and, for a PCIe drive, its canonical BDF; a fabrics address is dropped."""
    name = told(transport)
    name = name if name and _TRANSPORT.fullmatch(name) else None
    bdf = canonical_bdf(address[:32]) if isinstance(address, str) and name in (None, "pcie") else None
    return name, bdf
