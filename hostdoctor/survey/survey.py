"""The survey itself: which reader feeds which join, in order."""

from collections.abc import Sequence

import msgspec

from hostdoctor.facts import Gpu, Host, Nic, NumaNode, NvidiaDriver, NvmeController, PciDevice, System
from hostdoctor.parsers.nvml import NvmlDocument, parse_nvml
from hostdoctor.sources.base import LIVE_COMMANDS, NvmlOutput, Source
from hostdoctor.sources.cpu import captured_brand
from hostdoctor.survey.devices import read_block_devices, read_nics, read_nvme
from hostdoctor.survey.lists import unlisted
from hostdoctor.survey.merge_devices import merge_nics, merge_nvme, nics_from_listing, nvme_from_listing
from hostdoctor.survey.merge_gpus import find_gpus
from hostdoctor.survey.merge_nodes import merge_nodes, with_kinds
from hostdoctor.survey.merge_pci import merge_pci
from hostdoctor.survey.nodes import packages_by_cpu, read_cores, read_nodes, with_packages
from hostdoctor.survey.notes import Notes
from hostdoctor.survey.paths import derive_paths
from hostdoctor.survey.pci import by_bdf, node_gap, read_pci_devices
from hostdoctor.survey.pci_class import is_nvidia
from hostdoctor.survey.settle_gpus import gpu_memory_nodes, settle_gpus
from hostdoctor.survey.system import read_allowed, read_settings, read_system
from hostdoctor.survey.texts import Texts, read_texts
from hostdoctor.survey.xml_records import name_drives, name_nics, with_nccl_paths

# lscpu's vendors whose names differ from systemd-detect-virt's.
HYPERVISORS = {"null": "", "phyp": "powervm", "windows subsystem for linux": "wsl2"}
UNSIGNED_MINUS_ONE = (0xFFFF, 0xFFFFFFFF)  # how some readers print the kernel's "no node"
ENVIRONMENT = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def survey(source: Source, *, paths: Sequence[str] = (), numa_maps_limit_bytes: int | None = None) -> Host:
    """Return everything that one pass over a source establishes; what a source lacks is a gap, never an error.

    ``paths`` are absolute paths of the caller's plan, whose file systems and disks are wanted too. Processes above
    ``numa_maps_limit_bytes`` (None: as checks have it, 0: none) are never to be read from ``numa_maps``.
    """
    from hostdoctor.survey.details import with_details

    return with_details(source, survey_map(source), paths, numa_maps_limit_bytes)


def survey_map(source: Source) -> Host:
    """Return what the map shows, without what only checks ask for."""
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
    driver = parse_nvml(nvml.document, ended=nvml.state == "ok")
    notes.add(driver.gaps)

    nodes = with_packages(merge_nodes(sysfs_nodes, texts, notes), packages_by_cpu(cores))
    devices = merge_pci(sysfs_devices, texts, notes)
    if not devices or sysfs_devices:
        notes.add(gaps)
    devices = _on_known_nodes(devices, nodes, notes)
    sysfs = by_bdf(sysfs_devices)
    seen = find_gpus(source, devices, frozenset(sysfs), driver, texts, notes)
    nodes = with_kinds(nodes, gpu_memory_nodes(seen, nodes))
    gpus = settle_gpus(seen, nodes, allowed, notes)
    nics, virtual, nvme = _adapters(source, devices, bool(sysfs_devices))
    nics = merge_nics(name_nics(nics, devices, texts), virtual, texts, notes)
    nvme = merge_nvme(name_drives(nvme, texts), by_bdf(devices), texts, source, notes)
    for name, placed in (("gpus", gpus), ("nics", nics), ("nvme", nvme)):
        notes.add(() if placed or sysfs_devices else unlisted(name, devices, texts, source.label))
        _note_open(source, name, placed, sysfs, notes)
    _about_gpus(gpus, notes)
    paths = texts.matrices[0].paths if texts.matrices else ()
    if not texts.matrices and nodes:
        paths = with_nccl_paths(derive_paths(gpus, nics), texts, _labels(gpus, nics))
    system = _with_cpu_name(_merge_system(system, texts, driver.driver_version), source, notes)
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
        nvidia=_nvidia(nvml, driver, texts),
        sources=(source.label, *texts.sources),
        is_live=source.is_live,
        has_sysfs=bool(sysfs_devices or (sysfs_nodes and not devices)),
    )


def _adapters(
    source: Source, devices: tuple[PciDevice, ...], has_sysfs: bool
) -> tuple[tuple[Nic, ...], tuple[Nic, ...], tuple[NvmeController, ...]]:
    """Return the NICs, the NICs that are virtual functions, and the NVMe controllers."""
    if not has_sysfs:
        return nics_from_listing(devices), (), nvme_from_listing(devices)
    physical = by_bdf(device for device in devices if not device.is_virtual_function)
    virtual = by_bdf(device for device in devices if device.is_virtual_function)
    return read_nics(source, physical), read_nics(source, virtual), read_nvme(source, physical)


