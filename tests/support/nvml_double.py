"""A ``libnvidia-ml.so.1`` for tests: built from C, answering the real pynvml from a description.

:func:`describe` writes the description (its keys stand in ``tests/doubles/nvml/nvml_double.c``) from the document that
:mod:`tests.support.hostbuilder` makes, which is what the NVML reader prints: ``{"driver_version", "count", "gpus"}``.
"""

import os
import shutil
import subprocess  # noqa: TID251  compiles the double
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.sources.nvml_child import FABRIC_STATES
from tests.support.hostbuilder import load_host
from tests.support.hostbuilder.catalogue import parts
from tests.support.hostbuilder.commands import path_kind
from tests.support.hostbuilder.description import Host
from tests.support.hostbuilder.nvidia import driver_gpus
from tests.support.hostbuilder.pci import place

SOURCE = Path(__file__).parents[1] / "doubles" / "nvml" / "nvml_double.c"
LIBRARY = "libnvidia-ml.so.1"

# nvmlReturn_t, by what happened.
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, GPU_IS_LOST, VERSION_MISMATCH = 3, 4, 9, 15, 18
UNKNOWN_ERROR = 999
NEVER = -1  # as a sleep: no answer at all

# nvmlGpuTopologyLevel_t by nvidia-smi's word for a path.
LEVELS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
LISTS = ("cpu_affinity", "node_affinity", "socket_cpu_affinity", "socket_node_affinity")

Gpus = Mapping[int, Mapping[str, Any]]


def compiler() -> str | None:
    """Return the C compiler here, None when there is none."""
    return next(
        (path for name in (os.environ.get("CC", ""), "cc", "gcc", "clang") if (path := shutil.which(name))), None
    )


def build_library(folder: Path) -> Path:
    """Compile the library into a folder, which then goes into LD_LIBRARY_PATH; raise CalledProcessError."""
    library = folder / LIBRARY
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(library))
    subprocess.run((compiler() or "cc", *flags, str(SOURCE)), check=True, capture_output=True, text=True)
    return library


def describe(
    document: Mapping[str, Any],
    *,
    init: Mapping[str, int] | None = None,
    gpus: Gpus | None = None,
    topology: Mapping[tuple[int, int], str] | None = None,
) -> str:
    """Return the description of a driver that answers a document.

    ``init`` and ``gpus`` add keys to it: ``{"return": 18}``, ``{0: {"fail.uuid": 15, "lost_after": 4}}``; a value of
    None takes a key away. ``topology`` gives pairs nvidia-smi's word for their path.
    """
    rows: dict[str, Any] = {"driver_version": document.get("driver_version"), "count": document["count"]}
    rows |= {f"init.{key}": value for key, value in (init or {}).items()}
    for gpu in document["gpus"]:
        rows |= {f"gpu.{gpu['index']}.{key}": value for key, value in _fields(gpu).items()}
    for index, fields in (gpus or {}).items():
        rows |= {f"gpu.{index}.{key}": _text(key, value) for key, value in fields.items()}
    rows |= {f"topology.{a}.{b}": LEVELS[word] for (a, b), word in (topology or {}).items()}
    return "".join(f"{key}={value}\n" for key, value in rows.items() if value is not None)


def topology_of(name: str) -> dict[tuple[int, int], str]:
    """Return how each pair of a described host's GPUs meets on PCI, in nvidia-smi's words."""
    host = msgspec.convert(load_host(name), Host)
    gpus = driver_gpus(host, place(host, parts()))
    return {(a, b): path_kind(gpus[a], gpus[b]) for b in range(len(gpus)) for a in range(b)}


def _fields(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return a GPU of the document as flat fields."""
    told = {"processes": [], **gpu, **gpu["link"], "fabric": _fabric(gpu.get("fabric"))}
    return {key: _text(key, value) for key, value in told.items() if key not in ("index", "errors", "link")}


def _fabric(told: Mapping[str, Any] | None) -> str | None:
    """Return a fabric's state as the double's numbers; a status is Success or else Unknown Error."""
    if told is None:
        return None
    states = {text: number for number, text in FABRIC_STATES.items()}
    status = 0 if told["status"] == "Success" else UNKNOWN_ERROR
    return f"{states[told['state']]}:{status}:{told['clique_id']}:{told['cluster_uuid'].replace('-', '')}"


def _text(key: str, value: Any) -> Any:
    if key in LISTS and isinstance(value, list):
        return format_cpulist(value)
    if key == "processes" and isinstance(value, list):
        return ",".join(f"{pid}:0" for pid in value)
    return int(value) if isinstance(value, bool) else value
