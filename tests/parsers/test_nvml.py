"""The NVML reader's document: a field that NVML cannot have told is not known and leaves a gap; nothing raises."""

import json
from typing import Any

import msgspec
import pytest

from hostdoctor.facts import Host
from hostdoctor.parsers.nvml import NvmlDocument, NvmlGpu, NvmlLink, parse_nvml
from hostdoctor.sources.manifest import NVML_PATH
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey

DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]
ODD = ["", "x16", "two", 5, -1, 1.5, 99_999_999, 1 << 70, 10**5000, True, [], ["a"], [[1]], [-1], DEEP, {}, {"a": 1}]


def gpu(**changes: Any) -> dict[str, Any]:
    told = {"index": 0, "bdf": "00000000:01:00.0", "name": "H100", "uuid": "GPU-1", "errors": {}}
    return told | {"link": {"width_lanes": 16, "generation": 5}} | changes


def parsed(*gpus: Any, **more: Any) -> NvmlDocument:
    return parse_nvml({"count": len(gpus), "gpus": list(gpus)} | more)


def host_of(document: Any, state: str = "ok") -> Host:
    answer = {"document": document, "state": state}
    base = "/sys/devices/pci0000:00"
    files = {NVML_PATH: json.dumps(answer), "/sys/devices/system/node/online": "0"}
    links = {}
    for bdf in ("0000:01:00.0", "0000:02:00.0"):
        values = {"class": "0x030200", "vendor": "0x10de", "device": "0x2330", "numa_node": "0"}
        files |= {f"{base}/{bdf}/{name}": value for name, value in values.items()}
        links[f"/sys/bus/pci/devices/{bdf}"] = f"../../../devices/pci0000:00/{bdf}"
    return survey(RootSource(MemoryTree({path: text.encode() for path, text in files.items()}, links), "test"))


