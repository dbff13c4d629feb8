"""Every PCI function from sysfs, with its link at every hop (Documentation/ABI/testing/sysfs-bus-pci)."""

import re
from collections.abc import Iterable

from hostdoctor.facts import Gap, Link, PciDevice
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.sources.base import Readable, Source
from hostdoctor.survey.values import integer

DEVICES = "/sys/bus/pci/devices"
_ROOT_BUS = re.compile(r"/pci([0-9a-f]{4,8}:[0-9a-f]{2})(?=/|$)")
WIDTHS = frozenset({"1", "2", "4", "8", "12", "16", "32"})
SPEEDS_GTS = frozenset((2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0))
NO_LINK = Link()
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")


def read_pci_devices(source: Source) -> tuple[tuple[PciDevice, ...], tuple[Gap, ...]]:
    """Return the functions in order of address, and a gap when the bus cannot be listed."""
    names = source.listdir(DEVICES)
    if not names:
        kind, reason = source.why_unreadable(DEVICES)
        is_empty = kind == "error"  # a folder that could be opened, and held nothing
        return (), () if is_empty else (Gap(fact="pci_devices", source=DEVICES, reason=reason, kind=kind),)
    found = (_device(source, name) for name in names)
    devices = tuple(sorted((d for d in found if d is not None), key=lambda d: bdf_key(d.bdf)))
    return devices, tuple(_class_gap(source, d.bdf) for d in devices if d.class_code is None or d.vendor_id is None)


def _class_gap(source: Source, bdf: str) -> Gap:
    """Return why nobody can say what a function is."""
    path = f"{device_path(source, bdf)}/class"
    kind, reason = source.why_unreadable(path)
    return Gap(fact=f"pci_devices[{bdf}].class_code", source=path, reason=reason, kind=kind)


def bdf_key(bdf: str) -> tuple[int, str]:
    """Return a sort key: domains as numbers, then bus, device and function."""
    domain, _, rest = bdf.partition(":")
    return int(domain, 16), rest


def device_path(source: Source, bdf: str) -> str:
    """Return the directory of a function under /sys/devices (the link followed), or the link itself."""
    return source.readlink(f"{DEVICES}/{bdf}") or f"{DEVICES}/{bdf}"


def node_gap(source: Source, fact: str, bdf: str) -> Gap:
    """Return why sysfs gives no node for a function that it lists: the kernel's -1, or no readable file."""
    path = f"{DEVICES}/{bdf}/numa_node"
    text = source.read(f"{device_path(source, bdf)}/numa_node")
    if text is None:
        kind, reason = source.why_unreadable(path)
        return Gap(fact=fact, source=path, reason=reason, kind=kind)
    return Gap(fact=fact, source=path, reason=f"{text.strip()}: the kernel was not told")


def _device(source: Source, name: str) -> PciDevice | None:
    bdf = canonical_bdf(name)
    if bdf is None:
        return None
    base = device_path(source, name)
    upstream, root_complex = _position(base)
    driver = source.readlink(f"{base}/driver")
    return PciDevice(
        bdf=bdf,
        vendor_id=_hex(source.read(f"{base}/vendor"), 4),
        device_id=_hex(source.read(f"{base}/device"), 4),
        class_code=_hex(source.read(f"{base}/class"), 6),
        numa_node=integer(source.read(f"{base}/numa_node")),
        upstream=upstream,
        root_complex=root_complex,
        link=read_link(source, base),
        driver=driver.rpartition("/")[2] if driver else None,
        is_virtual_function=source.readlink(f"{base}/physfn") is not None,
    )


def _position(path: str) -> tuple[tuple[str, ...], str | None]:
    """Return the bridges above a function and its root complex, from ``/sys/devices/pci0000:15/0000:15:01.0/…``.

    VMD and Hyper-V put their own root buses below another device: the last ``pciDDDD:BB`` is the function's.
    """
    roots = list(_ROOT_BUS.finditer(path))
    if not roots:
        return (), None
    last = roots[-1]
    parents = (canonical_bdf(part) for part in path[last.end() :].split("/")[:-1] if part)
    return tuple(parent for parent in parents if parent), last.group(1)


def read_link(source: Readable, base: str) -> Link:
    """Return the link that a function's folder shows now; all unknown where it shows none."""
    width = _width(source.read(f"{base}/current_link_width"))
    max_width = _width(source.read(f"{base}/max_link_width"))
    if width is None and max_width is None:
        return NO_LINK
    return Link(
        width_lanes=width,
        max_width_lanes=max_width,
        speed_gts=_speed(source.read(f"{base}/current_link_speed")),
        max_speed_gts=_speed(source.read(f"{base}/max_link_speed")),
    )


def _width(text: str | None) -> int | None:
    """Return lanes; 0 (no link) and what no link can have (63 or 255: the register reads all ones) are unknown."""
    stripped = (text or "").strip()
    return int(stripped) if stripped in WIDTHS else None


def _speed(text: str | None) -> float | None:
    """Return GT/s from ``32.0 GT/s PCIe`` or ``8 GT/s``; "Unknown" and what no generation runs are None."""
    match = _SPEED.match(text or "")
    return float(match.group(1)) if match and float(match.group(1)) in SPEEDS_GTS else None


def _hex(text: str | None, digits: int) -> str | None:
    match = re.fullmatch(r"0x([0-9a-fA-F]{1,8})", (text or "").strip())
    return f"{int(match.group(1), 16):0{digits}x}" if match else None


def by_bdf(devices: Iterable[PciDevice]) -> dict[str, PciDevice]:
    """Index functions by address."""
    return {device.bdf: device for device in devices}
