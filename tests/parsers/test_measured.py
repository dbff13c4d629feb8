"""Documents of ``measure copy``, as the survey reads them, and what else a file may be."""

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError, UsageError
from hostdoctor.facts import LinkReading
from hostdoctor.parsers.measured import parse_measured
from hostdoctor.survey.measured import read_measured
from tests.support.build import host, slot

BDF = "0000:16:00.0"
LINK = {"bdf": BDF, "readings": 40, "speeds_gts": {"32": 39, "8": 1}, "widths_lanes": {"16": 40}}


def document(**changes: Any) -> str:
    told: dict[str, Any] = {
        "schema_version": "1",
        "kind": "measure-copy",
        "circumstances": {"at": "2026-11-30T01:00:00+00:00", "hostname": "gpu-3", "kernel": "6.8"},
        "gpu": {"index": 0, "bdf": BDF, "uuid": None, "near_node": 0},
        "links": [LINK],
        "results": [],
    }
    return json.dumps(told | changes)


def test_the_links_of_a_document() -> None:
    told = parse_measured(document(), "copies.json")
    assert told.links == (LinkReading(bdf=BDF, readings=40, speeds_gts={"32": 39, "8": 1}, widths_lanes={"16": 40}),)
    assert (told.gpu.bdf, told.circumstances.hostname) == (BDF, "gpu-3")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "hello",
        document(kind="measure-memory"),
        document(links=[LINK | {"speeds_gts": {"fast": 1}}]),
        document(links=[LINK | {"speeds_gts": {"32": 0}}]),
        document(links=[LINK | {"speeds_gts": {"-32": 1}}]),
        document(links=[LINK | {"speeds_gts": {str(i): 1 for i in range(100)}}]),
        document(links=[LINK] * 100),
        document(gpu={"index": 0}),
        document(links=[LINK | {"speeds_gts": {"0": 40}}]),
        document(links=[LINK | {"speeds_gts": {"7": 40}}]),
        document(links=[LINK | {"speeds_gts": {"32": 41}}]),  # more often than it was read
        document(links=[LINK | {"speeds_gts": {"32": 21, "16": 21}}]),
        document(links=[LINK | {"widths_lanes": {"0": 40}}]),
        document(links=[LINK | {"readings": -40}]),
        document(links=[LINK | {"readings": 10**40}]),
        document(links=[LINK | {"bdf": "\x1b[31m"}]),
        document(links=[LINK, LINK]),
        document(circumstances={"at": "tomorrow"}),
        document(circumstances={"at": "2026-11-30T01:00:00+00:00\n"}),
        "[" * 100_000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match=r"copies\.json"):
        parse_measured(text, "copies.json")


@given(st.text(max_size=200))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_measured(text, "copies.json")


def test_another_experiments_document_is_named() -> None:
    with pytest.raises(ParseError, match=r"^memory.json: only what .* measure copy wrote .*: 'measure-memory'"):
        parse_measured('{"kind": "measure-memory", "cells": []}', "memory.json")


def test_a_document_joins_the_gpu_at_its_address() -> None:
    measured = read_measured(host([slot(0, 0x15)]), [("a.json", document()), ("b.json", document(links=[]))])
    (link,) = measured.links
    assert (link.file, link.gpu_bdf, link.taken_at) == ("a.json", BDF, "2026-11-30T01:00:00+00:00")


def test_a_document_of_another_gpu_or_host_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a GPU that this host does not have \(0000:99:00.0\)"):
        read_measured(host([slot(0, 0x15)]), [("a.json", document(gpu={"bdf": "0000:99:00.0"}))])
    other = document(gpu={"bdf": BDF, "uuid": "GPU-b"})
    with pytest.raises(UsageError, match="does not have"):
        read_measured(host([slot(0, 0x15, uuid="GPU-a")]), [("a.json", other)])
    given_host = host([slot(0, 0x15)])
    named = msgspec.structs.replace(given_host, system=msgspec.structs.replace(given_host.system, hostname="gpu-4"))
    with pytest.raises(UsageError, match=r"taken on another host \(gpu-3\)"):
        read_measured(named, [("a.json", document())])
    with pytest.raises(UsageError, match=r"taken on another host \(gpu-3\)"):
        read_measured(named, [("a.json", document(links=[]))])
