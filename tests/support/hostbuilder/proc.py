"""``/proc``, DMI, clock source, kernel settings and cgroup limits."""

from typing import Any

from hostdoctor.parsers.cpulist import format_cpulist, parse_cpulist
from tests.support.hostbuilder.cpus import Layout
from tests.support.hostbuilder.description import Host
from tests.support.hostbuilder.files import Tree, mask

FLAGS_X86 = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat clflush mmx fxsr sse sse2 ht syscall nx pdpe1gb "
    "rdtscp lm constant_tsc rep_good nopl nonstop_tsc cpuid pni pclmulqdq ssse3 fma cx16 pcid sse4_1 sse4_2 x2apic "
    "movbe popcnt aes xsave avx f16c rdrand lahf_lm abm avx2 bmi1 bmi2 avx512f avx512dq avx512bw avx512vl avx512_bf16"
)
FLAGS_ARM = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm sve sve2 i8mm bf16 dgh bti"
KERNEL = {"ostype": "Linux", "numa_balancing": "0", "randomize_va_space": "2", "sched_autogroup_enabled": "1"}
VM = {
    "zone_reclaim_mode": "0",
    "overcommit_memory": "0",
    "overcommit_ratio": "50",
    "max_map_count": "1048576",
    "swappiness": "60",
    "nr_hugepages": "0",
    "min_free_kbytes": "90112",
    "watermark_scale_factor": "10",
    "panic_on_oom": "0",
}


def write_proc(host: Host, layout: Layout, mounts: list[str], tree: Tree) -> None:
    """Write what is not a device: ``/proc`` and the settings below ``/sys``."""
    hostname = host.container.hostname if host.container else host.hostname
    tree.attributes("/proc/sys/kernel", KERNEL | {"osrelease": host.kernel, "hostname": hostname})
    tree.attributes("/proc/sys/vm", VM)
    tree.put("/proc/version", f"Linux version {host.kernel} (buildd@builder) (gcc 11.4.0) #1 SMP PREEMPT_DYNAMIC")
    tree.put("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{host.kernel} root=LABEL=root ro {host.cmdline}".rstrip())
    tree.text("/proc/cpuinfo", _cpuinfo(host, layout))
    tree.text("/proc/meminfo", _meminfo(layout))
    tree.text("/proc/stat", _stat(layout))
    tree.text("/proc/vmstat", _vmstat(layout))
    tree.text("/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
    tree.text("/proc/mounts", "\n".join([*_mounts(host, mounts), ""]))
    tree.text("/proc/modules", _modules(host))
    tree.text("/proc/self/status", _status(host, layout))
    tree.text("/proc/self/limits", _limits())
    _write_settings(host, tree)
    _write_cgroup(host, layout, tree)


def _cpuinfo(host: Host, layout: Layout) -> str:
    block = _cpuinfo_arm if host.arch == "aarch64" else _cpuinfo_x86
    return "\n".join(block(host, layout, cpu.id) for cpu in layout.cpus)


def _cpuinfo_x86(host: Host, layout: Layout, cpu_id: int) -> str:
    cpu, spec = layout.cpus[cpu_id], host.cpu
    rows: dict[str, Any] = {
        "processor\t": cpu.id,
        "vendor_id\t": spec.vendor,
        "cpu family\t": spec.family,
        "model\t\t": spec.model_number,
        "model name\t": spec.model,
        "stepping\t": 6,
        "cpu MHz\t\t": "2000.000",
        "cache size\t": "107520 KB",
        "physical id\t": cpu.package,
        "siblings\t": spec.cores * spec.threads,
        "core id\t\t": cpu.core,
        "cpu cores\t": spec.cores,
        "apicid\t\t": cpu.id,
        "flags\t\t": FLAGS_X86 + (" hypervisor" if host.virtualization else " vmx"),
        "bogomips\t": "4000.00",
        "power management": "",
    }
    return "".join(f"{name}: {value}\n" for name, value in rows.items())


def _cpuinfo_arm(host: Host, layout: Layout, cpu_id: int) -> str:
    rows = {
        "processor\t": cpu_id,
        "BogoMIPS\t": "2000.00",
        "Features\t": FLAGS_ARM,
        "CPU implementer\t": "0x41",
        "CPU architecture": 8,
        "CPU variant\t": "0x0",
        "CPU part\t": "0xd4f",
        "CPU revision\t": 0,
    }
    return "".join(f"{name}: {value}\n" for name, value in rows.items())


def _meminfo(layout: Layout) -> str:
    total = sum(node.total_kib for node in layout.nodes.values())
    free = sum(node.free_kib for node in layout.nodes.values())
    huge = sum(node.group.hugepages_2m for node in layout.nodes.values())
    used = total - free
    rows = {
        "MemTotal": total,
        "MemFree": free,
        "MemAvailable": free + used // 2,
        "Buffers": used // 100,
        "Cached": used // 2,
        "SwapCached": 0,
        "Active": used // 4,
        "Inactive": used // 3,
        "Mlocked": 0,
        "SwapTotal": 0,
        "SwapFree": 0,
        "AnonPages": used // 6,
        "Shmem": used // 64,
        "SReclaimable": used // 32,
        "CommitLimit": total // 2,
        "Committed_AS": used // 4,
    }
    lines = [f"{name + ':':<16}{kib:>8} kB" for name, kib in rows.items()]
    lines += [f"HugePages_Total: {huge:>7}", f"HugePages_Free:  {huge:>7}", "Hugepagesize:       2048 kB"]
    return "\n".join(lines) + "\n"


def _stat(layout: Layout) -> str:
    lines = [f"cpu{cpu.id} 10000 10 5000 900000 100 0 50 0 0 0" for cpu in layout.cpus]
    return "\n".join(["cpu  10000 10 5000 900000 100 0 50 0 0 0", *lines, "ctxt 123456789", "btime 1700000000", ""])


def _vmstat(layout: Layout) -> str:
    pages = sum(node.free_kib for node in layout.nodes.values()) // 4
    names = ("numa_hint_faults", "numa_pages_migrated", "pswpin", "pswpout")
    return f"nr_free_pages {pages}\n" + "".join(f"{name} 0\n" for name in names)


def _mounts(host: Host, mounts: list[str]) -> list[str]:
    system = ["proc /proc proc rw,nosuid 0 0", "sysfs /sys sysfs rw,nosuid 0 0"]
    if host.container:
        shm = "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=67108864k 0 0"
        return ["overlay / overlay rw,relatime,lowerdir=/l,upperdir=/u,workdir=/w 0 0", *system, shm]
    return [*system, "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0", *mounts]


def _modules(host: Host) -> str:
    names = ["nvme", "nvme_core"]
    if host.nvidia:
        names += ["nvidia_uvm", "nvidia", *(["nvidia_peermem"] if host.nvidia.peermem else [])]
    return "".join(f"{name} 49152 1 - Live 0x0000000000000000\n" for name in names)


def _status(host: Host, layout: Layout) -> str:
    cpus = parse_cpulist(host.container.cpus) if host.container else frozenset(layout.cpu_ids)
    mems = parse_cpulist(host.container.mems) if host.container else frozenset(layout.nodes)
    return (
        "Name:\tcat\nState:\tR (running)\nPid:\t4242\nUid:\t1000\t1000\t1000\t1000\n"
        "CapEff:\t0000000000000000\nSeccomp:\t0\n"
        f"Cpus_allowed:\t{mask(cpus, len(layout.cpus))}\nCpus_allowed_list:\t{format_cpulist(cpus)}\n"
        f"Mems_allowed:\t{mask(mems, 1024)}\nMems_allowed_list:\t{format_cpulist(mems)}\n"
    )


def _limits() -> str:
    rows = (("Max open files", "1048576", "files"), ("Max locked memory", "unlimited", "bytes"))
    head = f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}Units\n"
    return head + "".join(f"{name:<26}{value:<21}{value:<21}{unit}\n" for name, value, unit in rows)


