"""``nvidia-smi -q``: values by nesting, whole and damaged."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.nvidia_smi_q import NvidiaSmiQuery, SmiGpu, parse_nvidia_smi_q
from tests.support.render_smi import render_query

MIB = 1 << 20
TEXT = """\
==============NVSMI LOG==============

Timestamp                                 : Wed Jun  4 09:52:39 2025
Driver Version                            : 570.86.15
CUDA Version                              : 12.8

Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Addressing Mode                       : HMM
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Enabled
        Pending                           : Disabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 7
        FB Memory Usage
            Total                         : 10000 MiB
    GPU UUID                              : GPU-11111111-2222-3333-4444-555555555555
    GPU C2C Mode                          : Disabled
    PCI
        Bus Id                            : 00000000:1B:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 1
                Device Current            : 1
                Device Max                : 5
                Host Max                  : N/A
            Link Width
                Max                       : 16x
                Current                   : 8x
        Replays Since Reset               : 0
    Performance State                     : P0
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    Processes                             : None

GPU 00010000:E1:00.0
    Product Name                          : [N/A]
    MIG Mode
        Current                           : Requested functionality has been deprecated
    FB Memory Usage
        Total                             : [Unknown Error]
"""
FIRST = SmiGpu(
    bdf="0000:1b:00.0",
    index=0,
    name="NVIDIA H100 80GB HBM3",
    uuid="GPU-11111111-2222-3333-4444-555555555555",
    persistence=True,
    mig=True,
    performance_state="P0",
    addressing_mode="HMM",
    c2c=False,
    memory_bytes=81559 * MIB,
    bar1_bytes=131072 * MIB,
    width_lanes=8,
    max_width_lanes=16,
    generation=1,
    max_generation=5,
    device_max_generation=5,
)


def test_reads_every_value_from_its_own_heading() -> None:
    assert parse_nvidia_smi_q(TEXT) == NvidiaSmiQuery(
        gpus=(FIRST, SmiGpu(bdf="10000:e1:00.0", index=1)),
        driver_version="570.86.15",
        cuda_version="12.8",
        attached=2,
        whole=True,
    )


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("prefix", ["", "> ", "    ", "2025-06-04 09:52:39 node7 run: "])
def test_prefixes_and_line_ends_change_nothing(prefix: str, ending: str) -> None:
    text = "".join(f"{prefix}{line}{ending}" for line in TEXT.splitlines())
    assert parse_nvidia_smi_q(text) == parse_nvidia_smi_q(TEXT)


def test_without_indentation_the_memory_of_a_sliced_gpu_is_not_known() -> None:
    flat = "".join(" ".join(line.split()) + "\n" for line in TEXT.splitlines())
    gpu = parse_nvidia_smi_q(flat).gpus[0]
    assert gpu.memory_bytes is None
    assert (gpu.name, gpu.uuid, gpu.width_lanes, gpu.max_width_lanes) == (FIRST.name, FIRST.uuid, 8, 16)


def test_a_part_of_the_gpus_has_no_indices() -> None:
    found = parse_nvidia_smi_q(TEXT.replace("GPUs                             : 2", "GPUs   : 8"))
    assert [gpu.index for gpu in found.gpus] == [None, None]
    assert [gap.reason for gap in found.gaps] == ["2 of 8 attached GPUs are shown: which is which is not told"]


def test_a_lost_gpu_is_a_gap() -> None:
    text = "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error\n" + TEXT
    assert [(gap.fact, gap.reason) for gap in parse_nvidia_smi_q(text).gaps] == [
        ("pci_devices[0000:1b:00.0].handle", "Unknown Error")
    ]


def test_the_first_of_two_outputs_counts() -> None:
    assert parse_nvidia_smi_q(TEXT + TEXT.replace("H100", "H200")) == parse_nvidia_smi_q(TEXT)


def test_ats_means_a_chip_to_chip_link() -> None:
    text = re.sub(r"    GPU C2C Mode.*\n", "", TEXT).replace(": HMM", ": ATS")
    assert parse_nvidia_smi_q(text).gpus[0].c2c is True


@pytest.mark.parametrize("text", ["", "\n\n", "no devices were found\n", "NVIDIA-SMI has failed\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nvidia_smi_q(text)


def test_the_double_prints_what_is_read_back() -> None:
    told = {"bdf": "00000000:3B:00.0", "name": "X", "mig": None, "link": {"width_lanes": 16}, "memory_bytes": 5 * MIB}
    gpu = parse_nvidia_smi_q(render_query({"driver_version": "570.1", "gpus": [told]})).gpus[0]
    assert (gpu.bdf, gpu.index, gpu.name, gpu.mig, gpu.width_lanes, gpu.memory_bytes) == (
        *("0000:3b:00.0", 0, "X", None, 16),
        5 * MIB,
    )


@given(st.lists(st.sampled_from([*TEXT.splitlines(), "", "\x00", "GPU 00000000:1B:00.0", "x" * 500]), max_size=80))
def test_lines_in_any_order_give_records_or_one_error(lines: list[str]) -> None:
    with suppress(ParseError):
        found = parse_nvidia_smi_q("\n".join(lines))
        assert len({gpu.bdf for gpu in found.gpus}) == len(found.gpus)
