"""The block layer: attributes that every disk has, disks that are not NVMe, software RAIDs, mounts."""

from tests.support.hostbuilder.description import Host
from tests.support.hostbuilder.files import Tree
from tests.support.hostbuilder.pci import Function

SECTORS_PER_GB = 10**9 // 512


def block_attributes(
    host: Host, folder: str, sectors: int, scheduler: str, rotational: bool, iostats: bool, tree: Tree
) -> None:
    shown = " ".join(f"[{name}]" if name == scheduler else name for name in host.schedulers.split())
    stat = "   98234        0  7859000    20120    45120     1200  9120000    31000        0    40100    51120"
    tree.attributes(
        folder, {"size": sectors, "ro": 0, "removable": 0, "stat": stat + "        0" * 6, "inflight": "0 0"}
    )
    tree.attributes(
        f"{folder}/queue",
        {
            "scheduler": shown if "[" in shown else scheduler,
            "iostats": int(iostats),
            "rotational": int(rotational),
            "nr_requests": 1023,
            "logical_block_size": 512,
            "max_sectors_kb": 512,
            "write_cache": "write through",
            "rq_affinity": 1,
        },
    )


def link_block(name: str, folder: str, tree: Tree) -> None:
    tree.link(f"/sys/block/{name}", folder)
    tree.link(f"/sys/class/block/{name}", folder)


def mount_disk(name: str, mount: str, folder: str, tree: Tree) -> list[str]:
    """Return mount lines for a disk. The root disk has two partitions, as has ``raid-root``; others are whole.

    ``raid`` and ``raid-root`` are members of a RAID, which has the mount.
    """
    if mount == "raid":
        return []
    if mount not in ("/", "raid-root"):
        return [f"/dev/{name} {mount} xfs rw,noatime 0 0"]
    joint = "p" if name[-1].isdigit() else ""
    partitions = ((1, 2_097_152), (2, 800_000_000))
    for number, sectors in partitions:
        partition = f"{folder}/{name}{joint}{number}"
        tree.attributes(partition, {"partition": number, "size": sectors, "start": 2048 * number, "ro": 0})
        tree.link(f"/sys/class/block/{name}{joint}{number}", partition)
    if mount == "raid-root":
        return []
    return [
        f"/dev/{name}{joint}2 / ext4 rw,relatime 0 0",
        f"/dev/{name}{joint}1 /boot/efi vfat rw,relatime 0 0",
    ]


def write_disks(host: Host, functions: list[Function], tree: Tree, mounts: list[str]) -> None:
    """Write disks that are not NVMe, and software RAIDs."""
    by_bdf: dict[str, Function] = {function.bdf: function for function in functions}
    for number, disk in enumerate(host.disk):
        above = by_bdf[disk.controller].path if disk.controller else f"/sys/devices/{disk.folder}"
        device = f"{above}/host{number}/target{number}:0:0/{number}:0:0:0"
        tree.attributes(device, {"model": f"{disk.model:<16}", "vendor": "ATA     ", "type": 0})
        folder = f"{device}/block/{disk.name}"
        block_attributes(host, folder, disk.size_gb * SECTORS_PER_GB, disk.scheduler, disk.rotational, True, tree)
        tree.put(f"{folder}/dev", f"8:{16 * number}")
        tree.link(f"{folder}/device", device)
        link_block(disk.name, folder, tree)
        if disk.mount:
            mounts += mount_disk(disk.name, disk.mount, folder, tree)
    for number, raid in enumerate(host.raid):
        _write_raid(host, number, tree)
        mounts.append(f"/dev/{raid.name} {raid.mount} ext4 rw,relatime 0 0")


def _write_raid(host: Host, number: int, tree: Tree) -> None:
    raid = host.raid[number]
    folder = f"/sys/devices/virtual/block/{raid.name}"
    block_attributes(host, folder, 8_000_000_000, "none", False, True, tree)
    tree.attributes(folder, {"dev": f"9:{number}"})
    tree.attributes(f"{folder}/md", {"level": raid.level, "raid_disks": len(raid.members), "array_state": "clean"})
    for member in raid.members:
        member_folder = resolve(tree, f"/sys/class/block/{member}")
        tree.link(f"{folder}/slaves/{member}", member_folder)
        tree.link(f"{member_folder}/holders/{raid.name}", folder)
    link_block(raid.name, folder, tree)


def resolve(tree: Tree, path: str) -> str:
    """Return the absolute folder that a class link leads to."""
    parts = path.split("/")[:-1]
    for step in tree.links[path].split("/"):
        parts = parts[:-1] if step == ".." else [*parts, step]
    return "/".join(parts)
