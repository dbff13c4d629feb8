"""Interrupt tables as people published them, against answers written down by reading them.

A vector is ``[queue, irq, fired CPUs or null, total or null]``; ``interrupts`` counts the rows with a handler.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.parsers.cpulist import format_cpulist
from hostdoctor.parsers.interrupts import parse_interrupts
from tests.support.corpus import corpus_names, corpus_text

KIND = "interrupts"
EXPECTED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("interrupts.json").read_text("utf-8"))

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("name", EXPECTED)
def test_reads_what_is_there(name: str) -> None:
    expected = EXPECTED[name]
    parsed = parse_interrupts(corpus_text(KIND, name))
    vectors = defaultdict(list)
    for v in parsed.vectors:
        vectors[v.controller].append([v.queue, v.irq, v.fired_cpus, v.total])
    assert vectors == {key: value for key, value in expected.items() if key.startswith("nvme")}
    assert (format_cpulist(parsed.cpus) or None) == expected["cpus"]
    assert len(parsed.interrupts) == expected["interrupts"]
    names = {str(i.irq): i.name for i in parsed.interrupts}
    assert {irq: names[irq] for irq in expected.get("names", {})} == expected.get("names", {})
    assert {v.controller: v.bdf for v in parsed.vectors if v.bdf} == expected.get("bdf", {})


def test_every_sample_has_its_answers() -> None:
    names = corpus_names(KIND)
    if not names:
        pytest.skip(f"no corpus: {KIND}")
    assert set(names) == set(EXPECTED)