def _on_known_nodes(devices: tuple[PciDevice, ...], nodes: tuple[NumaNode, ...], notes: Notes) -> tuple[PciDevice, ...]:
    """Return the functions without nodes that the host does not list."""
    known = {node.id for node in nodes}
    strange = [d for d in devices if known and d.numa_node is not None and d.numa_node not in known]
    for device in strange:
        fact, source = f"pci_devices[{device.bdf}].numa_node", "sysfs or lspci"
        if device.numa_node in UNSIGNED_MINUS_ONE:
            notes.gap(fact, source, f"{device.numa_node}, which is -1")
        else:
            notes.gap(fact, source, f"{device.numa_node}, but the host lists no such node", "unlisted-node")
    lost = {device.bdf for device in strange}
    return tuple(msgspec.structs.replace(d, numa_node=None) if d.bdf in lost else d for d in devices)


def _note_open(
    source: Source,
    name: str,
    placed: Sequence[Gpu | Nic | NvmeController],
    sysfs: dict[str, PciDevice],
    notes: Notes,
) -> None:
    """Leave a gap for each address and node that nobody told, with sysfs's own reason where it lists the device."""
    noted = {gap.fact for gap in notes.gaps}
    for position, device in enumerate(placed):
        fact = f"{name}[{position}].numa_node"
        if device.bdf is None and f"{name}[{position}].bdf" not in noted:
            notes.gap(f"{name}[{position}].bdf", source.label, "no source tells it", "missing")
        nodes = device.numa_nodes if isinstance(device, Gpu) else device.numa_node is not None
        if nodes or fact in noted:
            continue
        if device.bdf in sysfs:
            notes.add((node_gap(source, fact, device.bdf),))
        else:
            notes.gap(fact, source.label, "no source tells it", "missing")


def _about_gpus(gpus: tuple[Gpu, ...], notes: Notes) -> None:
    """Drop what one source could not tell of a GPU and another did; call a GPU's PCI function by the GPU."""
    for position, gpu in enumerate(gpus):
        if gpu.numa_nodes:
            notes.settled(f"gpus[{position}].numa_node")
        if gpu.cpus:
            notes.settled(f"gpus[{position}].cpus")
        if gpu.bdf:
            notes.rename(f"pci_devices[{gpu.bdf}]", f"gpus[{position}]")


def _labels(gpus: tuple[Gpu, ...], nics: tuple[Nic, ...]) -> dict[str, str]:
    """Map GPUs' addresses and NICs' names to what paths call them."""
    named = {gpu.bdf: f"GPU{gpu.index}" for gpu in gpus if gpu.bdf is not None and gpu.index is not None}
    return named | {nic.name: nic.label or nic.name for nic in nics if nic.name is not None}


def _merge_system(system: System, texts: Texts, driver: str | None) -> System:
    """Return the system with what texts and NVML add; the kernel's own files count first."""
    for lscpu in texts.lscpu:
        system = msgspec.structs.replace(
            system,
            architecture=system.architecture or lscpu.architecture,
            cpu_model=system.cpu_model or lscpu.model_name,
            packages=system.packages or lscpu.sockets,
            virtualization=system.virtualization or _hypervisor(lscpu.hypervisor_vendor),
        )
    for hwloc in texts.hwloc:
        system = msgspec.structs.replace(
            system,
            hostname=system.hostname or hwloc.hostname,
            kernel=system.kernel or hwloc.kernel,
            architecture=system.architecture or hwloc.architecture,
            cpu_model=system.cpu_model or hwloc.cpu_model,
            packages=system.packages or hwloc.packages,
        )
    for nccl in texts.nccl:
        system = msgspec.structs.replace(system, architecture=system.architecture or nccl.architecture)
    for environment in texts.collect_envs:
        wsl2 = "wsl2" if environment.wsl2 else None
        system = msgspec.structs.replace(
            system,
            kernel=system.kernel or environment.kernel,
            virtualization=wsl2 or system.virtualization or _hypervisor(environment.hypervisor_vendor),
            nvidia_driver=system.nvidia_driver or environment.nvidia_driver,
        )
    driver = driver or next((q.driver_version for q in texts.queries), None)
    return msgspec.structs.replace(system, nvidia_driver=system.nvidia_driver or driver)


def _with_cpu_name(system: System, source: Source, notes: Notes) -> System:
    """Return the system with the CPU's name from a capture where neither the kernel nor a tool told it."""
    if system.cpu_model is not None or (brand := captured_brand(source)) is None:
        return system
    notes.settled("system.cpu_model")
    return msgspec.structs.replace(system, cpu_model=brand)


def _hypervisor(vendor: str | None) -> str | None:
    name = (vendor or "").lower().strip("()")
    return HYPERVISORS.get(name, name) or None


def _virtualization_told(system: System, texts: Texts) -> bool:
    """Tell whether silence means bare metal: lscpu names the hypervisor wherever it sees one (x86)."""
    if system.virtualization is not None:
        return True
    return any((lscpu.architecture or "").startswith("x86") and lscpu.model_name for lscpu in texts.lscpu)


def _nvidia(nvml: NvmlOutput, driver: NvmlDocument, texts: Texts) -> NvidiaDriver:
    if nvml.state == "not-asked" and texts.queries:
        return NvidiaDriver(state="ok", gpu_count=texts.queries[0].attached)
    if nvml.state == "not-asked":
        return NvidiaDriver(reason=nvml.reason)
    return NvidiaDriver(state=nvml.state, reason=nvml.reason, gpu_count=driver.count)


def _environment(source: Source) -> dict[str, str]:
    """Return the variables that say which GPUs the caller may use."""
    told = {f"env.{name}": source.environ(name) for name in ENVIRONMENT}
    return {name: value for name, value in told.items() if value is not None}
