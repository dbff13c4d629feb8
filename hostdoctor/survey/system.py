"""The machine as a whole: names, versions, what it runs under, settings, and what the caller may use."""

import re

from hostdoctor.facts import Allowed, Gap, System
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import integer, line

# The settings that checks judge, and the largest value that the kernel gives each.
SYSCTLS = {
    "kernel.numa_balancing": 15,
    "vm.zone_reclaim_mode": 7,
    "vm.overcommit_memory": 2,
    "vm.max_map_count": (1 << 31) - 1,
}
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

# DMI vendor or product -> the hypervisor's name as systemd-detect-virt spells it.
_DMI_HYPERVISORS = (
    ("QEMU", "kvm"),
    ("KVM", "kvm"),
    ("Amazon EC2", "kvm"),
    ("Google", "kvm"),
    ("OpenStack", "kvm"),
    ("Alibaba Cloud", "kvm"),
    ("DigitalOcean", "kvm"),
    ("VMware", "vmware"),
    ("innotek", "oracle"),
    ("VirtualBox", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Apple Virtualization", "apple"),
)
_CONTAINER_FILES = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
_CONTAINER_MARKS = ("kubepods", "docker", "containerd", "crio", "libpod", "lxc")


def read_system(source: Source, packages: int | None) -> tuple[System, tuple[Gap, ...]]:
    """Return what the kernel's own files tell; command outputs fill the rest later."""
    cpuinfo = _cpuinfo(source)
    osrelease = line(source, "/proc/sys/kernel/osrelease") or _version_release(source)
    virtualization, told = _virtualization(source, cpuinfo, osrelease)
    gaps = [] if told else [Gap(fact="system.virtualization", source="/proc/cpuinfo", reason="no source could tell")]
    system = System(
        hostname=line(source, "/proc/sys/kernel/hostname"),
        kernel=osrelease,
        architecture=_architecture(cpuinfo, source),
        cpu_model=cpuinfo.get("model name") or cpuinfo.get("cpu model"),
        packages=packages,
        virtualization=virtualization,
        container=_container(source),
        nvidia_driver=_driver_version(source),
        clocksource=line(source, CLOCKSOURCE),
    )
    return system, tuple(gaps)


def read_settings(source: Source) -> dict[str, str]:
    """Return the settings that checks judge, by name, as the kernel prints them; what it never prints is left out."""
    found = {name: integer(source.read("/proc/sys/" + name.replace(".", "/"))) for name in SYSCTLS}
    return {name: str(value) for name, value in found.items() if value is not None and value <= SYSCTLS[name]}


def read_allowed(source: Source) -> Allowed:
    """Return the CPUs and memory nodes that the caller may use."""
    status = source.read("/proc/self/status") or ""
    lists = dict(re.findall(r"^(Cpus|Mems)_allowed_list:[ \t]*(\S+)[ \t]*$", status, re.MULTILINE))
    return Allowed(cpus=lists.get("Cpus"), mems=lists.get("Mems"))


def _cpuinfo(source: Source) -> dict[str, str]:
    """Return the first processor's fields of /proc/cpuinfo."""
    text = source.read("/proc/cpuinfo") or ""
    first, _, _ = text.lstrip("\n").partition("\n\n")
    pairs = (row.partition(":") for row in first.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _architecture(cpuinfo: dict[str, str], source: Source) -> str | None:
    """Tell the instruction set from the shape of /proc/cpuinfo; a capture holds no uname."""
    if "flags" in cpuinfo and "vendor_id" in cpuinfo:
        return "x86_64" if " lm " in f" {cpuinfo['flags']} " else "i686"
    if "CPU implementer" in cpuinfo:
        return "aarch64"
    if "cpu" in cpuinfo and "POWER" in cpuinfo["cpu"]:
        return "ppc64le" if "ppc64le" in (source.read("/proc/version") or "") else "ppc64"
    return None


def _version_release(source: Source) -> str | None:
    match = re.match(r"Linux version (\S+)", source.read("/proc/version") or "")
    return match.group(1) if match else None


def _virtualization(source: Source, cpuinfo: dict[str, str], osrelease: str | None) -> tuple[str | None, bool]:
    """Return the hypervisor (None on bare metal) and whether anything could tell."""
    if osrelease and "microsoft-standard" in osrelease.lower():
        return "wsl2", True
    dmi = " ".join(line(source, f"/sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name"))
    if ".metal" in dmi:  # EC2 bare metal says "Amazon EC2" too
        return None, True
    name = next((name for mark, name in _DMI_HYPERVISORS if mark in dmi), None)
    if "Microsoft Corporation" in dmi and "Virtual Machine" in dmi:
        name = "microsoft"
    flags = cpuinfo.get("flags")
    if flags is not None:
        if "hypervisor" not in flags.split():
            return None, True
        return name or _sys_hypervisor(source), name is not None or _sys_hypervisor(source) is not None
    return name, name is not None or bool(dmi.strip())


def _sys_hypervisor(source: Source) -> str | None:
    return line(source, "/sys/hypervisor/type")


def _container(source: Source) -> str | None:
    name = next((name for path, name in _CONTAINER_FILES if source.read(path) is not None), None)
    if name is not None:
        return name
    if (manager := line(source, "/run/systemd/container")) is not None:
        return manager
    if source.environ("KUBERNETES_SERVICE_HOST") is not None:
        return "kubernetes"
    if (manager := source.environ("container")) is not None:
        return manager
    seen = (source.read("/proc/self/cgroup") or "") + _root_mount(source)
    return next((mark for mark in _CONTAINER_MARKS if mark in seen), None)


def _root_mount(source: Source) -> str:
    """Return the line of the root file system; a container's overlay names its runtime's folder."""
    rows = (source.read("/proc/self/mounts") or source.read("/proc/mounts") or "").splitlines()
    return next((row for row in rows if row.split()[1:2] == ["/"]), "")


def _driver_version(source: Source) -> str | None:
    """Return NVIDIA's driver version from its own file, ``NVRM version: NVIDIA UNIX … Kernel Module  570.86.15 …``."""
    text = source.read("/proc/driver/nvidia/version") or source.read("/sys/module/nvidia/version")
    match = re.search(r"\b(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)\b", text or "")
    return match.group(1) if match else None
