"""A bug report made in the guest from its real lspci, numactl and files, with a double's ``nvidia-smi -q``."""

import io
import json

import msgspec
import pytest

from hostdoctor.sources.bug_report import source_of
from hostdoctor.survey import survey_map
from tests.lab.results import Guest

pytestmark = pytest.mark.lab


def test_a_bug_report_gives_the_map_of_the_guest(guest: Guest) -> None:
    made = guest.run("plain", "bug-report")
    assert made.status == 0, made.err
    found = json.loads(msgspec.json.encode(survey_map(source_of(io.BytesIO(made.out.encode()), "report"))))
    live = guest.host("plain")
    assert _of(found["numa_nodes"], "id", "cpus", "distances", "kind") == _of(
        live["numa_nodes"], "id", "cpus", "distances", "kind"
    )
    # no link: the stand-ins' sysfs files are laid over what their configuration space, which lspci reads, says
    assert _of(found["gpus"], "index", "bdf", "numa_node", "root_complex", "upstream") == _of(
        live["gpus"], "index", "bdf", "numa_node", "root_complex", "upstream"
    )
    assert _of(found["pci_devices"], "bdf", "root_complex", "upstream", "vendor_id", "device_id") == _of(
        live["pci_devices"], "bdf", "root_complex", "upstream", "vendor_id", "device_id"
    )
    told = {d["bdf"]: d["class_code"] for d in found["pci_devices"]}
    assert {len(code) for code in told.values()} <= {4, 6}  # lspci prints no prog-if that is 00 and has no name
    assert {d["bdf"]: d["class_code"][: len(told[d["bdf"]])] for d in live["pci_devices"]} == told
    assert {d["bdf"] for d in found["nvme"]} == {d["bdf"] for d in live["nvme"]}
    assert [gpu["name"] for gpu in found["gpus"]] == ["NVIDIA Example 80GB"] * len(live["gpus"])
    assert found["disagreements"] == []


def _of(records: list[dict[str, object]], *fields: str) -> list[tuple[object, ...]]:
    return [tuple(record[field] for field in fields) for record in records]
