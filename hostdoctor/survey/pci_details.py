"""Errors, payload size, ACS and IOMMU of the PCI functions on the way to GPUs, NICs and drives.

Documentation/ABI/testing/sysfs-bus-pci-devices-aer, sysfs-bus-pci (config, resource), sysfs-kernel-iommu_groups.
"""

import re

import msgspec

from hostdoctor.facts import Gap, GapKind, Gpu, Host, Nic, NvmeController, PciDevice, PciErrors
from hostdoctor.parsers.pci_config import HEADER_BYTES, parse_pci_config
from hostdoctor.sources.base import Readable, Source
from hostdoctor.survey.pci import DEVICES, device_path
from hostdoctor.survey.values import line

CONFIG_FACT = "pci_devices.config"
DENIED: tuple[GapKind, str] = ("denied", f"only {HEADER_BYTES} bytes: root sees the rest")
IORESOURCE_MEM, IORESOURCE_PREFETCH = 0x200, 0x2000
AER_FILES = {"correctable": "cor", "nonfatal": "nonfatal", "fatal": "fatal"}  # the total's name, by ours
_TOTAL = re.compile(r"^TOTAL_ERR_(?:COR|NONFATAL|FATAL) (\d{1,18})$", re.MULTILINE)


def read_pci_details(source: Source, host: Host) -> tuple[tuple[PciDevice, ...], tuple[Gap, ...]]:
    """Return the functions, those that matter with their details, and why configuration space was not read."""
    placed: tuple[Gpu | Nic | NvmeController, ...] = (*host.gpus, *host.nics, *host.nvme)
    wanted = {bdf for device in placed if device.bdf for bdf in (*device.upstream, device.bdf)}
    has_groups = "iommu_groups" in source.listdir("/sys/kernel")
    gaps: dict[str, Gap] = {}
    devices = tuple(
        _with_details(source, device, has_groups, gaps) if device.bdf in wanted else device
        for device in host.pci_devices
    )
    return devices, tuple(gaps.values())


def bar1_bytes(source: Source, gpu: Gpu) -> int | None:
    """Return the size of a GPU's largest prefetchable memory window, through which its memory is mapped."""
    rows = (source.read(f"{device_path(source, gpu.bdf or '')}/resource") or "").splitlines()[:6]
    sizes = []
    for row in rows:
        words = row.split()
        if len(words) != 3 or not all(re.fullmatch(r"0x[0-9a-f]{16}", word) for word in words):
            continue
        start, end, flags = (int(word, 16) for word in words)
        size = end - start + 1
        is_bar = size > 1 and size & (size - 1) == 0  # a BAR decodes a power of two
        if flags & IORESOURCE_MEM and flags & IORESOURCE_PREFETCH and is_bar:
            sizes.append(size)
    return max(sizes, default=None)


def read_errors(source: Readable, base: str) -> PciErrors | None:
    """Return a function's error totals, None when the kernel does not count them."""
    totals = {name: _total(source.read(f"{base}/aer_dev_{name}")) for name in AER_FILES}
    return None if set(totals.values()) == {None} else PciErrors(**totals)


def _with_details(source: Source, device: PciDevice, has_groups: bool, gaps: dict[str, Gap]) -> PciDevice:
    base = device_path(source, device.bdf)
    config = source.read_bytes(f"{base}/config")
    if config is None or len(config) <= HEADER_BYTES:
        _note(source, device, config, gaps)
    settings = parse_pci_config(config or b"")
    group = source.readlink(f"{base}/iommu_group")
    return msgspec.structs.replace(
        device,
        iommu_type=line(source, f"{group}/type") if group else "off" if has_groups else None,
        max_payload_bytes=settings.max_payload_bytes,
        acs_redirects=settings.acs_redirects,
        errors=read_errors(source, base),
    )


def _note(source: Source, device: PciDevice, config: bytes | None, gaps: dict[str, Gap]) -> None:
    """Leave one gap a reason: the same is true of every function."""
    path = f"{DEVICES}/{device.bdf}/config"
    kind, reason = source.why_unreadable(path) if not config else DENIED
    gaps.setdefault(reason, Gap(fact=CONFIG_FACT, source=f"{DEVICES}/*/config", reason=reason, kind=kind))


def _total(text: str | None) -> int | None:
    match = _TOTAL.search(text or "")
    return int(match.group(1)) if match else None
