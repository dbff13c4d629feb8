"""What a drive is read from: which device or file, which CPU nodes, which of them is near."""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from hostdoctor.errors import MeasureError, UsageError
from hostdoctor.facts import Fact, Host
from hostdoctor.measure.memory_plan import cpus_of
from hostdoctor.parsers.cpulist import parse_cpulist

BLOCK_SIZES_KIB = (16, 128)
QUEUE_DEPTHS = (1, 8, 32)
LEAST_FILE_BYTES = 16 << 20
SMALL_FILE_BYTES = 1 << 30
MEMORY_FILES = ("tmpfs", "ramfs")
_STAT_UNIT_BYTES = 512
_PART = re.compile(r"(.+)p\d{1,4}")


class Target(Fact, frozen=True, kw_only=True):
    """What is read (``path``), on which disk and drive, and the drive's node (None: not known)."""

    path: str
    disk: str | None = None
    drive: str | None = None
    node: int | None = None
    notes: tuple[str, ...] = ()


class Arm(Fact, frozen=True, kw_only=True):
    """A CPU node to read from; ``near`` is None when the drive's node is not known."""

    cpu_node: int
    near: bool | None = None


class Reading(Fact, frozen=True, kw_only=True):
    """One run to make."""

    arm: Arm
    block_bytes: int
    queue_depth: int
    repeat: int


def drive_target(host: Host, name: str) -> Target:
    """Return the first disk of a drive (``nvme0``), or the disk of that name (``nvme0n1``).

    Raises UsageError for a name that this host does not have, MeasureError for a drive without a disk to read or
    one that may not be read.
    """
    drive = next((drive for drive in host.nvme if name == drive.name or name in drive.namespaces), None)
    disk = disks_of(host, name)[0]
    path = f"/dev/{disk}"
    if not os.path.exists(path):  # noqa: PTH110
        raise MeasureError(f"{path}: no such device file: a container has only those that it was given (--device)")
    if not os.access(path, os.R_OK):
        raise MeasureError(
            f"{path}: may not be read by you: run as root or in its group (disk), or read a big file on it (--file)"
        )
    others = len(drive.namespaces) - 1 if drive is not None and name == drive.name else 0
    notes = (f"{name} has {others + 1} namespaces: {disk} is read",) if others else ()
    return Target(
        path=path,
        disk=disk,
        drive=drive.name if drive else None,
        node=drive.numa_node if drive else None,
        notes=notes,
    )


def disks_of(host: Host, name: str) -> tuple[str, ...]:
    """Return the disks of a drive (``nvme0``), or the one of that name (``nvme0n1``).

    Raises UsageError for a name that this host does not have, MeasureError for a drive without a disk.
    """
    drive = next((drive for drive in host.nvme if name == drive.name), None)
    if drive is not None and not drive.namespaces:
        raise MeasureError(f"{name}: the drive shows no namespace to read")
    if drive is not None:
        return drive.namespaces
    if any(name in drive.namespaces for drive in host.nvme):
        return (name,)
    whole = _PART.fullmatch(name)
    if whole and any(whole[1] in drive.namespaces for drive in host.nvme):
        raise UsageError(f"--drive: {name} is a part of {whole[1]}: name that, or a big file on it (--file)")
    known = ", ".join(sorted(filter(None, (drive.name for drive in host.nvme)))) or "none"
    raise UsageError(f"--drive: no NVMe drive {name[:60]!r} here (known: {known})")


def file_target(host: Host, path: str) -> Target:
    """Return an existing file as what is read; ``host`` was surveyed with this path, so that its disk is known.

    Raises MeasureError for what is no big file with all its blocks on the drive, or may not be read.
    """
    size = _file_size(path)
    place = next((place for place in host.places if place.path == path), None)
    if place is not None and place.filesystem in MEMORY_FILES:
        raise MeasureError(f"--file: {path[:80]!r} lies in memory ({place.filesystem}), on no drive")
    disks = place.disks if place else ()
    drive = next((drive for drive in host.nvme if set(disks) & set(drive.namespaces)), None)
    notes = []
    if size < SMALL_FILE_BYTES:
        notes.append(f"the file has {size >> 20} MiB: the drive or what is below it may answer from a cache")
    if len(disks) != 1:
        notes.append(
            f"the file lies on {len(disks)} disks: what the block layer counts is not shown beside fio's figures"
        )
    one = disks[0] if len(disks) == 1 else None
    node = drive.numa_node if drive is not None and one is not None else None
    return Target(path=path, disk=one, drive=drive.name if drive and one else None, node=node, notes=tuple(notes))


