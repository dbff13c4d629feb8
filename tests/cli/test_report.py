"""``hostdoctor report``."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.outputs.page.html import render_page
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey
from tests.cli.support import Ran, hostdoctor
from tests.outputs.pages import DOCUMENTS, Dom, copies, experiment, page_of, watched
from tests.outputs.test_page import assert_inert
from tests.support.hostbuilder import build_files, rooted_files
from tests.support.hostbuilder.big import big_description

Root = Callable[[str], str]


def report(*arguments: str) -> Ran:
    ran = hostdoctor("report", *arguments)
    assert ran.status == 0, ran.err
    return ran


@pytest.fixture(scope="module")
def demo() -> str:
    return report("--demo").out


def test_the_page_is_one_file_and_inert(demo: str) -> None:
    assert demo.startswith("<!DOCTYPE html>")
    assert_inert(demo)


def test_wrappers_for_each_node_and_for_all(demo: str) -> None:
    dom = Dom(demo)
    titles = [element.text for element in dom.all("h3")]
    wanted = ["The GPUs of NUMA node 0 (GPU0-GPU3)", "The GPUs of NUMA node 1 (GPU4-GPU7)", "All GPUs (GPU0-GPU7)"]
    assert [title for title in titles if "GPUs" in title] == wanted
    codes = [element.text for element in dom.all("code")]
    wrapped = hostdoctor("wrap", "--demo", "--gpus", "0,1,2,3", "--as", "args", "--", "vllm", "serve", "MODEL")
    line = wrapped.out.strip() + " --tensor-parallel-size 4"
    assert line in codes
    assert any(code.startswith("#!/bin/sh") and "numactl" in code for code in codes)


def test_a_command_of_the_caller_s_is_wrapped() -> None:
    page = report("--demo", "--gpus", "5", "--", "vllm", "serve", "/models/a b").out
    assert "vllm serve &#39;/models/a b&#39;" in page
    assert "The GPUs that were asked for (GPU5)" in page


def test_the_budget_is_that_of_budget(demo: str) -> None:
    told = json.loads(hostdoctor("budget", "--demo", "--format", "json").out)
    exact = {float(element.given["value"]) for element in Dom(demo).all("data")}
    assert {node["pinnable_bytes"] for node in told["nodes"]} <= exact
    assert told["total"]["pinnable_bytes"] in exact
    assert {node["available_bytes"] for node in told["nodes"]} <= exact


def test_a_plan_of_memory_is_judged_and_drawn() -> None:
    page = report("--demo", "--kv-offload-gib", "64", "--tp", "4").out
    assert "The plan fits." in page
    assert 64 * 2**30 in {float(element.given["value"]) for element in Dom(page).all("data")}
    assert "--kv-offloading-size 64" in page
    too_much = report("--demo", "--kv-offload-gib", "4000").out
    assert "The plan does not fit." in too_much


def test_findings_are_those_of_check(demo: str) -> None:
    told = json.loads(hostdoctor("check", "--demo", "--format", "json").out)
    text = Dom(demo).text
    messages = [finding["message"] for result in told["results"] for finding in result["findings"]]
    assert messages
    assert all(message in text for message in messages)


def test_measured_documents_and_a_plan_are_shown(tmp_path: Path) -> None:
    options: list[str] = []
    for number, made in enumerate(DOCUMENTS):
        (tmp_path / f"{number}.json").write_text(json.dumps(made()), encoding="utf-8")
        options += ["--measured", str(tmp_path / f"{number}.json")]
    told = hostdoctor(
        "plan", "--gpu", "h100-80", "--kv-bytes-per-token", "131072", "--used-gib", "40", "--format", "json"
    )
    (tmp_path / "plan.json").write_text(told.out, encoding="utf-8")
    dom = Dom(report("--demo", *options, "--plan", str(tmp_path / "plan.json")).out)
    assert "no measurable difference (would have seen ≥ 4.3 %)" in dom.text
    sessions = {one["sessions"] for one in json.loads(told.out)["sessions"]}
    assert sessions
    assert sessions <= {float(element.given["value"]) for element in dom.all("data")}


@pytest.mark.parametrize("text", ["", "{}", "[1]", "nonsense", '{"schema_version": "1"}'])
@pytest.mark.parametrize("option", ["--measured", "--plan"])
def test_a_file_that_is_no_document_ends_3(tmp_path: Path, option: str, text: str) -> None:
    (tmp_path / "f.json").write_text(text, encoding="utf-8")
    ran = hostdoctor("report", "--demo", option, str(tmp_path / "f.json"))
    assert ran.status == 3
    assert ran.out == ""
    assert "f.json" in ran.err


def test_a_plan_without_figures_says_why(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"schema_version": "1", "unsupported": "an odd layout"}', encoding="utf-8")
    ran = hostdoctor("report", "--demo", "--plan", str(tmp_path / "p.json"))
    assert ran.status == 3
    assert "an odd layout" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--measured", "/nowhere.json"),
        ("--plan", "/nowhere.json"),
        ("--gpus", "99"),
        ("--tp", "99"),
        ("--from", "/nowhere"),
        ("--compare", "/nowhere", "/nowhere"),
        ("--compare", "a"),
        ("-o", "/nowhere/page.html"),
        ("--format", "pdf"),
    ],
)
def test_mistakes_end_64(arguments: tuple[str, ...]) -> None:
    options = () if arguments[0] in ("--from", "--compare") else ("--demo",)
    ran = hostdoctor("report", *options, *arguments)
    assert ran.status == 64
    assert ran.out == ""


def test_a_page_is_written_whole_and_not_over_another(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert report("--demo", "-o", str(page)).out == ""
    assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")
    ran = hostdoctor("report", "--demo", "-o", str(page))
    assert ran.status == 64
    assert "--force" in ran.err
    report("--demo", "-o", str(page), "--force", "--format", "markdown")
    assert page.read_text(encoding="utf-8").startswith("## hostdoctor: critical")


def test_a_terminal_gets_no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostdoctor.cli.report.on_terminal", lambda: True)
    ran = hostdoctor("report", "--demo")
    assert ran.status == 64
    assert "-o FILE" in ran.err
    assert hostdoctor("report", "--demo", "--format", "markdown").status == 0


def test_markdown_for_a_ticket() -> None:
    out = report("--demo", "--format", "markdown").out
    assert out.startswith("## hostdoctor: critical")
    assert "### Launch wrappers" in out
    assert "numactl --cpunodebind=0 --membind=0 vllm serve MODEL" in out


@pytest.mark.parametrize("name", ["gb200-tray", "no-gpu-2n", "pod-2-of-8"])
def test_other_hosts(root_of: Root, name: str) -> None:
    page = report("--from", root_of(name)).out
    assert_inert(page)
    assert ("No GPU that a command could be bound to." in page) == (name == "no-gpu-2n")


def test_where_nodes_are_not_known_wrappers_say_so(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\tN/A\tN/A\nGPU1\tSYS\t X \tN/A\tN/A\n",
        encoding="utf-8",
    )
    text = Dom(report("--from", str(tmp_path / "topo.txt")).out).text
    assert "Not bound: " in text
    assert "Establish the map." in text


def test_compare_takes_captures_and_json(root_of: Root, tmp_path: Path) -> None:
    checked = tmp_path / "old.json"
    checked.write_text(hostdoctor("check", "--from", root_of("dgx-h100"), "--format", "json").out, encoding="utf-8")
    mapped = tmp_path / "map.json"
    mapped.write_text(hostdoctor("topo", "--from", root_of("dgx-h100"), "--format", "json").out, encoding="utf-8")
    outs = [
        report("--compare", str(old), root_of("demo"), "--format", "markdown").out.replace(str(old), "OLD")
        for old in (checked, mapped, root_of("dgx-h100"))
    ]
    assert len({out.partition("\n\n")[2].partition("From")[2].partition("| finding")[2] for out in outs}) == 1
    assert "verdict from ok to critical" in outs[0]
    assert "what changed" in report("--compare", str(checked), str(checked)).out
    assert "Nothing changed" in report("--compare", str(checked), str(checked)).out


def test_an_experiments_folder_is_told_from_its_document(tmp_path: Path) -> None:
    ran = hostdoctor("report", "--demo", "--measured", str(tmp_path))
    assert (ran.status, ran.out) == (3, "")
    assert "a folder: name the document in it (that of compare is its comparison.json)" in ran.err


def test_compare_looks_at_nothing_else(root_of: Root) -> None:
    ran = hostdoctor("report", "--compare", root_of("demo"), root_of("demo"), "--demo")
    assert ran.status == 64
    forgotten = hostdoctor("report", "--compare", "before.tar.gz", "-o", "changes.html")
    assert forgotten.status == 64
    assert "--compare takes OLD and NEW, here 'before.tar.gz' and '-o'" in forgotten.err


@pytest.mark.parametrize("text", ["{", '{"results": 3}', '{"numa_nodes": 3}', '{"a": 1}'])
def test_compare_refuses_what_is_no_report(tmp_path: Path, root_of: Root, text: str) -> None:
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    ran = hostdoctor("report", "--compare", str(tmp_path / "r.json"), root_of("demo"))
    assert ran.status == 3
    assert "r.json" in ran.err


def test_a_very_large_host_stays_below_a_megabyte() -> None:
    files: Any = build_files(big_description())
    host = survey(RootSource(MemoryTree(rooted_files(files), files.links), "big"))
    assert len(host.gpus) == 16
    assert len(host.pci_devices) >= 4096
    page = render_page(page_of(diagnose(host, Ask(), load_rules())))
    assert len(page.encode()) < 1_000_000
    assert "GPU15" in page


def test_a_document_of_another_host_is_refused(tmp_path: Path) -> None:
    for made in (watched, experiment):
        document = made()
        told = document["plan"] if "plan" in document else document["circumstances"]
        told["hostname"] = "elsewhere"
        (tmp_path / "f.json").write_text(json.dumps(document), encoding="utf-8")
        ran = hostdoctor("report", "--demo", "--measured", str(tmp_path / "f.json"))
        assert ran.status == 64
        assert "another host (elsewhere)" in ran.err


def test_links_under_load_are_judged_as_check_judges_them(tmp_path: Path) -> None:
    document = copies()
    slow = {"widths_lanes": {"16": 20}, "speeds_gts": {"8": 20}, "readings": 20}
    document["links"] = [{"bdf": bdf, **slow} for bdf in ("0000:19:00.0", "0000:17:01.0")]
    (tmp_path / "f.json").write_text(json.dumps(document), encoding="utf-8")
    told = json.loads(hostdoctor("check", "--demo", "--format", "json", "--measured", str(tmp_path / "f.json")).out)
    plain = json.loads(hostdoctor("check", "--demo", "--format", "json").out)
    said = [{f["message"] for result in one["results"] for f in result["findings"]} for one in (told, plain)]
    added = said[0] - said[1]
    assert added
    assert all(message in Dom(report("--demo", "--measured", str(tmp_path / "f.json")).out).text for message in added)


def test_what_the_site_accepts_is_what_check_accepts(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[accept]]\nid = "HD201"\nreason = "known"\nuntil = 2099-01-01\n', encoding="utf-8")
    assert "Accepted by this site" in report("--demo", "--config", str(config)).out
    config.write_text('[[accept]]\nid = "HD999"\nreason = "known"\nuntil = 2099-01-01\n', encoding="utf-8")
    ran = hostdoctor("report", "--demo", "--config", str(config))
    assert ran.status == 64
    assert "HD999" in ran.err


def test_an_empty_list_of_gpus_is_a_mistake() -> None:
    assert hostdoctor("report", "--demo", "--gpus", "").status == 64


def test_files_of_another_schema_version_are_refused(tmp_path: Path) -> None:
    told = json.loads(hostdoctor("topo", "--demo", "--format", "json").out)
    for document in (watched(), experiment(), told):
        (tmp_path / "f.json").write_text(json.dumps({**document, "schema_version": "2"}), encoding="utf-8")
        name = str(tmp_path / "f.json")
        ran = hostdoctor("report", *(("--compare", name, name) if document is told else ("--demo", "--measured", name)))
        assert ran.status == 3
        assert "schema version 2" in ran.err


def test_a_document_may_come_in_another_encoding_or_by_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(watched())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    (tmp_path / "f.json").write_bytes(text.encode("utf-16"))
    assert "Drives and caches at work" in report("--demo", "--measured", str(tmp_path / "f.json")).out
    assert "Drives and caches at work" in report("--demo", "--measured", "-").out


def test_a_pipe_that_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert hostdoctor("report", "--demo", "--measured", str(tmp_path / "pipe")).status == 3


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_link_is_not_written_through(tmp_path: Path, force: tuple[str, ...]) -> None:
    (tmp_path / "kept").write_text("kept", encoding="utf-8")
    (tmp_path / "link.html").symlink_to("kept")
    assert hostdoctor("report", "--demo", "-o", str(tmp_path / "link.html"), *force).status == 64
    assert (tmp_path / "kept").read_text(encoding="utf-8") == "kept"
