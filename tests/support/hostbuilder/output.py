"""Putting a built host into a directory or an archive, with command outputs under sosreport's names."""

import gzip
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.hostbuilder.files import HostFiles

NVML_NAME = "hostdoctor/nvml.json"
PLUGINS = {"nvidia-smi": "nvidia", "numactl": "numa", "lscpu": "processor", "lspci": "pci", "nvme": "nvme"}


def rooted_files(files: HostFiles) -> dict[str, bytes]:
    """Return every file by absolute path, command outputs and the NVML answer too: what a captured root holds."""
    return {f"/{name}": data for name, data in _members(files)}


def write_tree(files: HostFiles, directory: Path) -> None:
    """Write a host under a directory, which becomes its root."""
    made: set[str] = set()

    def place(name: str) -> str:
        path = f"{directory}/{name}"
        parent = path.rpartition("/")[0]
        if parent not in made:
            Path(parent).mkdir(parents=True, exist_ok=True)
            made.add(parent)
        return path

    for name, data in _members(files):
        Path(place(name)).write_bytes(data)
    for path, target in files.links.items():
        Path(place(path.lstrip("/"))).symlink_to(target)


def pack(files: HostFiles) -> bytes:
    """Return a host as a .tar.gz; the same host gives the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in sorted(_members(files)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for path, target in sorted(files.links.items()):
            member = tarfile.TarInfo(path.lstrip("/"))
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as stream:
        stream.write(raw.getvalue())
    return packed.getvalue()


def _members(files: HostFiles) -> Iterator[tuple[str, bytes]]:
    for path, data in files.files.items():
        yield path.lstrip("/"), data
    for command, text in files.commands.items():
        yield sos_path(command), text.encode()
    if files.nvml is not None:
        yield NVML_NAME, (json.dumps(files.nvml, indent=1) + "\n").encode()


def sos_path(command: str) -> str:
    """Return where a sosreport keeps a command's output: ``sos_commands/nvidia/nvidia-smi_topo_-m``."""
    program = os.path.basename(command.split()[0])  # noqa: PTH119  a command, not a path
    return f"sos_commands/{PLUGINS.get(program, 'host')}/" + re.sub(r"[^\w.-]+", "_", command)
