import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostdoctor.parsers.collect_env import parse_collect_env
from hostdoctor.sources.recognise import recognise
from tests.support.corpus import corpus_text

EXPECTED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "recognise_expected.json").read_text("utf-8"))
MANGLED = {
    "as it is": "{}",
    "dos line ends": "{}\r",
    "quoted": "> {}",
    "indented": "    {}",
    "rank": "[rank3]: {}",
    "cluster": "(run pid=4711, ip=192.0.2.1) {}",
    "container log": "2025-06-03T16:33:56.{n:09d}Z stdout F {}",
    "journal": "Jun  3 16:33:{n:02d} node-1 run[{n}]: {}",
}

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("how", MANGLED)
@pytest.mark.parametrize("name", EXPECTED["kinds"])
def test_recognises_what_is_there(name: str, how: str) -> None:
    lines = corpus_text(*name.split("/")).replace("\r\n", "\n").split("\n")
    text = "\n".join(MANGLED[how].format(line, n=number) for number, line in enumerate(lines))
    assert [section.kind for section in recognise(text)] == EXPECTED["kinds"][name]


@pytest.mark.parametrize("name", EXPECTED["reports"])
def test_reads_the_report(name: str) -> None:
    (section,) = [part for part in recognise(corpus_text(*name.split("/"))) if part.kind == "collect-env"]
    report = json.loads(msgspec.json.encode(parse_collect_env(section.text)))
    expected = EXPECTED["reports"][name]
    assert {key: report[key] for key in expected} == expected
