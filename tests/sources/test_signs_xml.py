import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import SourceError
from hostdoctor.sources.base import HWLOC_XML
from hostdoctor.sources.recognise import recognise
from hostdoctor.sources.signs_xml import MAX_TRIES, take_documents
from hostdoctor.sources.texts import TextSource
from tests.parsers.test_nccl_xml import DUMP
from tests.sources.samples import LSPCI, NUMACTL, TOPO
from tests.support.render_hwloc import two_sockets

HWLOC = two_sockets("3.0")


def kinds(text: str) -> list[str]:
    return [section.kind for section in recognise(text)]


@pytest.mark.parametrize(("text", "kind"), [(HWLOC, "hwloc-xml"), (two_sockets("1"), "hwloc-xml"), (DUMP, "nccl-xml")])
def test_hands_out_a_whole_document(text: str, kind: str) -> None:
    (section,) = recognise(text)
    assert (section.kind, section.text, section.first_line) == (kind, text, 1)


def test_outputs_around_a_document_are_told_apart() -> None:
    text = f"{NUMACTL}\n```xml\n{HWLOC}```\n{TOPO}\n{DUMP}\n{LSPCI}"
    assert kinds(text) == ["numactl", "hwloc-xml", "topo-matrix", "nccl-xml", "lspci"]
    sections = {section.kind: section for section in recognise(text)}
    assert sections["hwloc-xml"].text == HWLOC
    assert text.split("\n")[sections["nccl-xml"].first_line - 1] == '<system version="1">'


def test_two_documents_of_one_kind() -> None:
    assert kinds(HWLOC + HWLOC) == ["hwloc-xml", "hwloc-xml"]
    outputs = TextSource([("two.xml", HWLOC + HWLOC)]).run(HWLOC_XML)
    lines = HWLOC.count("\n")
    assert [o.source for o in outputs] == ["lstopo XML in two.xml, line 1", f"lstopo XML in two.xml, line {lines + 1}"]


@pytest.mark.parametrize("prefix", ["> ", "[rank0]: ", "2024-01-02 03:04:05.678 job stdout ", "    "])
def test_prefixes_are_taken_off(prefix: str) -> None:
    (section,) = recognise("".join(f"{prefix}{line}\n" for line in DUMP.splitlines()))
    assert "".join(line.strip() for line in section.text.splitlines()) == "".join(
        line.strip() for line in DUMP.splitlines()
    )


def test_a_document_on_one_line() -> None:
    (section,) = recognise(HWLOC.replace("\n", ""))
    assert section.kind == "hwloc-xml"
    assert section.text.startswith("<?xml")


def test_a_document_without_its_end() -> None:
    assert kinds(HWLOC[:2000]) == ["hwloc-xml"]


@pytest.mark.parametrize(
    "text",
    [
        "<topology>\n<cells num='2'>\n<cell id='0'>\n</cells>\n</topology>\n",
        "<system version='1'>\n<disk/>\n</system>\n",
        "<topology sockets='1' cores='4'/>\n",
        "<topologydiff>\n<diff/>\n</topologydiff>\n",
        HWLOC.replace("<topology", "<topo").replace("</topology", "</topo"),
    ],
)
def test_other_documents_are_not_known(text: str) -> None:
    assert kinds(text) == []
    with pytest.raises(SourceError, match="NCCL topology XML"):
        TextSource([("host.xml", text)])


@given(st.integers(0, 2**32))
def test_any_lines(seed: int) -> None:
    chance = random.Random(seed)
    pieces = ["<topology", "<system ", "<object ", "<cpu ", "</topology>", "</system>", "<?xml", "> ", "\n", "\n", "x"]
    lines = "".join(chance.choice(pieces) for _ in range(60)).split("\n")
    count = len(lines)
    documents = take_documents(lines)
    assert len(lines) == count
    assert [first for _, first, _ in documents] == sorted({first for _, first, _ in documents})


def test_many_roots_cost_little() -> None:
    text = "<topology\n" * 500_000 + "<object "
    start = time.process_time()
    recognise(text)
    assert time.process_time() - start < 8
    assert len(take_documents(["<topology"] * (2 * MAX_TRIES) + ["<object "])) == 0