def arms_of(host: Host, target: Target) -> tuple[tuple[Arm, ...], tuple[str, ...]]:
    """Return the CPU nodes to read from, the near one first, and notes on those that are left out.

    Raises MeasureError when none may be used.
    """
    allowed_mems = None if host.allowed.mems is None else parse_cpulist(host.allowed.mems)
    arms, notes = [], []
    for node in sorted(
        (node for node in host.numa_nodes if node.cpus), key=lambda node: (node.id != target.node, node.id)
    ):
        if not cpus_of(host, node):
            notes.append(
                f"not from node {node.id}: none of its CPUs may be used (Cpus_allowed_list {host.allowed.cpus})"
            )
        elif allowed_mems is not None and node.id not in allowed_mems:
            notes.append(f"not from node {node.id}: its memory may not be used (Mems_allowed_list {host.allowed.mems})")
        elif not node.memory_bytes:
            notes.append(f"not from node {node.id}: it has no memory")
        else:
            arms.append(Arm(cpu_node=node.id, near=None if target.node is None else node.id == target.node))
    if not arms:
        raise MeasureError(f"no CPU node to read from: {notes[0] if notes else 'none is known on this host'}")
    return tuple(arms), (*notes, *_about(arms, target))


def readings(
    arms: Sequence[Arm],
    repeats: int,
    block_sizes_kib: Sequence[int] = BLOCK_SIZES_KIB,
    queue_depths: Sequence[int] = QUEUE_DEPTHS,
) -> tuple[Reading, ...]:
    """Return the runs in order: for each size and depth all nodes in turn, then in the opposite turn, and so on."""
    return tuple(
        Reading(arm=arm, block_bytes=size << 10, queue_depth=depth, repeat=repeat)
        for size in dict.fromkeys(block_sizes_kib)
        for depth in dict.fromkeys(queue_depths)
        for repeat in range(repeats)
        for arm in (arms if repeat % 2 == 0 else reversed(arms))
    )


def fio_command(target: Target, reading: Reading, seconds: int) -> tuple[str, ...]:
    """Return the command of one run: it reads only, and makes nothing."""
    node = reading.arm.cpu_node
    name = target.path.replace(":", "\\:")  # fio's list separator; a backslash before anything else is itself
    return (
        "fio",
        "--name=hostdoctor",
        f"--filename={name}",
        "--readonly",
        "--allow_file_create=0",
        "--rw=randread",
        f"--bs={reading.block_bytes}",
        "--direct=1",
        "--ioengine=libaio",
        f"--iodepth={reading.queue_depth}",
        "--thread",
        "--norandommap",
        "--randrepeat=0",
        "--time_based",
        f"--runtime={seconds}",
        f"--numa_cpu_nodes={node}",
        f"--numa_mem_policy=bind:{node}",
        "--percentile_list=50:99:99.9",
        "--output-format=json+",
    )


def _file_size(path: str) -> int:
    """Return a file's size; raise MeasureError for one that reading would not really read, or not at all."""
    if not path.isprintable() or ";" in path or "#" in path or path != path.strip():
        raise MeasureError(f"--file: {path[:80]!r}: fio takes no ; or # in a name, no blank at its end, nor what does"
                           " not print")  # fmt: skip
    try:
        told = Path(path).stat()
    except OSError as error:
        raise MeasureError(f"--file: {path[:80]!r}: {(error.strerror or '').lower()}") from None
    if not stat.S_ISREG(told.st_mode):
        raise MeasureError(f"--file: {path[:80]!r} is no regular file")
    if told.st_size < LEAST_FILE_BYTES:
        raise MeasureError(
            f"--file: {path[:80]!r} has {told.st_size >> 10} KiB: at least {LEAST_FILE_BYTES >> 20} MiB are needed"
        )
    if told.st_blocks * _STAT_UNIT_BYTES < told.st_size:
        raise MeasureError(f"--file: {path[:80]!r} is sparse or compressed: its holes would not be read from the drive")
    if not os.access(path, os.R_OK):
        raise MeasureError(f"--file: {path[:80]!r} may not be read by you")
    return told.st_size


def _about(arms: Sequence[Arm], target: Target) -> list[str]:
    if target.node is None:
        return ["the NUMA node of the drive is not known: which CPUs are near cannot be told"]
    if not any(arm.near for arm in arms):
        return [f"the drive is at node {target.node}, whose CPUs cannot read here: far only"]
    return ["no second CPU node: near only"] if len(arms) < 2 else []
