"""Populated memory slots from EDAC (Documentation/ABI/testing/sysfs-devices-edac); readable without root."""

import re

from hostdoctor.facts import Dimm
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import integer, line

CONTROLLERS = "/sys/devices/system/edac/mc"
MIB = 1 << 20

# How drivers spell the socket: skx/i10nm "… Socket#1 IMC#0", sb "… SrcID#1_Ha#0", labels "CPU_SrcID#1_MC#0_Chan#0…".
_SOCKET = r"(?:Socket|SrcID)#(\d{1,3})"
# ghes takes the firmware's names of slots: "P1_Node0_Channel0_Dimm0", "CPU1_DIMM_A1", "P1-DIMMA1".
_SLOT_OF = r"(?:P|CPU|PROC|SOCKET) ?(\d{1,2})(?=[ _-])"
# amd64_edac has one controller for each data fabric, in order; that is a socket from Rome (F17h_M30h) on.
_AMD = r"F17h_M[3-9A-F]|F1[89A-F]h"


def read_dimms(source: Source) -> tuple[Dimm, ...]:
    """Return the DIMMs in order of controller and slot; ``()`` without a driver, as in virtual machines."""
    dimms = []
    for controller in _numbered(source, CONTROLLERS, "mc"):
        folder = f"{CONTROLLERS}/{controller}"
        name = line(source, f"{folder}/mc_name") or ""
        dimms += [_dimm(source, folder, slot, name) for slot in _numbered(source, folder, "dimm")]
    return tuple(dimm for dimm in dimms if dimm.size_bytes != 0)


def _dimm(source: Source, folder: str, slot: str, controller_name: str) -> Dimm:
    size_mib = integer(source.read(f"{folder}/{slot}/size"))
    label = line(source, f"{folder}/{slot}/dimm_label") or slot
    controller = folder.rpartition("/")[2]
    return Dimm(
        label=label,
        controller=controller,
        package=_package(controller, controller_name, label),
        location=line(source, f"{folder}/{slot}/dimm_location"),
        size_bytes=None if size_mib is None else size_mib * MIB,
    )


def _package(controller: str, controller_name: str, label: str) -> int | None:
    told = re.search(_SOCKET, controller_name) or re.search(_SOCKET, label)
    if told:
        return int(told.group(1))
    if re.match(_AMD, controller_name, re.IGNORECASE):
        return int(controller.removeprefix("mc"))
    told = re.match(_SLOT_OF, label, re.IGNORECASE)
    return int(told.group(1)) if told else None


def _numbered(source: Source, folder: str, prefix: str) -> list[str]:
    names = [name for name in source.listdir(folder) if re.fullmatch(rf"{prefix}\d{{1,4}}", name)]
    return sorted(names, key=lambda name: int(name.removeprefix(prefix)))
