import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact
from hostdoctor.parsers.nccl_xml import NcclGpu, NcclTopology, parse_nccl_xml
from hostdoctor.sources.recognise import recognise
from tests.parsers.test_hwloc_xml import mutated
from tests.support.mangle import MANGLINGS

LINK = 'link_speed="32.0 GT/s PCIe" link_width="16"'
DUMP = f"""\
<system version="1">
  <cpu host_hash="0x7d3e5a" numaid="0" affinity="00000000,ffff0000,0000ffff" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:16:00.0" class="0x060400" vendor="0x1000" device="0xc030" {LINK}>
      <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x2330" {LINK}>
        <gpu dev="1" sm="90" rank="0" gdr="1">
          <nvlink target="0000:05:00.0" count="10" tclass="0x068000"/>
          <nvlink target="fffffff:ffff:ff" count="8" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020700" vendor="0x15b3" device="0x1021" {LINK}>
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x9a70500003ae6d94" maxconn="131072" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="400000" port="2" guid="0x9a70500003ae6d95" maxconn="131072" gdr="1"/>
          <net name="mlx5_0+mlx5_1" dev="2" speed="800000"/>
          <net name="SHARP" coll="1" dev="3"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="4" speed="10000" port="0" guid="0x0"/>
    </nic>
  </cpu>
  <cpu host_hash="0x7d3e5a" numaid="1" affinity="ffffffff,0000ffff,ffff0000" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:98:00.0" class="0x030200" vendor="0x10de" link_speed="2.5 GT/s PCIe" link_width="0">
      <gpu dev="0" sm="90" rank="1" gdr="1">
        <nvlink target="0000:05:00.0" count="18" tclass="0x068000"/>
        <c2c bw="45000" count="10"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""


def cpu(content: str = "", numaid: str = "0", affinity: str = "0000ffff", **more: str) -> str:
    rest = "".join(f' {name}="{value}"' for name, value in more.items())
    return f'<cpu numaid="{numaid}" affinity="{affinity}"{rest}>{content}</cpu>'


def parse(*cpus: str) -> NcclTopology:
    return parse_nccl_xml(f'<system version="1">{"".join(cpus)}</system>')


def test_reads_nodes() -> None:
    record = parse_nccl_xml(DUMP)
    assert [(n.id, n.cpus) for n in record.nodes] == [(0, "0-15,48-63"), (1, "16-47,64-95")]
    assert (record.architecture, record.gaps) == ("x86_64", ())


def test_reads_functions() -> None:
    switch, gpu, nic, other = parse_nccl_xml(DUMP).functions
    assert (switch.bdf, switch.class_code, switch.switches) == ("0000:16:00.0", "060400", ())
    assert (gpu.vendor_id, gpu.device_id, gpu.numa_node, gpu.switches) == ("10de", "2330", 0, ("0000:16:00.0",))
    assert (nic.bdf, nic.class_code) == ("0000:19:00.0", "020700")
    assert (other.numa_node, other.link_speed_gts, other.link_width_lanes) == (1, 2.5, None)


def test_reads_gpus() -> None:
    assert parse_nccl_xml(DUMP).gpus == (
        NcclGpu(index=1, bdf="0000:18:00.0", numa_node=0, nvswitch_links=18),
        NcclGpu(index=0, bdf="0000:98:00.0", numa_node=1, nvswitch_links=18, c2c=True),
    )


def test_reads_networks() -> None:
    """Devices that NCCL makes up are none, and what is no PCI device is on no told node."""
    told = [(net.name, net.bdf, net.numa_node) for net in parse_nccl_xml(DUMP).nets]
    assert told == [("mlx5_0", "0000:19:00.0", 0), ("mlx5_1", "0000:19:00.0", 0), ("eth0", None, None)]


@pytest.mark.parametrize("secret", ["7d3e5a", "9a70500003ae6d94"])
def test_keeps_no_hashes_and_guids(secret: str) -> None:
    assert secret not in repr(parse_nccl_xml(DUMP))


@pytest.mark.parametrize("mangling", sorted(MANGLINGS))
def test_pasted_text_tells_the_same_or_less(mangling: str) -> None:
    whole = facts(parse_nccl_xml(DUMP))
    (section, *_) = recognise(MANGLINGS[mangling](DUMP))
    assert section.kind == "nccl-xml"
    broken = "terminal" in mangling or "mail" in mangling
    try:
        found = facts(parse_nccl_xml(section.text))
    except ParseError:
        assert broken
        return
    assert found <= whole
    assert found == whole or broken


def facts(record: NcclTopology) -> set[str]:
    """Return everything that is told."""
    named: dict[str, Fact] = {f"node {n.id}": n for n in record.nodes}
    named |= {f"gpu {g.index}": g for g in record.gpus}
    named |= {f.bdf: f for f in record.functions}
    named |= {net.name: net for net in record.nets}
    return {
        f"{name}.{field} = {value}"
        for name, part in named.items()
        for field in part.__struct_fields__
        if (value := getattr(part, field)) is not None
    }


@pytest.mark.parametrize("end", range(60, len(DUMP) - 12, 23))
def test_cut_text_tells_the_same_or_less(end: int) -> None:
    whole = {fact for fact in facts(parse_nccl_xml(DUMP)) if "nvlink" not in fact and "nvswitch" not in fact}
    with contextlib.suppress(ParseError):
        record = parse_nccl_xml(DUMP[:end])
        told = {fact for fact in facts(record) if "nvlink" not in fact and "nvswitch" not in fact}
        assert told <= whole | {"gpu 0.c2c = False"}
        assert [gap.fact for gap in record.gaps] == ["source:nccl-xml"]


# What files written by hand, and NCCL itself, say that is not so


@pytest.mark.parametrize(
    "attributes",
    [
        'busid="ffff:ff:01.0" class="0x060400" vendor="0x0000" device="0x0000"',
        'busid="FFFF:FF:01.0" class="0x060400"',
        'busid="0000:01:00.0" class="0x060400" vendor="0xffff" device="0xffff"',
    ],
)
def test_bridges_that_clouds_make_up_are_no_functions(attributes: str) -> None:
    record = parse(cpu(f'<pci {attributes}><pci busid="0001:00:00.0" class="0x030200"/></pci>'))
    assert [(f.bdf, f.switches, f.numa_node) for f in record.functions] == [("0001:00:00.0", (), 0)]


@pytest.mark.parametrize(
    ("busid", "bdf"),
    [("0000:07:00", None), ("", None), ("00000000:0F:00.0", "0000:0f:00.0"), ("10000:e1:00.0", "10000:e1:00.0")],
)
def test_addresses(busid: str, bdf: str | None) -> None:
    record = parse(cpu(f'<pci busid="{busid}" class="0x03"><gpu dev="3"/></pci>'))
    assert [f.bdf for f in record.functions] == ([] if bdf is None else [bdf])
    assert [(gpu.index, gpu.bdf, gpu.numa_node) for gpu in record.gpus] == [(3, bdf, 0)]
    assert [f.class_code for f in record.functions] in ([], [None])


@pytest.mark.parametrize("numaid", ["-1", "", "x", "12345"])
def test_a_node_that_nobody_knows(numaid: str) -> None:
    record = parse(cpu('<pci busid="0001:00:00.0" class="0x030200"/>', numaid=numaid, affinity=""))
    assert record.nodes == ()
    assert record.functions[0].numa_node is None


def test_masks_that_contradict_each_other() -> None:
    record = parse(cpu(), cpu(numaid="1"), cpu(numaid="2", affinity="ffff0000"))
    assert [(n.id, n.cpus) for n in record.nodes] == [(0, None), (1, None), (2, "16-31")]
    assert [gap.fact for gap in record.gaps] == ["numa_nodes[0].cpus", "numa_nodes[1].cpus"]


@pytest.mark.parametrize("affinity", ["", "0", "00000000,00000000", "zz", "0x"])
def test_masks_that_tell_nothing(affinity: str) -> None:
    assert [n.cpus for n in parse(cpu(affinity=affinity)).nodes] == [None]


@pytest.mark.parametrize("arch", ["ppc64", "", "x86_64 "])
def test_architectures_that_are_not_told(arch: str) -> None:
    assert parse(cpu(arch=arch)).architecture is None
    assert parse(cpu(arch="arm64")).architecture == "aarch64"


# What is no topology of a host


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<system version='1'></system>",
        f"<system version='2'>{cpu()}</system>",
        f"<system>{cpu()}</system>",
        f"<system version='1'>{cpu(host_hash='0x1')}{cpu(numaid='1', host_hash='0x2')}</system>",
        f"<system version='1'>{cpu()}{cpu()}</system>",
        f"<graphs version='1'>{cpu()}</graphs>",
        DUMP.replace("</pci>", "", 1),
    ],
)
def test_refuses_what_is_none(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nccl_xml(text)


@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_nccl_xml(text)


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_mutated_text(seed: int) -> None:
    with contextlib.suppress(ParseError):
        record = parse_nccl_xml(mutated(DUMP, random.Random(seed)))
        assert len({f.bdf for f in record.functions}) == len(record.functions)
        assert all(node.cpus != "" for node in record.nodes)
