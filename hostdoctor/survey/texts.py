"""Command outputs, live or pasted, turned into records; a parser is imported when its text is there."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact
from hostdoctor.sources.base import (
    COLLECT_ENV,
    HWLOC_XML,
    INTERRUPTS,
    LIVE_COMMANDS,
    LSCPU,
    LSPCI,
    LSPCI_TREE,
    NCCL_XML,
    NUMACTL,
    NVIDIA_SMI_QUERY,
    NVME_LIST,
    TOPO_MATRIX,
    Command,
    Output,
    Source,
)
from hostdoctor.survey.notes import Notes

if TYPE_CHECKING:
    from hostdoctor.parsers.collect_env import CollectEnv
    from hostdoctor.parsers.hwloc_xml import HwlocTopology
    from hostdoctor.parsers.interrupts import Interrupts
    from hostdoctor.parsers.lscpu import LscpuRecord
    from hostdoctor.parsers.lspci import LspciListing
    from hostdoctor.parsers.lspci_tree import LspciTree
    from hostdoctor.parsers.nccl_xml import NcclTopology
    from hostdoctor.parsers.numactl import NumactlHardware
    from hostdoctor.parsers.nvidia_smi_q import NvidiaSmiQuery
    from hostdoctor.parsers.nvme_list import NvmeList
    from hostdoctor.parsers.topo_matrix import TopoMatrix

Record = TypeVar("Record", bound=Fact)


class Texts(Fact, frozen=True, kw_only=True):
    """Every record that texts gave, in the order in which their sources were named."""

    matrices: "tuple[TopoMatrix, ...]" = ()
    numactl: "tuple[NumactlHardware, ...]" = ()
    listings: "tuple[LspciListing, ...]" = ()
    trees: "tuple[LspciTree, ...]" = ()
    lscpu: "tuple[LscpuRecord, ...]" = ()
    interrupts: "tuple[Interrupts, ...]" = ()
    nvme_lists: "tuple[NvmeList, ...]" = ()
    collect_envs: "tuple[CollectEnv, ...]" = ()
    queries: "tuple[NvidiaSmiQuery, ...]" = ()
    hwloc: "tuple[HwlocTopology, ...]" = ()
    nccl: "tuple[NcclTopology, ...]" = ()
    sources: tuple[str, ...] = ()


def read_texts(source: Source, notes: Notes) -> Texts:
    """Return the records of every command output; what is missing or unreadable leaves a gap."""
    seen: list[str] = []

    def records(command: Command, parser: Callable[[], Callable[[str, str], Record]]) -> tuple[Record, ...]:
        if source.is_live and command not in LIVE_COMMANDS:
            return ()
        outputs = source.run(command)
        found = [_parse(output, command, parser, notes) for output in outputs]
        seen.extend(output.source for output, record in zip(outputs, found, strict=True) if record is not None)
        return tuple(record for record in found if record is not None)

    return Texts(
        matrices=records(TOPO_MATRIX, _topo_matrix),
        numactl=records(NUMACTL, _numactl),
        listings=records(LSPCI, _lspci),
        trees=records(LSPCI_TREE, _lspci_tree),
        lscpu=records(LSCPU, _lscpu),
        interrupts=(*_proc_interrupts(source, notes), *records(INTERRUPTS, _interrupts)),
        nvme_lists=records(NVME_LIST, _nvme_list),
        collect_envs=records(COLLECT_ENV, _collect_env),
        queries=records(NVIDIA_SMI_QUERY, _nvidia_smi_q),
        hwloc=records(HWLOC_XML, _hwloc_xml),
        nccl=records(NCCL_XML, _nccl_xml),
        sources=tuple(seen),
    )


def _parse(
    output: Output, command: Command, parser: Callable[[], Callable[[str, str], Record]], notes: Notes
) -> Record | None:
    if output.text is None:
        notes.gap(f"source:{command.kind}", output.source, output.reason or "no output", output.kind)
        return None
    try:
        return parser()(output.text, output.source)
    except ParseError as error:
        reason = f"line {error.line}: {error.reason}: {error.text!r}" if error.line else error.reason
        notes.gap(f"source:{command.kind}", output.source, reason, "unreadable")
        return None


def _proc_interrupts(source: Source, notes: Notes) -> "tuple[Interrupts, ...]":
    text = source.read("/proc/interrupts")
    if not text or "nvme" not in text:
        return ()
    record = _parse(Output(source="/proc/interrupts", text=text), INTERRUPTS, _interrupts, notes)
    return () if record is None else (record,)


def _topo_matrix() -> "Callable[[str, str], TopoMatrix]":
    from hostdoctor.parsers.topo_matrix import parse_topo_matrix

    return parse_topo_matrix


def _numactl() -> "Callable[[str, str], NumactlHardware]":
    from hostdoctor.parsers.numactl import parse_numactl

    return parse_numactl


def _lspci() -> "Callable[[str, str], LspciListing]":
    from hostdoctor.parsers.lspci import parse_lspci

    return parse_lspci


def _lspci_tree() -> "Callable[[str, str], LspciTree]":
    from hostdoctor.parsers.lspci_tree import parse_lspci_tree

    return parse_lspci_tree


def _lscpu() -> "Callable[[str, str], LscpuRecord]":
    from hostdoctor.parsers.lscpu import parse_lscpu

    return parse_lscpu


def _interrupts() -> "Callable[[str, str], Interrupts]":
    from hostdoctor.parsers.interrupts import parse_interrupts

    return parse_interrupts


def _nvme_list() -> "Callable[[str, str], NvmeList]":
    from hostdoctor.parsers.nvme_list import parse_nvme_list

    return parse_nvme_list


def _collect_env() -> "Callable[[str, str], CollectEnv]":
    from hostdoctor.parsers.collect_env import parse_collect_env

    return parse_collect_env


def _nvidia_smi_q() -> "Callable[[str, str], NvidiaSmiQuery]":
    from hostdoctor.parsers.nvidia_smi_q import parse_nvidia_smi_q

    return parse_nvidia_smi_q


def _hwloc_xml() -> "Callable[[str, str], HwlocTopology]":
    from hostdoctor.parsers.hwloc_xml import parse_hwloc_xml

    return parse_hwloc_xml


def _nccl_xml() -> "Callable[[str, str], NcclTopology]":
    from hostdoctor.parsers.nccl_xml import parse_nccl_xml

    return parse_nccl_xml
