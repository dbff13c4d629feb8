"""From a description to the files of a host."""

from typing import Any

import msgspec

from tests.support.hostbuilder import commands
from tests.support.hostbuilder.catalogue import parts
from tests.support.hostbuilder.cpus import Layout, lay_out, write_cpus, write_nodes
from tests.support.hostbuilder.description import Host
from tests.support.hostbuilder.disks import write_disks
from tests.support.hostbuilder.files import HostFiles, Tree
from tests.support.hostbuilder.irqs import Interrupts
from tests.support.hostbuilder.nics import write_nics
from tests.support.hostbuilder.nvidia import nvml_answer, write_driver
from tests.support.hostbuilder.nvme import BuiltNvme, write_nvme
from tests.support.hostbuilder.pci import Function, place
from tests.support.hostbuilder.pci_files import write_pci
from tests.support.hostbuilder.proc import write_proc
from tests.support.hostbuilder.zones import write_zoneinfo


def build_files(description: dict[str, Any]) -> HostFiles:
    """Return the host that a description amounts to; raise msgspec.ValidationError for a field it does not have."""
    host = msgspec.convert(description, Host)
    tree = Tree()
    layout = lay_out(host)
    functions = place(host, parts())
    irqs = Interrupts(layout)
    mounts: list[str] = []
    write_cpus(host, layout, tree)
    write_nodes(host, layout, tree)
    write_zoneinfo(host, layout, tree)
    write_pci(host, functions, layout, tree)
    drives = write_nvme(host, functions, irqs, layout, tree, mounts)
    rdma = write_nics(host, functions, irqs, layout, tree)
    write_disks(host, functions, tree, mounts)
    if host.nvidia:
        write_driver(host, host.nvidia, functions, irqs, layout, tree)
    irqs.write(host.arch, tree)
    write_proc(host, layout, mounts, tree)
    _finish(host, tree)
    nvml = nvml_answer(host, host.nvidia, functions, layout) if host.nvidia else None
    outputs = _outputs(host, functions, rdma, drives, layout)
    return HostFiles(files=tree.files, links=tree.links, commands=outputs, nvml=nvml)


def _finish(host: Host, tree: Tree) -> None:
    """Apply what a description says last: the view of a container, files that differ, paths that are absent."""
    tree.link("/sys/class/net/lo", "/sys/devices/virtual/net/lo")
    tree.attributes("/sys/devices/virtual/net/lo", {"type": 772, "operstate": "unknown"})
    if host.container:
        _hide_netdevs(tree)
    for path, text in host.files.items():
        tree.put(path, text)
    if host.absent:
        tree.drop(host.absent)


def _hide_netdevs(tree: Tree) -> None:
    """Hide the host's network interfaces, as sysfs does in another network namespace."""
    tree.files = {path: data for path, data in tree.files.items() if "/net/" not in path or "/virtual/" in path}
    tree.links = {path: text for path, text in tree.links.items() if "/net/" not in path or path.endswith("/net/lo")}


def _outputs(
    host: Host, functions: list[Function], rdma: list[Function], drives: list[BuiltNvme], layout: Layout
) -> dict[str, str]:
    outputs = {"numactl --hardware": commands.numactl_hardware(host, layout), "lscpu": commands.lscpu(host, layout)}
    if host.nvidia and not host.nvidia.error:
        outputs["nvidia-smi topo -m"] = commands.topo_matrix(host, functions, rdma, layout)
    if drives:
        outputs["nvme list"] = commands.nvme_list(host, drives)
    return outputs | host.commands
