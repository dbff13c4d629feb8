"""From a path or a mount to the whole disks below it: through partitions, md, dm and the devices of a btrfs.

Formats: /proc/self/mountinfo (Documentation/filesystems/proc.rst, 3.5), /proc/mounts, /proc/swaps.
"""

import posixpath
import re
from collections.abc import Iterable
from typing import NamedTuple

from hostdoctor.facts import Place
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import line

NAMESPACE = re.compile(r"nvme\d{1,5}(?:c\d{1,5})?n\d{1,5}")
_MAX_LINKS = 40  # as the kernel's own limit


class Mount(NamedTuple):
    """A mounted file system: where, of what type, from which device (``numbers`` is major:minor, "" when not told)."""

    point: str
    filesystem: str
    device: str
    numbers: str = ""


def read_mounts(source: Source) -> tuple[Mount, ...]:
    """Return the file systems that the caller sees, in the order in which they were mounted."""
    info = source.read("/proc/self/mountinfo")
    if info:
        return tuple(mount for row in info.splitlines() if (mount := _of_mountinfo(row)))
    text = source.read("/proc/mounts") or source.read("/proc/self/mounts") or ""
    rows = (row.split() for row in text.splitlines())
    return tuple(Mount(_plain(row[1]), row[2], _plain(row[0])) for row in rows if len(row) > 2)


def read_holders(source: Source) -> dict[str, set[str]]:
    """Map each disk to the mount points and swap on it."""
    mounts = read_mounts(source)
    held: dict[Mount, set[str]] = {}  # a device may be mounted in a thousand places
    for mount, place in [*((mount, mount.point) for mount in mounts), *_swaps(source, mounts)]:
        held.setdefault(mount._replace(point=""), set()).add(place)
    found: dict[str, set[str]] = {}
    for mount, places in held.items():
        for disk in disks_below(source, mount):
            found.setdefault(disk, set()).update(places)
    return found


def read_places(source: Source, paths: Iterable[str]) -> tuple[Place, ...]:
    """Return what each absolute path lies on; what the mounts do not tell stays unknown."""
    mounts = read_mounts(source)
    return tuple(_place(source, mounts, path) for path in dict.fromkeys(paths))


def disks_below(source: Source, mount: Mount) -> frozenset[str]:
    """Return the whole disks that a file system lies on; none when it is not on disks or nobody tells."""
    if not mount.device.startswith("/dev/"):
        return frozenset()
    name = _device_name(source, mount)
    names = _btrfs_devices(source, name) if mount.filesystem == "btrfs" else (name,)
    return _disks(source, names)


def _of_mountinfo(row: str) -> Mount | None:
    head, dash, tail = row.partition(" - ")
    left, right = head.split(), tail.split()
    if not dash or len(left) < 6 or len(right) < 2:
        return None
    return Mount(_plain(left[4]), right[0], _plain(right[1]), left[2])


def _plain(text: str) -> str:
    """Undo the kernel's octal escapes of blanks and backslashes."""
    if "\\" not in text:
        return text
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _swaps(source: Source, mounts: tuple[Mount, ...]) -> list[tuple[Mount, str]]:
    """Return the swap areas: a device as it is, a file as the file system that holds it."""
    rows = [row.split() for row in (source.read("/proc/swaps") or "").splitlines()[1:]]
    names = [_plain(row[0]) for row in rows if row]
    below = [Mount("", "swap", name) if name.startswith("/dev/") else _mount_of(mounts, name) for name in names]
    return [(mount, "swap") for mount in below if mount]


def _mount_of(mounts: Iterable[Mount], path: str) -> Mount | None:
    """Return the file system that a path without links lies on: the deepest mount point, the last one mounted there."""
    above = [mount for mount in mounts if mount.point == "/" or f"{path}/".startswith(f"{mount.point}/")]
    deepest = max((len(mount.point) for mount in above), default=0)
    return next((mount for mount in reversed(above) if len(mount.point) == deepest), None)


def _place(source: Source, mounts: tuple[Mount, ...], path: str) -> Place:
    real = _without_links(source, path)
    mount = _mount_of(mounts, real)
    if mount is None:
        return Place(path=path)
    space = source.statvfs(real)
    if space and not 0 <= space.available_bytes <= space.free_bytes <= space.size_bytes:
        space = None  # a damaged capture's
    return Place(
        path=path,
        mount_point=mount.point,
        device=mount.device,
        filesystem=mount.filesystem,
        disks=tuple(sorted(disks_below(source, mount))),
        size_bytes=space.size_bytes if space else None,
        free_bytes=space.free_bytes if space else None,
        available_bytes=space.available_bytes if space else None,
    )


def _without_links(source: Source, path: str) -> str:
    """Follow the symbolic links of a path's components; a capture knows those that it holds."""
    done, followed = "/", 0
    parts = [part for part in path.split("/") if part][::-1]
    while parts:
        step = posixpath.normpath(posixpath.join(done, parts.pop()))
        target = source.readlink(step) if followed < _MAX_LINKS else None
        if target is None:
            done = step
            continue
        followed += 1
        parts += [part for part in target.split("/") if part][::-1]
        done = "/"
    return done


def _device_name(source: Source, mount: Mount) -> str:
    """Return a device's name in the block layer: of ``/dev/mapper/x`` the dm device, of ``/dev/root`` what it is."""
    name = mount.device.rpartition("/")[2]
    if "/mapper/" in mount.device:
        found = (d for d in source.listdir("/sys/block") if line(source, f"/sys/block/{d}/dm/name") == name)
        name = next(found, name)
    if NAMESPACE.fullmatch(name) or _disk_of_partition(name) or source.readlink(f"/sys/class/block/{name}"):
        return name
    known = source.readlink(f"/sys/dev/block/{mount.numbers}") if mount.numbers else None
    return known.rpartition("/")[2] if known else name


def _btrfs_devices(source: Source, name: str) -> tuple[str, ...]:
    """Return every device of the btrfs that has this one."""
    for identifier in source.listdir("/sys/fs/btrfs"):
        devices = source.listdir(f"/sys/fs/btrfs/{identifier}/devices")
        if name in devices:
            return devices
    return (name,)


def _disks(source: Source, names: Iterable[str]) -> frozenset[str]:
    """Return the disks below block devices: a partition's disk, an md's or dm's members, else the device itself."""
    found, seen, waiting = set(), set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        below = _layer_below(source, name)
        waiting += below
        if not below and (NAMESPACE.fullmatch(name) or _folder(source, name)):
            found.add(name)
    return frozenset(found)


def _layer_below(source: Source, name: str) -> tuple[str, ...]:
    """Return the disk of a partition, the members of an md or dm, ``()`` for a whole disk."""
    if NAMESPACE.fullmatch(name):
        return ()
    if (disk := _disk_of_partition(name)) is not None:
        return (disk,)
    folder = _folder(source, name)
    if folder and source.read(f"{folder}/partition") is not None:
        return (folder.split("/")[-2],)
    return source.listdir(f"/sys/block/{name}/slaves")


def _disk_of_partition(name: str) -> str | None:
    """Return the namespace of ``nvme0n1p2`` by its name alone, None for other devices."""
    disk, _, number = name.rpartition("p")
    return disk if NAMESPACE.fullmatch(disk) and number.isdecimal() else None


def _folder(source: Source, name: str) -> str | None:
    return source.readlink(f"/sys/class/block/{name}") or source.readlink(f"/sys/block/{name}")
