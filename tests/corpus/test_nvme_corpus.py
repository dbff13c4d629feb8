"""NVMe lists as people published them, against answers written down by reading them; null: no such list."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostdoctor.errors import ParseError
from hostdoctor.parsers.nvme_list import parse_nvme_list
from tests.support.corpus import corpus_names, corpus_text

KIND = "nvme"
EXPECTED: dict[str, list[dict[str, Any]] | None] = json.loads(Path(__file__).with_name("nvme.json").read_text("utf-8"))

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("name", [name for name, drives in EXPECTED.items() if drives is not None])
def test_reads_what_is_there(name: str) -> None:
    drives = [msgspec.to_builtins(drive) for drive in parse_nvme_list(corpus_text(KIND, name)).drives]
    nowhere_told = {"bdf": None, "transport": None}
    for drive in drives:
        drive["namespaces"] = list(drive["namespaces"])
    assert drives == [{**drive, **nowhere_told} for drive in EXPECTED[name] or ()]


@pytest.mark.parametrize("name", [name for name, drives in EXPECTED.items() if drives is None])
def test_refuses_what_is_no_list(name: str) -> None:
    text = corpus_text(KIND, name)
    with pytest.raises(ParseError):
        parse_nvme_list(text)


def test_every_sample_has_its_answers() -> None:
    names = corpus_names(KIND)
    if not names:
        pytest.skip(f"no corpus: {KIND}")
    assert set(names) == set(EXPECTED)
