"""Every topology matrix of the corpus against what a reader of the text finds in it."""

import re
import sys
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.errors import ParseError
from hostdoctor.parsers.text import clean_lines
from hostdoctor.parsers.topo_matrix import TopoGpu, TopoMatrix, TopoNic, parse_topo_matrix
from tests.support.corpus import corpus_names, corpus_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.corpus

EXPECTED = tomllib.loads(Path(__file__).with_name("topo_expected.toml").read_text(encoding="utf-8"))
FILES = [(kind, name) for kind in EXPECTED for name in EXPECTED[kind]]
MATRICES = [(kind, name) for kind, name in FILES if "error" not in EXPECTED[kind][name]]
REFUSED = [(kind, name) for kind, name in FILES if "error" in EXPECTED[kind][name]]


def expected(kind: str, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = EXPECTED[kind][name]
    return EXPECTED["nvidia-smi-topo"][entry["same"]] if "same" in entry else entry


def ids(text: str) -> list[int]:
    spans = (item.partition("-") for item in text.split(",") if item)
    return [i for first, _, last in spans for i in range(int(first), int(last or first) + 1)]


def gpus(entry: dict[str, Any]) -> Iterator[TopoGpu]:
    index = 0
    for text in entry["gpus"]:
        match = re.fullmatch(r"(?:(\d)x )?(\S+) @(\S+)(?: mem=(\d+))?", text)
        assert match, text
        for _ in range(int(match[1] or 1)):
            yield TopoGpu(
                label=f"GPU{index}",
                index=index,
                cpus=None if match[2] == "?" else match[2].rstrip("…"),
                cpus_cut=match[2].endswith("…"),
                numa_nodes=() if match[3] == "?" else tuple(ids(match[3])),
                memory_numa_node=int(match[4]) if match[4] else None,
            )
            index += 1


def names(entry: dict[str, Any]) -> Iterator[str | None]:
    for text in entry.get("nics", ()):
        unnamed = re.fullmatch(r"\?x(\d+)", text)
        run = re.fullmatch(r"(.*_)(\d+)-(\d+)", text)
        if unnamed:
            yield from [None] * int(unnamed[1])
        elif run:
            yield from (f"{run[1]}{i}" for i in range(int(run[2]), int(run[3]) + 1))
        else:
            yield text


def nics(entry: dict[str, Any]) -> tuple[TopoNic, ...]:
    own = entry.get("labels") == "names"
    return tuple(TopoNic(label=f"{n if own else f'NIC{i}'}", name=n) for i, n in enumerate(names(entry)))


def members(text: str, labels: list[str]) -> list[int]:
    count = sum(label.startswith("GPU") for label in labels)
    sets = {"*": range(len(labels)), "G": range(count), "N": range(count, len(labels))}
    found: list[int] = []
    for item in text.split(","):
        if item in sets:
            found += sets[item]
        else:
            found += [i + count * (item[0] == "N") for i in ids(item[1:])]
    return found


def links(entry: dict[str, Any], labels: list[str]) -> dict[tuple[str, str], str]:
    found: dict[tuple[int, int], str] = {}
    for line in entry.get("links", ()):
        kind, text = line.split(" ")
        a, across, b = text.partition("|")
        left = members(a, labels)
        pairs = product(left, members(b, labels)) if across else combinations(left, 2)
        found |= {(min(pair), max(pair)): kind for pair in pairs}
    return {(labels[i], labels[j]): kind for (i, j), kind in sorted(found.items()) if kind != "?"}


def matrix(kind: str, name: str) -> TopoMatrix:
    return parse_topo_matrix(corpus_text(kind, f"{name}.txt"))


def test_every_file_is_listed() -> None:
    for kind in ("nvidia-smi-topo", "collect-env"):
        assert [Path(name).stem for name in corpus_names(kind)] in ([], sorted(EXPECTED[kind]))


@pytest.mark.parametrize(("kind", "name"), MATRICES)
def test_gpus(kind: str, name: str) -> None:
    assert matrix(kind, name).gpus == tuple(gpus(expected(kind, name)))


@pytest.mark.parametrize(("kind", "name"), MATRICES)
def test_nics(kind: str, name: str) -> None:
    assert matrix(kind, name).nics == nics(expected(kind, name))


@pytest.mark.parametrize(("kind", "name"), MATRICES)
def test_paths(kind: str, name: str) -> None:
    read = matrix(kind, name)
    labels = [gpu.label for gpu in read.gpus] + [nic.label for nic in read.nics]
    assert [((p.a, p.b), p.kind) for p in read.paths] == list(links(expected(kind, name), labels).items())


@pytest.mark.parametrize(("kind", "name"), MATRICES)
def test_what_is_unknown_has_a_gap_and_nothing_else_has(kind: str, name: str) -> None:
    read = matrix(kind, name)
    rowless = {f"gpus[{i}]" for i, g in enumerate(read.gpus) if not any(p.a == g.label for p in read.paths)}
    unknown = {f"gpus[{i}].cpus" for i, gpu in enumerate(read.gpus) if gpu.cpus is None or gpu.cpus_cut}
    unknown |= {f"gpus[{i}].numa_node" for i, gpu in enumerate(read.gpus) if not gpu.numa_nodes}
    unknown |= {f"nics[{i}].name" for i, nic in enumerate(read.nics) if nic.name is None}
    facts = {gap.fact for gap in read.gaps}
    assert unknown <= facts
    assert facts - unknown <= rowless | {f"nics[{i}]" for i, nic in enumerate(read.nics) if nic.name is None}
    assert all(gap.source == "nvidia-smi topo -m" and gap.reason for gap in read.gaps)


@pytest.mark.parametrize(("kind", "name"), REFUSED)
def test_refused(kind: str, name: str) -> None:
    with pytest.raises(ParseError, match=expected(kind, name)["error"]):
        matrix(kind, name)


def wrapped(text: str, width: int) -> str:
    return "\n".join(line[i : i + width].rstrip() for line in text.split("\n") for i in range(0, len(line) or 1, width))


def damaged(text: str) -> Iterator[str]:
    wide = text.expandtabs()
    yield "\n".join(" ".join(line.split()) for line in text.split("\n"))
    yield "\n".join(f"(x pid={i}) {line}" for i, line in enumerate(text.split("\n")))
    for width in range(60, 280, 11):
        yield wrapped(wide, width)
        yield "\n".join(line[:width] for line in wide.split("\n"))
    for i in range(1, len(text), len(text) // 30 + 1):
        yield text[:i]
        yield text[i:]


@pytest.mark.fuzz
@pytest.mark.parametrize(("kind", "name"), [file for file in MATRICES if file[0] == "nvidia-smi-topo"])
def test_damage_never_makes_a_value_wrong(kind: str, name: str) -> None:
    entry = expected(kind, name)
    devices, adapters = tuple(gpus(entry)), nics(entry)
    labels = [gpu.label for gpu in devices] + [nic.label for nic in adapters]
    true_paths = links(entry, labels)
    for text in damaged("\n".join(clean_lines(corpus_text(kind, f"{name}.txt")))):
        try:
            read = parse_topo_matrix(text)
        except ParseError:
            continue
        assert {(p.a, p.b): p.kind for p in read.paths}.items() <= true_paths.items()
        assert {nic.name for nic in read.nics} <= {nic.name for nic in adapters} | {None}
        for gpu, true in zip(read.gpus, devices, strict=False):
            assert gpu.label == true.label
            assert gpu.cpus in (true.cpus, None)
            assert gpu.numa_nodes in (true.numa_nodes, ())
            assert gpu.memory_numa_node in (true.memory_numa_node, None)
