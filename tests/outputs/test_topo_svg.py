"""The map as a picture: well-formed, whole, inert whatever the machine calls its parts."""

import re
from xml.etree import ElementTree

import msgspec
import pytest

from hostdoctor.diagnosis import Finding, Remedy
from hostdoctor.facts import Gpu, Host, Nic, Path
from hostdoctor.outputs.map_tree import leaves_of
from hostdoctor.outputs.svg import cells, fit
from hostdoctor.outputs.topo_svg import render_topo_svg
from tests.cli.support import hostdoctor
from tests.hosts.test_verdicts import report_on
from tests.outputs.pictures import SVG, crowded, ten_on_one_node, texts, titles, unknown
from tests.support.build import gpu
from tests.support.build_memory import node
from tests.support.poison import HOSTILE, poisoned

DRAWN = ("demo", "gb200-tray", "no-gpu-2n", "sick-2n", "pod-2-of-8")


def finding(subject: str, severity: str = "critical") -> Finding:
    return msgspec.convert(
        {
            "subject": subject,
            "message": "m",
            "severity": severity,
            "evidence": [],
            "effect": "",
            "remedy": Remedy(text="r"),
        },
        Finding,
        from_attributes=True,
    )


@pytest.mark.parametrize("name", DRAWN)
def test_every_device_is_drawn_and_named(name: str) -> None:
    host = report_on(name).host
    svg = render_topo_svg(host)
    assert {leaf.label for leaf in leaves_of(host)} <= set(texts(svg))
    assert all(any(leaf.address in title for title in titles(svg)) for leaf in leaves_of(host))


@pytest.mark.parametrize("host", [crowded(), crowded(16, 10, 64), ten_on_one_node(), unknown(), Host()])
def test_the_same_host_gives_the_same_picture(host: Host) -> None:
    svg = render_topo_svg(host)
    assert ElementTree.fromstring(svg).tag == f"{SVG}svg"
    assert render_topo_svg(msgspec.json.decode(msgspec.json.encode(host), type=Host)) == svg


def test_nvlink_is_one_bracket_a_socket_and_not_a_line_a_pair() -> None:
    svg = render_topo_svg(crowded())
    assert "NVLink NV18 between every pair of GPU0-GPU7" in texts(svg)
    brackets = [e for e in ElementTree.fromstring(svg).iter(f"{SVG}path") if e.get("class") == "nvlink"]
    assert len(brackets) == 2
    assert all((bracket.get("d") or "").count("H") == 4 for bracket in brackets)


def test_bridged_pairs_are_brackets_of_their_own() -> None:
    drawn = texts(render_topo_svg(ten_on_one_node()))
    assert "NVLink NV4 between GPU8 and GPU9" in drawn
    assert sum("NV4 to 1 GPU" in text for text in drawn) == 10


def test_a_partly_linked_group_counts_its_pairs() -> None:
    paths = (Path(a="GPU0", b="GPU1", kind="NV2"), Path(a="GPU1", b="GPU2", kind="NV1"))
    host = Host(gpus=tuple(Gpu(index=i) for i in range(3)), paths=paths)
    assert "NVLink NV2 (1 pair), NV1 (1 pair) of GPU0-GPU2" in texts(render_topo_svg(host))


def test_a_link_that_lost_lanes_says_so_in_words() -> None:
    svg = render_topo_svg(report_on("demo").host)
    assert texts(svg).count("of x16") == 1
    assert "x8 Gen5" in texts(svg)
    assert "0000:a8:01.0 to 0000:aa:00.0: x8 of x16." in svg
    widths = {float(e.get("stroke-width") or 0) for e in ElementTree.fromstring(svg).iter(f"{SVG}line")}
    assert {4.5, 7.0} <= widths


def test_sharers_that_can_outrun_their_uplink_are_named() -> None:
    assert "1.2:1 shared by GPU3, nvme0" in texts(render_topo_svg(report_on("demo").host))


def test_made_up_ports_of_a_guest_are_judged_in_nothing() -> None:
    host = report_on("demo").host
    guest = msgspec.structs.replace(host, system=msgspec.structs.replace(host.system, virtualization="kvm"))
    drawn = texts(render_topo_svg(guest))
    assert not [text for text in drawn if "shared by" in text or text.startswith("of x")]
    assert "x8 Gen5" in drawn


def test_a_chip_to_chip_gpu_has_no_lanes() -> None:
    drawn = texts(render_topo_svg(report_on("gb200-tray").host))
    assert drawn.count("C2C") == 4
    assert "NUMA node 2: memory of GPU0, 184.0 GiB" in drawn


def test_an_unknown_node_is_a_box_that_says_so() -> None:
    svg = render_topo_svg(unknown())
    assert "Devices whose NUMA node is not known" in texts(svg)
    assert "root complex not known" in texts(svg)
    assert "NUMA node 0" not in svg


def test_a_device_near_two_nodes_is_in_neither() -> None:
    host = Host(numa_nodes=(node(0, "0-31"), node(1, "32-63")), gpus=(gpu(0, numa_node=None, numa_nodes=(0, 1)),))
    assert "Near NUMA nodes 0-1" in texts(render_topo_svg(host))


def test_findings_mark_their_devices_by_shape_and_id() -> None:
    host = Host(gpus=(gpu(0), gpu(1)), nics=(Nic(name="mlx5_0", label="NIC0"),), numa_nodes=(node(0, "0-31"),))
    found = [
        ("HD201", finding("GPU1, NIC0")),
        ("HD203", finding("GPU1", "warning")),
        ("HD301", finding("GPU0", "info")),
    ]
    drawn = texts(render_topo_svg(host, found))
    assert [text for text in drawn if text.startswith("HD")] == ["HD201+1", "HD201"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("host", [report_on("demo").host, unknown(), ten_on_one_node()], ids=["demo", "unknown", "ten"])
def test_hostile_names_come_out_inert(host: Host, text: str) -> None:
    svg = render_topo_svg(poisoned(host, text))
    root = ElementTree.fromstring(svg)
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "title", "desc", "style", "rect", "text", "line", "path"}
    given = {name for element in root.iter() for name in element.attrib}
    assert not any(name.startswith("on") or "href" in name or name == "style" for name in given)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufffe]", svg)
    assert len(svg) < 400_000


def test_nothing_outside_is_referred_to() -> None:
    svg = render_topo_svg(report_on("demo").host)
    rest = svg.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|url\(|@import|href|src=", rest)


def test_a_cut_name_is_whole_in_its_title() -> None:
    name = "A" * 80
    svg = render_topo_svg(Host(numa_nodes=(node(0, "0-31"),), gpus=(gpu(0, name=name),)))
    assert not any(name in text for text in texts(svg))
    assert name in titles(svg)


def test_wide_characters_take_two_cells() -> None:
    assert cells("a漢…") == 4
    assert fit("漢字漢字", 10 * 0.6021 * 5, 10) == "漢字…"


def test_the_command_prints_it() -> None:
    ran = hostdoctor("topo", "--demo", "--format", "svg")
    assert ran.status == 0
    assert "GPU7" in texts(ran.out)
