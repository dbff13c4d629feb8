"""A running host of files: processes as ``/proc`` shows them, and a driver that lists who uses its GPUs."""

from collections.abc import Iterator
from typing import Any

from hostdoctor.errors import SourceError
from hostdoctor.sources.base import NvmlOutput
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree

OWN_NAMESPACE = "/proc/self/ns/pid:[4026531836]"


def stat(
    pid: int, name: str, parent: int = 1, *, start: int = 500, cpu: int = 0, state: str = "S", stack: int = 7
) -> str:
    """Return ``/proc/PID/stat``."""
    before = f"{pid} ({name}) {state} {parent} {pid} {pid} 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 {start} 1 1 1 1 1 {stack} "
    return before + f"0 0 0 0 0 0 0 0 0 17 {cpu} 0 0 0 0 0 0 0 0 0 0 0 0 0\n"


def process_files(
    pid: int,
    name: str = "python3",
    *,
    parent: int = 1,
    cpus: str = "0-3",
    rss_kib: int = 300_000,
    maps: str = "",
    cgroup: str = "/engine.slice",
    cpu: int = 0,
    status: str = "",
    start: int = 500,
) -> dict[str, str]:
    """Return the files of a process with one thread that ran last on ``cpu``."""
    shown = (
        f"Name:\t{name}\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t{pid}\nVmLck:\t       0 kB\nVmPin:\t       0 kB\n"
        f"VmRSS:\t  {rss_kib} kB\nRssShmem:\t  204800 kB\nThreads:\t1\nCpus_allowed_list:\t{cpus}\n"
        "Mems_allowed_list:\t0-1\n"
    )
    folder = f"/proc/{pid}"
    return {
        f"{folder}/stat": stat(pid, name, parent, cpu=cpu, start=start),
        f"{folder}/task/{pid}/stat": stat(pid, name, parent, cpu=cpu, start=start),
        f"{folder}/status": status or shown,
        f"{folder}/cgroup": f"0::{cgroup}\n",
        f"{folder}/numa_maps": maps,
    }


def mapping(node: int, mib: int, file: str = "/dev/zero\\040(deleted)") -> str:
    """Return a line of numa_maps: so much memory on a node; no file is private memory."""
    pages = mib * 256
    what = f"file={file} dirty={pages}" if file else f"anon={pages} dirty={pages}"
    return f"7f{node:02x}{len(file):02x}000000 default {what} N{node}={pages} kernelpagesize_kB=4\n"


class Running(RootSource):
    """A host that is alive. ``hidden`` are PIDs whose memory this user may not see; ``gone`` end once looked into."""

    is_live = True

    def __init__(self, files: dict[str, str], users: dict[int, list[int]] | None = None) -> None:
        """Take files, and PIDs by the index of the GPU that they use."""
        self.files = {"/proc/self/stat": stat(1, "hostdoctor"), **files}
        pids = {path.split("/")[2] for path in files if path.startswith("/proc/")}
        self.links = {f"/proc/{pid}/exe": "/usr/bin/python3" for pid in pids} | {"/proc/self/ns/pid": OWN_NAMESPACE}
        self.users = users
        self.hidden: set[int] = set()
        self.gone: set[int] = set()
        self.failing: set[str] = set()
        self.opened: list[str] = []
        self.show()

    def show(self) -> None:
        """Let what the files are now be seen."""
        hidden = {f"/proc/{pid}/exe" for pid in self.hidden}
        links = {path: target for path, target in self.links.items() if path not in hidden}
        super().__init__(MemoryTree({path: text.encode() for path, text in self.files.items()}, links), "this host")

    def read_lines(self, path: str) -> Iterator[str] | None:
        self.opened.append(path)
        text = self.files.get(path)
        return None if text is None else self._lines(path, text)

    def _lines(self, path: str, text: str) -> Iterator[str]:
        yield from text.splitlines()
        if path in self.failing:
            raise SourceError(f"{path}: could not be read in time")
        for pid in self.gone:
            self.files = {name: t for name, t in self.files.items() if not name.startswith(f"/proc/{pid}/")}
            self.show()

    def nvml(self) -> NvmlOutput:
        if self.users is None:
            return NvmlOutput(state="absent", reason="no library")
        gpus: list[dict[str, Any]] = [{"index": i, "processes": pids} for i, pids in self.users.items()]
        return NvmlOutput(document={"count": len(gpus), "gpus": gpus}, state="ok")
