"""What only checks judge: read after the map, and only for the devices that the map says matter."""

import msgspec

from hostdoctor.facts import Host
from hostdoctor.sources.base import Source
from hostdoctor.survey.cgroups import read_cgroups
from hostdoctor.survey.isolation import read_isolation
from hostdoctor.survey.pci import DEVICES
from hostdoctor.survey.pci_details import bar1_bytes, read_pci_details
from hostdoctor.survey.sandbox import read_kernel_modules, read_mempolicy
from hostdoctor.survey.values import line

ASPM_POLICY = "/sys/module/pcie_aspm/parameters/policy"


def with_details(source: Source, host: Host) -> Host:
    """Return the host with the settings, limits and PCI attributes that checks judge."""
    settings = host.settings | read_isolation(source) | read_kernel_modules(source)
    if host.gpus and len(host.numa_nodes) > 1:
        settings |= read_mempolicy(source)
    if (policy := line(source, ASPM_POLICY)) is not None:
        settings["pcie_aspm.policy"] = policy
    devices, gpus, gaps = host.pci_devices, host.gpus, host.gaps
    if source.listdir(DEVICES):
        devices, config_gaps = read_pci_details(source, host)
        gaps += config_gaps
        gpus = tuple(
            gpu if gpu.bar1_bytes or not gpu.bdf else msgspec.structs.replace(gpu, bar1_bytes=bar1_bytes(source, gpu))
            for gpu in gpus
        )
    return msgspec.structs.replace(
        host, settings=settings, pci_devices=devices, gpus=gpus, gaps=gaps, cgroups=read_cgroups(source)
    )
