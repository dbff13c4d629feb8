"""The report as a page: whole, inert, true to its documents."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis import Report
from hostdoctor.facts import Host
from hostdoctor.outputs.page.charts import Series, pair_chart, tail_chart
from hostdoctor.outputs.page.html import render_page
from hostdoctor.outputs.page.markdown import render_page_markdown
from hostdoctor.outputs.page.prose import blocks
from tests.hosts.test_verdicts import report_on
from tests.outputs.pages import DOCUMENTS, Dom, comparison, copies, drive_reads, judged, memory_matrix, page_of, shown
from tests.outputs.pictures import ten_on_one_node, unknown
from tests.support.poison import HOSTILE, poisoned

SECTIONS = ["verdict", "map", "findings", "wrappers", "budget", "near-far", "nvme", "plan", "unknown", "about"]
SECTIONS_OF_MARKDOWN = ["The map", "Launch wrappers", "Pinned memory", "Near against far", "NVMe signals", "Plan"]
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
HOSTS = {"demo": lambda: report_on("demo"), "unknown": lambda: judged(unknown()), "nothing": lambda: judged(Host())}


def everything(report: Report) -> str:
    return render_page(page_of(report, measurements=tuple(one for made in DOCUMENTS for one in shown(made()))))


@pytest.mark.parametrize("name", HOSTS)
def test_the_sections_come_in_the_order_of_a_decision(name: str) -> None:
    dom = Dom(everything(HOSTS[name]()))
    places = [element.given.get("id") for element in dom.all("section") if element.given.get("id")]
    assert places == SECTIONS
    assert dom.unbalanced == []
    assert not dom.open
    targets = {element.given["id"] for element in dom.elements if "id" in element.given}
    links = [a.given["href"][1:] for a in dom.all("a") if a.given["href"].startswith("#")]
    assert set(links) <= targets
    assert len(dom.all("h1")) == 1


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("name", ["demo", "ten"])
def test_hostile_text_in_every_field_comes_out_inert(name: str, text: str) -> None:
    host = report_on("demo") if name == "demo" else judged(ten_on_one_node())
    whole = page_of(host, measurements=tuple(one for made in DOCUMENTS for one in shown(made())))
    whole = msgspec.structs.replace(
        whole, report=poisoned(host, text), wrappers=tuple(poisoned(w, text) for w in whole.wrappers)
    )
    whole = msgspec.structs.replace(
        whole,
        documentation=dict.fromkeys(whole.documentation, f"{text}\n\n## {text}\n\n- {text}\n  `{text}`"),
        about=poisoned(whole.about, text),
        measurements=tuple(_poisoned_but_drawings(one, text) for one in whole.measurements),
    )
    whole = msgspec.structs.replace(whole, about=msgspec.structs.replace(whole.about, versions={"hostdoctor": text}))
    page = render_page(whole)
    assert_inert(page)
    assert_inert_markdown(render_page_markdown(whole), text)


def _poisoned_but_drawings(told: Any, text: str) -> Any:
    charts = tuple(msgspec.structs.replace(one, caption=text + one.caption) for one in told.charts)
    return msgspec.structs.replace(poisoned(msgspec.structs.replace(told, charts=()), text), charts=charts)


def assert_inert(page: str) -> None:
    dom = Dom(page)
    assert dom.unbalanced == []
    assert len(dom.all("script")) == len(dom.all("style")) == 1
    assert not {element.name for element in dom.elements} & {"img", "iframe", "object", "embed", "link", "base", "form"}
    for element in dom.elements:
        assert not any(name.startswith("on") for name in element.given), element.given
        assert re.fullmatch(r"(#[\w-]+|https://\S+)?", element.given.get("href", "")), element.given["href"]
        assert not {"src", "action", "srcdoc", "formaction", "xlink:href"} & set(element.given)
    assert not STEERING.search(page.replace("\n", ""))
    assert len(page) < 1_000_000


def assert_inert_markdown(text: str, hostile: str) -> None:
    outside = re.sub(r"^(`{3,})\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"(?<!\\)<", outside)
    assert not STEERING.search(text.replace("\n", ""))


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_documents_come_out_inert(hostile: str) -> None:
    made = [json.loads(_salted(json.dumps(document()), hostile)) for document in DOCUMENTS]
    told = tuple(one for document in made for one in shown(document, f"{hostile}.json"))
    assert_inert(render_page(page_of(report_on("demo"), measurements=told)))


def _salted(document: str, hostile: str) -> str:
    """Put the text into every string that is no fixed word."""
    fixed = {"measure-copy", "measure-nvme", "measure-memory", "watch-nvme"}

    def salt(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: salt(each) for key, each in value.items()}
        if isinstance(value, list):
            return [salt(each) for each in value]
        return hostile + value if isinstance(value, str) and value not in fixed else value

    return json.dumps(salt(json.loads(document)))


def test_the_policy_allows_only_this_script_and_nothing_from_elsewhere() -> None:
    dom = Dom(everything(report_on("demo")))
    (policy,) = [m.given["content"] for m in dom.all("meta") if m.given.get("http-equiv")]
    (script,) = dom.all("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'")
    (style,) = dom.all("style")
    assert not re.search(r"url\(|@import|https?:", style.text)


def numbers(value: Any) -> set[float]:
    """Return the figures of a document that a page has to show: not counts of bytes, lanes, runs or nodes."""
    names = {"near_ms", "far_ms", "ratio", "p50_us", "p99_us", "p999_us", "hit_percent", "r_await_ms", "queue_depth"}
    found: set[float] = set()
    if isinstance(value, dict):
        for key, each in value.items():
            plain = each.get("value") if isinstance(each, dict) else each
            if key in names and isinstance(plain, float):
                found.add(plain)
            found |= numbers(each)
    if isinstance(value, list):
        found = found.union(*(numbers(each) for each in value))
    return found


def test_the_numbers_of_the_page_are_those_of_the_documents() -> None:
    documents = [made() for made in DOCUMENTS]
    dom = Dom(everything(report_on("demo")))
    exact = {float(element.given["value"]): element.text for element in dom.all("data")}
    wanted = set().union(*(numbers(document) for document in documents))
    assert len(wanted) > 15
    assert wanted <= set(exact)
    for value in wanted:
        read = float(re.match(r"[+-]?[\d,.]+", exact[value])[0].replace(",", ""))  # type: ignore[index]
        assert read == pytest.approx(value, rel=6e-4)


def test_fio_s_own_quantiles_are_shown_in_microseconds() -> None:
    exact = {float(element.given["value"]) for element in Dom(everything(report_on("demo"))).all("data")}
    assert {81.408, 199.68, 897.024} <= exact


def test_no_difference_is_said_as_plainly_as_one() -> None:
    (told,) = shown(comparison())
    words = {one.what: one.words for one in told.verdicts}
    assert words["Time to first token (TTFT), p50"] == "near is faster by 10 %"
    assert words["Inter-token latency (ITL), p50"] == "no measurable difference (would have seen ≥ 4.3 %)"
    assert words["Time per output token (TPOT), p50"] == "insufficient (3 of 6 pairs)"
    assert words["Time per output token (TPOT), p99"] == "host unstable (near against near differs)"
    assert told.headline.startswith("Inter-token latency (ITL), p50: no measurable difference")


def test_a_faster_far_node_is_said_too() -> None:
    document = comparison()
    document["metrics"] = {"itl": {"p50": {"near_ms": 10.0, "far_ms": 8.0, "ratio": 0.8, "verdict": "far-faster"}}}
    assert shown(document)[0].verdicts[0].words == "far is faster by 25 %"


def test_what_runs_today_comes_before_the_positive_control() -> None:
    today = comparison(arms=["near", "current"])
    first, second = shown(comparison(production=today, complete=False))
    assert first.arms == ("near", "current")
    assert second.arms == ("near", "far")
    assert "interrupted" in second.notes[0]


def test_charts_tell_units_and_sample_sizes() -> None:
    for document in (comparison(), copies(), drive_reads()):
        for told in shown(document):
            assert told.charts
            assert all(re.search(r"\d+ (pairs|samples|near|far|kinds)|samples", chart.caption) for chart in told.charts)
            for chart in told.charts:
                assert re.search(r"(ms|µs) \(log scale\)|far/near \(log scale\)", chart.svg)


def test_a_tail_needs_two_points() -> None:
    assert tail_chart("t", "ms", [Series(name="near", points=((1.0, 0.5),))]) == ""
    assert tail_chart("t", "ms", []) == pair_chart("t", [], None) == ""


def test_a_document_that_is_none_is_refused() -> None:
    from hostdoctor.errors import SourceError

    for data in (
        "[]",
        "{}",
        '{"kind": "other"}',
        '{"pairs": "x", "metrics": {}}',
        '{"kind": "measure-copy"}',
        "\xff",
        "",
    ):
        with pytest.raises(SourceError, match=r"f\.json: no document"):
            shown_bytes(data.encode("latin-1"))


def shown_bytes(data: bytes) -> None:
    from hostdoctor.outputs.page.documents import read_document

    read_document(data, "f.json")


def test_every_finding_has_its_evidence_remedy_and_documentation() -> None:
    report = report_on("sick-2n")
    text = Dom(everything(report)).text
    for result in report.results:
        for finding in result.findings:
            assert finding.message in text
            assert finding.remedy.text in text
            assert f"What {result.id} checks, and why" in text
            assert all(seen.value in text and seen.source in text for seen in finding.evidence[:16])


def test_every_gap_and_skip_is_told() -> None:
    report = report_on("demo")
    text = Dom(everything(report)).text
    assert all(gap.reason in text for gap in report.host.gaps)
    assert all((one.reason or "") in text for one in report.results if one.status == "skip")


def test_documentation_keeps_its_shape() -> None:
    made = blocks("First.\n\n## What it checks\nA and\nb.\n\n- one\n  more\n- two\n\n    code\n")
    kinds = [(block.kind, block.text, block.items) for block in made]
    assert kinds == [
        ("paragraph", "First.", ()),
        ("heading", "What it checks", ()),
        ("paragraph", "A and b.", ()),
        ("list", "", ("one more", "two")),
        ("code", "code", ()),
    ]


@pytest.mark.parametrize("name", HOSTS)
def test_markdown_has_the_same_sections(name: str) -> None:
    page = page_of(HOSTS[name](), measurements=tuple(one for made in DOCUMENTS for one in shown(made())))
    text = render_page_markdown(page)
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert [one for one in headings if one in SECTIONS_OF_MARKDOWN] == SECTIONS_OF_MARKDOWN
    assert "no measurable difference" in text


def test_an_endless_document_is_cut_and_says_so() -> None:
    document, reads = copies(), drive_reads()
    document["results"] = document["results"] * 400
    document["notes"] = ["n" * 5000] * 3000
    reads["runs"] = reads["runs"] * 2000
    told = (*shown(document), *shown(reads))
    assert any("more verdicts are in the document" in note for note in told[0].notes)
    assert any("the first 100 of 4000 rows" in note for note in told[1].notes)
    assert len(render_page(page_of(report_on("demo"), measurements=told))) < 1_000_000


@pytest.mark.parametrize("made", [memory_matrix, drive_reads, copies])
def test_what_ended_a_measurement_early_is_said(made: Callable[[], dict[str, Any]]) -> None:
    assert "Ended early: the drive is gone" in shown(made() | {"stopped": "the drive is gone"})[0].notes
    assert not any("Ended early" in note for note in shown(made())[0].notes)
