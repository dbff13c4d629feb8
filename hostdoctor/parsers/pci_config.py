"""PCI configuration space (``/sys/bus/pci/devices/*/config``): what checks judge of a function's settings.

Capabilities are a list that starts at 0x34, extended ones a list that starts at 0x100 (PCI Express Base Specification,
chapter 7). Without root the kernel shows the first 64 bytes only, which hold neither.
"""

from collections.abc import Iterator

from hostdoctor.facts import Fact

HEADER_BYTES = 64
EXTENDED = 0x100
MAX_CAPABILITIES = 64  # more than fit; ends cycles
PCI_EXPRESS, ACCESS_CONTROL = 0x10, 0x0D
DEVICE_CONTROL, ACS_CONTROL = 8, 6  # offsets inside the two capabilities
REQUEST_REDIRECT, COMPLETION_REDIRECT = 0x04, 0x08
LARGEST_PAYLOAD = 5  # 128 << 5; 6 and 7 are reserved


DEVICE_SERIAL = 0x0003


class PciConfig(Fact, frozen=True, kw_only=True):
    """Settings of one function; None where the bytes do not tell."""

    max_payload_bytes: int | None = None
    acs_redirects: bool | None = None


def parse_pci_config(data: bytes) -> PciConfig:
    """Return the settings that these bytes hold, however few or broken they are. ``acs_redirects`` False: not set."""
    return PciConfig(max_payload_bytes=_max_payload(data), acs_redirects=_acs_redirects(data))


def without_serial(data: bytes) -> bytes:
    """Return configuration space with the Device Serial Number capability's number (PCIe spec, id 3) zeroed."""
    for at in _extended(data):
        if _word(data, at) == DEVICE_SERIAL:
            end = min(at + 12, len(data))
            data = data[: at + 4] + bytes(end - at - 4) + data[end:]
    return data


def _max_payload(data: bytes) -> int | None:
    for at in _capabilities(data):
        if data[at] == PCI_EXPRESS and at + DEVICE_CONTROL + 2 <= len(data):
            code = _word(data, at + DEVICE_CONTROL) >> 5 & 7
            return 128 << code if code <= LARGEST_PAYLOAD else None
    return None


def _acs_redirects(data: bytes) -> bool | None:
    if len(data) < EXTENDED + 4 or _word(data, 0) == 0xFFFF:
        return None
    for at in _extended(data):
        if _word(data, at) == ACCESS_CONTROL and at + ACS_CONTROL + 2 <= len(data):
            return bool(_word(data, at + ACS_CONTROL) & (REQUEST_REDIRECT | COMPLETION_REDIRECT))
    return False


def _capabilities(data: bytes) -> Iterator[int]:
    """Yield the offsets of the capabilities whose header lies inside the data."""
    at = data[0x34] & 0xFC if len(data) > HEADER_BYTES and _word(data, 0) != 0xFFFF and data[6] & 0x10 else 0
    for _ in range(MAX_CAPABILITIES):
        if at < HEADER_BYTES or at + 2 > len(data):
            return
        yield at
        at = data[at + 1] & 0xFC


def _extended(data: bytes) -> Iterator[int]:
    at = EXTENDED
    for _ in range(MAX_CAPABILITIES):
        if at < EXTENDED or at + 4 > len(data):
            return
        header = int.from_bytes(data[at : at + 4], "little")
        if header in (0, 0xFFFFFFFF):
            return
        yield at
        at = header >> 20 & 0xFFC


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")
