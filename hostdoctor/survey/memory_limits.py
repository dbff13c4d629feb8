"""What limits the memory of the whole host: /proc/meminfo, pinned pages, /dev/shm, kubelet's threshold."""

import re

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Gap, HostMemory, Place
from hostdoctor.parsers.kubelet_config import parse_eviction_bytes
from hostdoctor.sources.base import Source
from hostdoctor.survey.storage import read_places

KIB = 1024
SHM = "/dev/shm"  # noqa: S108  the mount, not a file of ours
KUBELET = ("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet/config.json", "/etc/kubernetes/kubelet-config.yaml")
_MEMINFO = re.compile(r"^(MemTotal|MemFree|MemAvailable|CommitLimit|Committed_AS):\s+(\d{1,15}) kB$", re.MULTILINE)
_PINS = re.compile(r"^nr_foll_pin_(acquired|released) (\d{1,18})$", re.MULTILINE)
_SIZE = re.compile(r"^(\d{1,15})([kmg]?)$")
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def read_host_memory(source: Source, page_size_bytes: int | None) -> tuple[HostMemory, tuple[Gap, ...]]:
    """Return the memory of the host as a whole; a kubelet configuration that is not understood leaves a gap."""
    told = {name: int(kib) * KIB for name, kib in _MEMINFO.findall(source.read("/proc/meminfo") or "")}
    gaps: list[Gap] = []
    memory = HostMemory(
        total_bytes=told.get("MemTotal"),
        free_bytes=told.get("MemFree"),
        available_bytes=told.get("MemAvailable"),
        commit_limit_bytes=told.get("CommitLimit"),
        committed_bytes=told.get("Committed_AS"),
        pinned_bytes=pinned_bytes(source.read("/proc/vmstat"), page_size_bytes),
        kubelet_eviction_bytes=_kubelet(source, told.get("MemTotal"), gaps),
        shm=_shm(source, told.get("MemTotal")),
    )
    return memory, tuple(gaps)


def pinned_bytes(vmstat: str | None, page_size_bytes: int | None) -> int | None:
    """Return the bytes pinned by drivers and RDMA (FOLL_PIN), of the host's vmstat or of a node's.

    The two counters are read one after the other, so that their difference may fall below 0.
    """
    pins = dict(_PINS.findall(vmstat or ""))
    if len(pins) < 2 or page_size_bytes is None:
        return None
    return max(0, int(pins["acquired"]) - int(pins["released"])) * page_size_bytes


def _kubelet(source: Source, total_bytes: int | None, gaps: list[Gap]) -> int | None:
    for path in KUBELET:
        text = source.read(path)
        if text is None:
            continue
        try:
            return parse_eviction_bytes(text, total_bytes, path)
        except ParseError as error:
            gap = Gap(fact="memory.kubelet_eviction_bytes", source=path, reason=str(error), kind="unreadable")
            gaps.append(gap)
    return None


def _shm(source: Source, total_bytes: int | None) -> Place | None:
    """Return /dev/shm where it is a file system of its own; its size by its mount option where nobody counted."""
    place = read_places(source, (SHM,))[0]
    if place.mount_point != SHM:
        return None
    if place.size_bytes is not None:
        return place
    return msgspec.structs.replace(place, size_bytes=_option_size(source, total_bytes))


def _option_size(source: Source, total_bytes: int | None) -> int | None:
    """Return the ``size=65536k`` of the mount at /dev/shm; the kernel leaves its default out, half of the memory."""
    text = source.read("/proc/self/mountinfo") or source.read("/proc/mounts") or source.read("/proc/self/mounts") or ""
    for row in reversed(text.splitlines()):
        if f" {SHM} " in row:
            options = row.split()[-1] if " - " in row else (row.split() + [""] * 4)[3]
            sizes = (_SIZE.match(option[5:]) for option in options.split(",") if option.startswith("size="))
            match = next((size for size in sizes if size), None)
            if match:
                return int(match[1]) * _SCALE[match[2]]
            return None if total_bytes is None else total_bytes // 2
    return None
