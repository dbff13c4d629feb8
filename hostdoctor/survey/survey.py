"""The survey itself: which reader feeds which join, in order."""

from collections.abc import Sequence

import msgspec

from hostdoctor.facts import Gpu, Host, Nic, NvidiaDriver, NvmeController, PciDevice, System
from hostdoctor.sources.base import LIVE_COMMANDS, NvmlOutput, Source
from hostdoctor.survey.devices import read_block_devices, read_nics, read_nvme
from hostdoctor.survey.merge_devices import merge_nics, merge_nvme, nics_from_listing, nvme_from_listing
from hostdoctor.survey.merge_gpus import find_gpus, gpu_memory_nodes, settle_gpus
from hostdoctor.survey.merge_nodes import merge_nodes, with_kinds
from hostdoctor.survey.merge_pci import merge_pci
from hostdoctor.survey.nodes import packages_by_cpu, read_cores, read_nodes
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.paths import derive_paths
from hostdoctor.survey.pci import by_bdf, node_gap, read_pci_devices
from hostdoctor.survey.pci_class import is_nvidia
from hostdoctor.survey.system import read_allowed, read_settings, read_system
from hostdoctor.survey.texts import Texts, read_texts

# lscpu's vendors whose names differ from systemd-detect-virt's.
HYPERVISORS = {"phyp": "powervm", "windows subsystem for linux": "wsl2"}
ENVIRONMENT = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def survey(source: Source) -> Host:
    """Return everything that one pass over a source establishes; what a source lacks is a gap, never an error."""
    source.prefetch(LIVE_COMMANDS)
    notes = Notes()
    cores = read_cores(source)
    sysfs_nodes, gaps = read_nodes(source, packages_by_cpu(cores))
    notes.add(gaps)
    sysfs_devices, gaps = read_pci_devices(source)
    packages = len({core.package for core in cores if core.package is not None})
    system, system_gaps = read_system(source, packages or None)
    settings = read_settings(source) | _environment(source)
    allowed = read_allowed(source)
    texts = read_texts(source, notes)
    nvml = source.nvml()

    nodes = merge_nodes(sysfs_nodes, texts, notes)
    devices = merge_pci(sysfs_devices, texts, notes)
    if not devices:
        notes.add(gaps)
    seen = find_gpus(source, devices, nvml, texts, notes)
    nodes = with_kinds(nodes, gpu_memory_nodes(seen, nodes))
    gpus = settle_gpus(seen, nodes, allowed, notes)
    nics, nvme = _adapters(source, devices, bool(sysfs_devices))
    nics = merge_nics(nics, texts)
    nvme = merge_nvme(nvme, texts, source, notes)
    for name, placed in (("gpus", gpus), ("nics", nics), ("nvme", nvme)):
        _note_nodes(source, name, placed, by_bdf(sysfs_devices), notes)
    _forget_settled(gpus, notes)
    paths = texts.matrices[0].paths if texts.matrices else ()
    if not texts.matrices and nodes:
        paths = derive_paths(gpus, nics)
    system = _merge_system(system, texts, nvml)
    for environment in texts.collect_envs:
        if environment.topology_not_collected and not texts.matrices:
            notes.gap("paths", "collect_env", "GPU Topology: could not collect")
    if not _virtualization_told(system, texts):
        notes.add(system_gaps)
    if not any(is_nvidia(device) for device in devices) and nvml.state == "absent":
        notes.settled("source:topo-matrix", kind="missing")
    return Host(
        system=system,
        numa_nodes=nodes,
        gpus=gpus,
        nics=nics,
        nvme=nvme,
        pci_devices=devices,
        paths=paths,
        gaps=tuple(dict.fromkeys(notes.gaps)),
        disagreements=tuple(notes.disagreements),
        cores=cores,
        block_devices=read_block_devices(source),
        allowed=allowed,
        settings=settings,
        nvidia=_nvidia(nvml),
        sources=(source.label, *texts.sources),
        is_live=source.is_live,
    )


def _adapters(
    source: Source, devices: tuple[PciDevice, ...], has_sysfs: bool
) -> tuple[tuple[Nic, ...], tuple[NvmeController, ...]]:
    if not has_sysfs:
        return nics_from_listing(devices), nvme_from_listing(devices)
    physical = by_bdf(device for device in devices if not device.is_virtual_function)
    return read_nics(source, physical), read_nvme(source, physical)


def _note_nodes(
    source: Source,
    name: str,
    placed: Sequence[Gpu | Nic | NvmeController],
    sysfs: dict[str, PciDevice],
    notes: Notes,
) -> None:
    """Leave a gap for each device whose node nobody told, with sysfs's own reason where it lists the device."""
    noted = {gap.fact for gap in notes.gaps}
    for position, device in enumerate(placed):
        fact = f"{name}[{position}].numa_node"
        nodes = device.numa_nodes if isinstance(device, Gpu) else device.numa_node is not None
        if nodes or fact in noted:
            continue
        if device.bdf in sysfs:
            notes.add((node_gap(source, fact, device.bdf),))
        else:
            notes.gap(fact, source.label, "no source tells it", "missing")


def _forget_settled(gpus: tuple[Gpu, ...], notes: Notes) -> None:
    """Drop what one source could not tell of a GPU and another did."""
    for position, gpu in enumerate(gpus):
        if gpu.numa_nodes:
            notes.settled(f"gpus[{position}].numa_node")
        if gpu.cpus:
            notes.settled(f"gpus[{position}].cpus")


def _merge_system(system: System, texts: Texts, nvml: NvmlOutput) -> System:
    """Return the system with what texts and NVML add; the kernel's own files count first."""
    for lscpu in texts.lscpu:
        hypervisor = HYPERVISORS.get(vendor := (lscpu.hypervisor_vendor or "").lower(), vendor) or None
        system = msgspec.structs.replace(
            system,
            architecture=system.architecture or lscpu.architecture,
            cpu_model=system.cpu_model or lscpu.model_name,
            packages=system.packages or lscpu.sockets,
            virtualization=system.virtualization or hypervisor,
        )
    for environment in texts.collect_envs:
        wsl2 = "wsl2" if environment.wsl2 else None
        system = msgspec.structs.replace(
            system,
            virtualization=wsl2 or system.virtualization,
            nvidia_driver=system.nvidia_driver or environment.nvidia_driver,
        )
    driver = (nvml.document or {}).get("driver_version")
    return msgspec.structs.replace(system, nvidia_driver=system.nvidia_driver or driver)


def _virtualization_told(system: System, texts: Texts) -> bool:
    """Tell whether silence means bare metal: lscpu names the hypervisor wherever it sees one (x86)."""
    if system.virtualization is not None:
        return True
    return any((lscpu.architecture or "").startswith("x86") and lscpu.model_name for lscpu in texts.lscpu)


def _nvidia(nvml: NvmlOutput) -> NvidiaDriver:
    if nvml.state == "not-asked":
        return NvidiaDriver(reason=nvml.reason)
    document = nvml.document or {}
    return NvidiaDriver(state=nvml.state, reason=nvml.reason, gpu_count=document.get("count"))


def _environment(source: Source) -> dict[str, str]:
    """Return the variables that say which GPUs the caller may use."""
    told = {f"env.{name}": source.environ(name) for name in ENVIRONMENT}
    return {name: value for name, value in told.items() if value is not None}
