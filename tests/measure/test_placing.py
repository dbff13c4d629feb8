"""Memory and threads are where they were asked to be, on this machine, and what cannot be done is told."""

import os
from pathlib import Path

import pytest

from hostdoctor.errors import MeasureError
from hostdoctor.measure import kernel, placing
from hostdoctor.measure.placing import PAGE_BYTES, bound_buffer, free_bytes, memory_from, pinned_thread, placement_of

SIZE = 8 << 20
NODE = min(int(path.name[4:]) for path in Path("/sys/devices/system/node").glob("node[0-9]*"))


def test_a_buffer_is_on_its_node_and_says_so() -> None:
    with bound_buffer(NODE, SIZE) as buffer:
        placement = buffer.placement()
        assert placement.source == "move_pages"
        assert placement.pages == {NODE: SIZE // PAGE_BYTES}
        assert placement.share_on(NODE) == 1.0
        assert placement.share_on(NODE + 1) == 0.0
        row = next(row for row in numa_maps() if row.startswith(f"{buffer.address:x} "))
        assert f" bind:{NODE} " in row
        assert f" N{NODE}={SIZE // PAGE_BYTES} " in row


def test_huge_pages_are_counted_not_assumed() -> None:
    with bound_buffer(NODE, SIZE, huge=False) as buffer:
        assert buffer.huge_bytes() == 0
    with bound_buffer(NODE, SIZE, huge=True) as buffer:
        got = buffer.huge_bytes()
        assert got is not None
        assert 0 <= got <= SIZE
        assert buffer.address % placing.HUGE_BYTES == 0


def test_a_size_that_is_no_multiple_of_a_page() -> None:
    with bound_buffer(NODE, SIZE + 5, huge=False) as buffer:
        assert buffer.placement().pages == {NODE: SIZE // PAGE_BYTES + 1}


def test_large_ranges_are_sampled_and_say_how_many_pages_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "MAX_ASKED_PAGES", 100)
    with bound_buffer(NODE, SIZE) as buffer:
        placement = buffer.placement()
    assert placement.total == SIZE // PAGE_BYTES
    assert 50 < placement.asked <= 100
    assert placement.pages == {NODE: placement.asked}


def test_pages_that_were_never_touched_are_nowhere() -> None:
    address = kernel.map_memory(SIZE)
    placement = placement_of(address, SIZE)
    kernel.libc().munmap(address, SIZE)
    assert (placement.pages, placement.elsewhere) == ({}, SIZE // PAGE_BYTES)


def test_where_move_pages_is_forbidden_numa_maps_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    with bound_buffer(NODE, SIZE) as buffer:
        asked = buffer.placement()
        monkeypatch.setitem(kernel.NUMBERS[os.uname().machine], "move_pages", 100_000)  # no such call
        told = buffer.placement()
    assert told.source == "numa_maps"
    assert (told.pages, told.total) == (asked.pages, asked.total)


def test_what_nothing_can_tell_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kernel.NUMBERS[os.uname().machine], "move_pages", 100_000)
    with pytest.raises(MeasureError, match=r"move_pages: function not implemented.*; and /proc/self/numa_maps"):
        placement_of(PAGE_BYTES, PAGE_BYTES)


def test_a_refused_bind_says_what_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mappings()
    monkeypatch.setitem(kernel.NUMBERS[os.uname().machine], "mbind", 100_000)
    with pytest.raises(MeasureError, match=f"cannot bind memory to node {NODE}: mbind: function not implemented"):
        bound_buffer(NODE, 64 << 20)
    assert mappings() == before  # given back


def test_other_processors_have_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "NUMBERS", {})
    with pytest.raises(MeasureError, match="not known how on"):
        kernel.get_mempolicy()


@pytest.mark.parametrize("node", [-1, 1000, 5000])
def test_nodes_that_do_not_exist(node: int) -> None:
    with pytest.raises(MeasureError, match="no such NUMA node"):
        bound_buffer(node, SIZE)


def test_more_than_half_of_what_is_free_is_refused() -> None:
    free = free_bytes(NODE)
    assert free is not None
    with pytest.raises(MeasureError, match="is more than half of the"):
        bound_buffer(NODE, 2 * free)


def test_no_size_is_no_buffer() -> None:
    with pytest.raises(MeasureError, match="needs a size"):
        bound_buffer(NODE, 0)


def test_a_thread_stays_on_its_cpus_and_goes_back() -> None:
    former = os.sched_getaffinity(0)
    last = max(former)
    with pinned_thread([last]) as granted:
        assert granted == {last}
        assert kernel.running_cpu() == last
    assert os.sched_getaffinity(0) == former


@pytest.mark.parametrize("cpus", [[], [4095], [-1], [1 << 40]])
def test_cpus_that_may_not_be_used(cpus: list[int]) -> None:
    with pytest.raises(MeasureError, match="cannot run on CPUs"), pinned_thread(cpus):
        pass


def test_a_policy_holds_within_its_block_alone() -> None:
    assert kernel.get_mempolicy()[0] == kernel.MPOL_DEFAULT
    with memory_from(NODE):
        mode, mask = kernel.get_mempolicy()
        assert mode == kernel.MPOL_BIND
        assert mask[NODE // 64] == 1 << NODE % 64
    assert kernel.get_mempolicy()[0] == kernel.MPOL_DEFAULT


def numa_maps() -> list[str]:
    return Path("/proc/self/numa_maps").read_text(encoding="ascii").splitlines()


def mappings() -> int:
    rows = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    sizes = (row.split(maxsplit=1)[0].split("-") for row in rows)
    return sum(int(end, 16) - int(start, 16) > 60 << 20 for start, end in sizes)


def test_cpus_that_were_taken_away_meanwhile_are_not_gone_back_to(monkeypatch: pytest.MonkeyPatch) -> None:
    former = os.sched_getaffinity(0)
    with pinned_thread([min(former)]):
        monkeypatch.setattr(os, "sched_setaffinity", _refuse)
    monkeypatch.undo()
    os.sched_setaffinity(0, former)


def _refuse(*_: object) -> None:
    raise OSError(22, "Invalid argument")