def _write_settings(host: Host, tree: Tree) -> None:
    tree.attributes("/sys/class/dmi/id", dict(host.dmi))
    clock = "/sys/devices/system/clocksource/clocksource0"
    names = {"current_clocksource": host.clocksources.split()[0], "available_clocksource": f"{host.clocksources} "}
    tree.attributes(clock, names)
    huge = {"enabled": "always [madvise] never", "defrag": "always defer defer+madvise [madvise] never"}
    tree.attributes("/sys/kernel/mm/transparent_hugepage", huge)
    if host.root:
        tree.put("/sys/module/pcie_aspm/parameters/policy", "[default] performance powersave powersupersave ")
    name, _, version = host.os.partition(" ")
    tree.text("/etc/os-release", f'PRETTY_NAME="{host.os}"\nID={name.lower()}\nVERSION_ID="{version.split()[0]}"\n')


_CHARGED = 16 << 30


def _write_cgroup(host: Host, layout: Layout, tree: Tree) -> None:
    """Write cgroup v2: a container sees its own group as the root, a login shell is in a slice without limits."""
    box = host.container
    group = "" if box else "/user.slice"
    tree.put("/proc/self/cgroup", f"0::{group or '/'}")
    folder = f"/sys/fs/cgroup{group}"
    tree.put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma")
    values = {
        "cpuset.cpus.effective": box.cpus if box else format_cpulist(layout.cpu_ids),
        "cpuset.mems.effective": box.mems if box else format_cpulist(layout.nodes),
        "memory.max": box.memory_bytes if box else "max",
        "memory.high": "max",
        "memory.current": _CHARGED,
        "cpu.max": f"{len(parse_cpulist(box.cpus)) * 100000} 100000" if box else "max 100000",
    }
    tree.attributes(folder, values)
    shares = {"anon": 4, "file": 2, "shmem": 8, "inactive_file": 8, "active_file": 4}  # shmem is in "file" too
    tree.text(f"{folder}/memory.stat", "".join(f"{name} {_CHARGED // part}\n" for name, part in shares.items()))
    if box:
        environ = box.environ | {"HOSTNAME": box.hostname}
        tree.text("/proc/self/environ", "".join(f"{name}={value}\0" for name, value in environ.items()))
