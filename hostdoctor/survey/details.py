"""What only checks ask for, so that a map alone is drawn without it: limits, health, PCI attributes, planned paths."""

from collections.abc import Iterable

import msgspec

from hostdoctor.facts import Host
from hostdoctor.sources.base import Source
from hostdoctor.survey.cgroups import read_cgroups, read_memory_groups
from hostdoctor.survey.dimms import read_dimms
from hostdoctor.survey.health import with_health
from hostdoctor.survey.isolation import read_isolation
from hostdoctor.survey.limits import read_huge_pages, read_locked_memory
from hostdoctor.survey.memory import with_node_memory
from hostdoctor.survey.memory_limits import read_host_memory
from hostdoctor.survey.pci import DEVICES
from hostdoctor.survey.pci_details import bar1_bytes, read_pci_details
from hostdoctor.survey.power import read_cpu_power
from hostdoctor.survey.processes import CHECK_LIMIT_BYTES, gpu_users, read_processes
from hostdoctor.survey.sandbox import read_kernel_modules, read_mempolicy
from hostdoctor.survey.storage import read_places
from hostdoctor.survey.values import line

ASPM_POLICY = "/sys/module/pcie_aspm/parameters/policy"


def with_details(source: Source, host: Host, paths: Iterable[str], numa_maps_limit_bytes: int | None = None) -> Host:
    """Return the host with everything that checks judge beyond the map; ``paths`` are those of the caller's plan."""
    nvme, gaps = with_health(source, host.nvme)
    users, unknown = gpu_users(source)
    processes, more = read_processes(
        source, users, CHECK_LIMIT_BYTES if numa_maps_limit_bytes is None else numa_maps_limit_bytes
    )
    host = msgspec.structs.replace(
        host,
        nvme=nvme,
        gaps=(*host.gaps, *gaps, *unknown, *more),
        settings=host.settings | _settings(source, host),
        cpu_power=read_cpu_power(source),
        dimms=read_dimms(source),
        places=read_places(source, paths),
        cgroups=read_cgroups(source),
        processes=processes,
    )
    host = _with_memory(source, host)
    return _with_pci(source, host) if source.listdir(DEVICES) else host


def _settings(source: Source, host: Host) -> dict[str, str]:
    settings = read_huge_pages(source) | read_locked_memory(source)
    settings |= read_isolation(source) | read_kernel_modules(source)
    if host.gpus and len(host.numa_nodes) > 1:
        settings |= read_mempolicy(source)
    if (policy := line(source, ASPM_POLICY)) is not None:
        settings["pcie_aspm.policy"] = policy
    return settings


def _with_pci(source: Source, host: Host) -> Host:
    """Return the host with the PCI attributes of the devices that the map says matter."""
    devices, gaps = read_pci_details(source, host)
    gpus = tuple(
        gpu if gpu.bar1_bytes or not gpu.bdf else msgspec.structs.replace(gpu, bar1_bytes=bar1_bytes(source, gpu))
        for gpu in host.gpus
    )
    return msgspec.structs.replace(host, pci_devices=devices, gpus=gpus, gaps=(*host.gaps, *gaps))


def _with_memory(source: Source, host: Host) -> Host:
    """Return the host with how its memory is used and limited."""
    host = with_node_memory(source, host)
    memory, gaps = read_host_memory(source, host.system.page_size_bytes)
    groups = read_memory_groups(source)
    return msgspec.structs.replace(host, memory=memory, memory_groups=groups, gaps=(*host.gaps, *gaps))
