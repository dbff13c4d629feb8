"""What changed between two looks at a host."""

import msgspec
import pytest

from hostdoctor.diagnosis import Report
from hostdoctor.diagnosis.changes import Change, Changes, compare_reports
from hostdoctor.facts import Gap, Gpu, Host, Link, System
from hostdoctor.outputs.page.changes import changes_markdown, render_changes, summary
from tests.hosts.test_verdicts import report_on
from tests.outputs.pages import ABOUT, Dom, judged
from tests.outputs.test_page import assert_inert, assert_inert_markdown
from tests.support.build import gpu, link
from tests.support.build_memory import node
from tests.support.poison import HOSTILE, poisoned

NAMES = ("old.tar.gz", "new.tar.gz")


def host(*cards: Gpu, **more: object) -> Host:
    return msgspec.structs.replace(
        Host(numa_nodes=(node(0, "0-31"), node(1, "32-63")), gpus=cards, system=System(hostname="a")), **more
    )


def changed(before: Host, after: Host) -> Changes:
    return compare_reports(judged(before), judged(after))


def lines(changes: Changes) -> list[tuple[str, str, str | None, str | None]]:
    return [(change.subject, change.what, change.before, change.after) for change in changes.facts]


@pytest.mark.parametrize("name", ["demo", "gb200-tray", "no-gpu-2n", "sick-2n", "pod-2-of-8"])
def test_a_host_against_itself_shows_nothing(name: str) -> None:
    found = compare_reports(report_on(name), report_on(name))
    assert found.is_same
    assert summary(found) == "Nothing changed that is compared."


def test_a_gpu_in_another_slot_is_the_same_gpu() -> None:
    before = host(gpu(0, "0000:19:00.0", "0000:15:01.0", uuid="GPU-1", numa_node=0))
    after = host(gpu(0, "0000:99:00.0", "0000:95:01.0", uuid="GPU-1", numa_node=1))
    told = lines(changed(before, after))
    assert ("GPU0 (GPU-1)", "address", "0000:19:00.0", "0000:99:00.0") in told
    assert ("GPU0 (GPU-1)", "NUMA node", "0", "1") in told
    assert not [change for change in changed(before, after).facts if change.kind != "changed"]


def test_a_gpu_that_is_gone_and_one_that_is_new() -> None:
    found = changed(host(gpu(0, uuid="GPU-1")), host(gpu(0, uuid="GPU-2"))).facts
    assert [(change.subject, change.kind) for change in found] == [
        ("GPU0 (GPU-1)", "removed"),
        ("GPU0 (GPU-2)", "added"),
    ]


def test_lanes_are_compared_and_rates_that_follow_the_load_are_not() -> None:
    before, idle, narrow = (host(gpu(0, "0000:19:00.0", at=at)) for at in (link(), link(now=1), link(8)))
    assert changed(before, idle).is_same
    assert ("GPU0 (0000:19:00.0)", "link lanes", "16", "8") in lines(changed(before, narrow))


def test_free_memory_moves_by_itself() -> None:
    before, after = (host(numa_nodes=(node(0, "0-31", free_bytes=free),)) for free in (1, 2))
    assert changed(before, after).is_same


def test_settings_driver_and_kernel_are_compared() -> None:
    before = host(settings={"kernel.numa_balancing": "0"}, system=System(hostname="a", nvidia_driver="550"))
    after = host(settings={"kernel.numa_balancing": "1"}, system=System(hostname="a", nvidia_driver="570"))
    told = lines(changed(before, after))
    assert ("host", "NVIDIA driver", "550", "570") in told
    assert ("host", "kernel.numa_balancing", "0", "1") in told


def test_what_became_unknown_is_not_zero() -> None:
    before, after = host(gpu(0, "0000:19:00.0", numa_node=1)), host(gpu(0, "0000:19:00.0", numa_node=None))
    assert ("GPU0 (0000:19:00.0)", "NUMA node", "1", "not known") in lines(changed(before, after))


def test_findings_come_go_and_change() -> None:
    narrow, wide = report_on("demo"), report_on("dgx-h100")
    came = compare_reports(wide, narrow)
    assert ("HD201", "added", "critical") in [(one.id, one.kind, one.severity) for one in came.findings]
    assert came.status_before == "ok"
    assert came.status == "critical"
    went = compare_reports(narrow, wide)
    assert ("HD201", "removed", None) in [(one.id, one.kind, one.severity) for one in went.findings]


def test_a_check_that_lost_its_evidence_is_named() -> None:
    before = report_on("demo")
    unread = msgspec.structs.replace(before.results[0], status="skip", skip_kind="no-evidence", reason="r")
    after = msgspec.structs.replace(before, results=(unread, *before.results[1:]))
    found = compare_reports(before, after)
    assert found.not_judged == (f"{unread.id} {unread.name} was judged before alone",)
    assert not found.is_same


def test_two_hosts_are_told_from_one() -> None:
    found = compare_reports(report_on("dgx-h100"), report_on("demo"))
    assert "These are two hosts by name: dgx-h100 and demo." in Dom(render_changes(found, NAMES, ABOUT)).text


def test_page_and_markdown_tell_every_change() -> None:
    found = compare_reports(report_on("dgx-h100"), report_on("demo"))
    text, markdown = Dom(render_changes(found, NAMES, ABOUT)).text, changes_markdown(found, NAMES)
    for change in found.facts:
        assert all(told in text for told in (change.subject, change.before or "–", change.after or "–"))
    assert markdown.count("\n| ") == len(found.facts) + len(found.findings) + 2


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_come_out_inert(text: str) -> None:
    found = compare_reports(report_on("dgx-h100"), poisoned(report_on("demo"), text))
    about = msgspec.structs.replace(poisoned(ABOUT, text), versions={"hostdoctor": text})
    assert_inert(render_changes(found, (text, text), about))
    assert_inert_markdown(changes_markdown(found, (text, text)), text)


def test_many_changes_are_cut_and_counted() -> None:
    facts = tuple(
        Change(area="PCI", subject=str(i), what="name", kind="changed", before="a", after="b") for i in range(1500)
    )
    found = Changes(hostname_before="a", hostname="a", status_before="ok", status="ok", facts=facts)
    assert "500 more facts changed." in Dom(render_changes(found, NAMES, ABOUT)).text
    assert "500 more facts changed." in changes_markdown(found, NAMES)


def test_long_changes_stay_below_a_megabyte() -> None:
    facts = tuple(
        Change(area="PCI", subject=str(i), what="name", kind="changed", before="a" * 5000, after="b" * 5000)
        for i in range(1500)
    )
    found = Changes(hostname_before="a", hostname="a", status_before="ok", status="ok", facts=facts)
    assert len(render_changes(found, NAMES, ABOUT).encode()) < 1_000_000


def test_gaps_alone_are_no_change() -> None:
    before, after = Report(host=Host()), Report(host=Host(gaps=(Gap(fact="x", source="s", reason="r"),)))
    assert compare_reports(before, after).is_same


def test_unnamed_devices_do_not_hide_each_other() -> None:
    found = changed(host(Gpu(), Gpu()), host(Gpu(link=Link(width_lanes=8)), Gpu()))
    assert lines(found) == [("unnamed", "link lanes", "not known", "8")]