def test_what_nvml_tells_is_kept() -> None:
    told = gpu(memory_node=1, cpu_affinity=[3, 1], node_affinity=[0], mig=False, pstate=0, nvlinks=18, memory_bytes=80)
    document = parsed(told, driver_version="570.1", extra=[1])
    assert document == NvmlDocument(
        driver_version="570.1",
        count=1,
        is_whole=True,
        gpus=(
            NvmlGpu(
                index=0,
                bdf="0000:01:00.0",
                name="H100",
                uuid="GPU-1",
                memory_node=1,
                cpu_affinity=(1, 3),
                node_affinity=(0,),
                link=NvmlLink(width_lanes=16, generation=5),
                memory_bytes=80,
                mig=False,
                pstate=0,
                nvlinks=18,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("uuid", ["a"]),
        ("bdf", 1),
        ("bdf", "here"),
        ("errors", ["a"]),
        ("link", [1, 2]),
        ("cpu_affinity", "0-3"),
        ("cpu_affinity", [-1, 3]),
        ("cpu_affinity", [99_999_999]),
        ("cpu_affinity", [True]),
        ("node_affinity", "0"),
        ("node_affinity", [-1]),
        ("memory_bytes", "80GB"),
        ("memory_bytes", -1),
        ("memory_node", "x"),
        ("memory_node", -1),
        ("memory_node", 65_536),
        ("mig", 1),
        ("pstate", 16),
        ("nvlinks", -1),
        ("fabric", "up"),
        ("index", -1),
        ("index", 256),
        ("index", 1.5),
        ("index", True),
        ("index", "0"),
        ("index", [0]),
    ],
)
def test_a_field_of_another_kind_is_a_gap(field: str, value: Any) -> None:
    document = parsed(gpu(**{field: value}))
    (told,) = document.gpus
    assert getattr(told, field) == getattr(NvmlGpu(), field)
    (gap,) = document.gaps
    assert (gap.fact, gap.source, gap.kind) == (f"gpus[0].{field}", "NVML", "unreadable")
    assert gap.reason.startswith("not understood: ")


@pytest.mark.parametrize(("field", "value"), [("width_lanes", "x16"), ("width_lanes", 255), ("generation", [4])])
def test_a_link_is_read_field_by_field(field: str, value: Any) -> None:
    document = parsed(gpu(link={"max_width_lanes": 16, field: value}))
    assert document.gpus[0].link == NvmlLink(max_width_lanes=16)
    assert [gap.fact for gap in document.gaps] == [f"gpus[0].link.{field}"]


def test_what_nvml_calls_unknown_leaves_no_gap() -> None:
    document = parsed(gpu(pstate=32, link={"width_lanes": 0, "generation": 0}, bar1_bytes=0, name=None))
    assert (document.gpus[0].pstate, document.gpus[0].link, document.gaps) == (None, NvmlLink(), ())


@pytest.mark.parametrize("count", ["two", -1, 257, True, 1.0])
def test_a_count_that_is_none_is_not_known(count: Any) -> None:
    document = parsed(gpu(), count=count, driver_version=570)
    assert (document.count, document.driver_version) == (None, None)
    assert {gap.fact for gap in document.gaps} == {"nvidia.gpu_count", "system.nvidia_driver"}


@pytest.mark.parametrize("gpus", [None, "abc", 5, {}])
def test_gpus_that_are_no_list_are_a_gap(gpus: Any) -> None:
    document = parse_nvml({"gpus": gpus})
    assert (document.gpus, [gap.fact for gap in document.gaps]) == ((), ["gpus"])


def test_an_entry_that_tells_nothing_of_itself_is_left_out() -> None:
    document = parsed(gpu(), "GPU1", {"name": "H100"}, None)
    assert (len(document.gpus), document.is_whole) == (1, False)
    assert document.gaps[-1].reason == "not understood: 3 of 4 entries"


def test_an_index_of_two_gpus_is_nobodys() -> None:
    document = parsed(gpu(), gpu(bdf="00000000:02:00.0"))
    assert [(told.index, told.bdf) for told in document.gpus] == [(None, "0000:01:00.0"), (None, "0000:02:00.0")]
    assert [gap.fact for gap in document.gaps] == ["gpus[0].index"]


def test_an_address_of_two_gpus_is_nobodys() -> None:
    document = parsed(gpu(), gpu(index=1))
    assert [(told.index, told.bdf) for told in document.gpus] == [(0, None), (1, None)]
    assert document.gaps


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_no_document_raises(value: Any) -> None:
    for field in (*NvmlGpu.__struct_fields__, "handle"):
        parsed(gpu(**{field: value}))
    for field in NvmlLink.__struct_fields__:
        parsed(gpu(link={field: value}))
    parsed(gpu(fabric={"state": value, "clique_id": value}), value)
    for field in ("count", "driver_version", "gpus"):
        parse_nvml({field: value})


class TestInTheSurvey:
    @pytest.mark.parametrize("value", [*ODD[:8], *ODD[9:14], *ODD[15:]])
    def test_an_odd_field_leaves_a_host_that_is_a_host(self, value: Any) -> None:
        for field in ("index", "bdf", "name", "cpu_affinity", "memory_bytes", "memory_node", "link", "errors", "mig"):
            host = host_of({"count": 1, "gpus": [gpu(**{field: value})]})
            assert msgspec.convert(msgspec.to_builtins(host), Host) == host
            assert {told.bdf for told in host.gpus} >= {"0000:01:00.0", "0000:02:00.0"}

    def test_gpus_of_one_index_both_stay(self) -> None:
        host = host_of({"count": 2, "gpus": [gpu(), gpu(bdf="00000000:02:00.0")]})
        assert [(told.bdf, told.index) for told in host.gpus] == [("0000:01:00.0", None), ("0000:02:00.0", None)]

    def test_nothing_is_hidden_where_an_entry_was_left_out(self) -> None:
        whole = host_of({"count": 1, "gpus": [gpu()]})
        assert [told.visible for told in whole.gpus] == [True, False]
        cut = host_of({"count": 2, "gpus": [gpu(), "lost"]})
        assert [told.visible for told in cut.gpus] == [True, True]
        odd = host_of({"gpus": [gpu(index=None), "lost"]})
        assert [told.visible for told in odd.gpus] == [True, None]

    def test_a_document_that_nests_without_end_is_not_asked(self) -> None:
        files = {NVML_PATH: b"[" * 100_000, "/sys/devices/system/node/online": b"0"}
        assert RootSource(MemoryTree(files, {}), "test").nvml().state == "not-asked"
