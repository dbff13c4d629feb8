"""A process' mappings by node: what is private, what is shared or pinned, what is a file."""

from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.facts import ProcessMemory
from hostdoctor.parsers.numa_maps import MAX_POLICIES, OTHER_POLICIES, parse_numa_maps

PAGE, MIB = 4096, 1 << 20


def only(line: str) -> ProcessMemory:
    (told,) = parse_numa_maps([line]).nodes
    return told


def test_each_kind_is_counted_on_each_node() -> None:
    maps = parse_numa_maps(
        (
            "5581a0000000 default file=/usr/bin/python3.11 mapped=600 active=0 N0=500 N1=100 kernelpagesize_kB=4\n",
            "5581a2000000 default heap anon=900 dirty=900 N0=200 N1=700 kernelpagesize_kB=4\n",
            "7f2000000000 bind:1 file=/dev/zero\\040(deleted) dirty=51200 active=0 N1=51200 kernelpagesize_kB=4\n",
            "7f2fffffe000 default stack anon=9 dirty=9 N0=9 kernelpagesize_kB=4\n",
            "7ffd00000000 default\n",
            "\n",
        )
    )
    assert maps.nodes == (
        ProcessMemory(node=0, anon_bytes=209 * PAGE, file_bytes=500 * PAGE),
        ProcessMemory(node=1, anon_bytes=700 * PAGE, shared_bytes=200 * MIB, file_bytes=100 * PAGE),
    )
    assert maps.policies == {"default": 1509 * PAGE, "bind:1": 200 * MIB}


@pytest.mark.parametrize(
    "name",
    [
        "/dev/zero\\040(deleted)",
        "/dev/shm/psm_1a2b3c4d",
        "/dev/shm/nccl-Ab12Cd\\040(deleted)",
        "/memfd:pool\\040(deleted)",
        "/SYSV00000000\\040(deleted)",
        "/dev/nvidia-uvm",
        "/dev/nvidia0",
    ],
)
def test_memory_that_no_disk_holds_is_shared(name: str) -> None:
    assert only(f"7f0000000000 default file={name} dirty=2 mapmax=3 N1=2 kernelpagesize_kB=4").shared_bytes == 2 * PAGE


@pytest.mark.parametrize("name", ["/dev/zero", "/usr/lib/libcuda.so.1", "/memfd:jit\\040(deleted)"])
def test_private_copies_of_a_file_are_private(name: str) -> None:
    assert only(f"7f0000000000 default file={name} anon=5 dirty=5 N0=5 kernelpagesize_kB=4").anon_bytes == 5 * PAGE


@pytest.mark.parametrize("name", ["/models/dev/zero", "/data/model.safetensors", "/data/shm/x"])
def test_files_are_files(name: str) -> None:
    assert only(f"7f0000000000 default file={name} anon=1 mapped=5 N0=5 kernelpagesize_kB=4").file_bytes == 5 * PAGE


@pytest.mark.parametrize(("size_kib", "size_bytes"), [(2048, 3 * 2 * MIB), (1048576, 3 << 30), (64, 3 << 16)])
def test_pages_have_the_size_that_the_line_names(size_kib: int, size_bytes: int) -> None:
    line = f"7f0000000000 bind:0 file=/dev/hugepages/pool huge dirty=3 N0=3 kernelpagesize_kB={size_kib}"
    assert only(line).shared_bytes == size_bytes
    anonymous = f"7f0000000000 bind:0 file=/anon_hugepage\\040(deleted) huge dirty=3 N0=3 kernelpagesize_kB={size_kib}"
    assert only(anonymous).anon_bytes == size_bytes


@pytest.mark.parametrize(
    "policy",
    [
        "default",
        "local",
        "prefer:1",
        "prefer (many):0-1",
        "interleave:0-1",
        "weighted interleave:0,2",
        "bind=static:0-3",
    ],
)
def test_policies_are_kept_in_the_kernel_s_words(policy: str) -> None:
    maps = parse_numa_maps([f"7f0000000000 {policy} anon=1 dirty=1 N0=1 kernelpagesize_kB=4"])
    assert maps.policies == {policy: PAGE}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Inode: 1234", "not a mapping"),
        ("7f0000000000", "not a mapping"),
        ("7F0000000000 default", "not a mapping"),
        ("00007f0000000000000 default", "not a mapping"),
        ("7f0000000000 default anon=1 N0=1", "pages without their size"),
        ("7f0000000000 default anon=1 N0=x kernelpagesize_kB=4", "not a number"),
        ("7f0000000000 default anon=1 N0=1 kernelpagesize_kB=", "not a number"),
        ("7f0000000000 default N123456=1 kernelpagesize_kB=4", "not a number"),
        (f"7f0000000000 default N0={'9' * 5000} kernelpagesize_kB=4", "not a number"),
        ("7f0000000000 default N٣=1 kernelpagesize_kB=4", "not a number"),
        (f"7f0000000000 default file={'x' * 70000} N0=1 kernelpagesize_kB=4", "not a mapping"),
    ],
)
def test_what_the_kernel_does_not_print_is_refused(line: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason) as refused:
        parse_numa_maps(["7f0000000000 default", line], "/proc/7/numa_maps")
    assert (refused.value.line, refused.value.source) == (2, "/proc/7/numa_maps")


def test_hostile_text_is_bounded() -> None:
    nodes = (f"7f0000000000 default N{node}=1 kernelpagesize_kB=4" for node in range(5000))
    with pytest.raises(ParseError, match="too many nodes"):
        parse_numa_maps(nodes)
    with pytest.raises(ParseError, match="more memory"):
        parse_numa_maps(repeat("7f0000000000 default N0=999999999999999 kernelpagesize_kB=4", 10))
    policies = parse_numa_maps(f"7f0000000000 p{n} N0=1 kernelpagesize_kB=4" for n in range(1000)).policies
    assert len(policies) == MAX_POLICIES + 1
    assert policies[OTHER_POLICIES] == (1000 - MAX_POLICIES) * PAGE


@given(st.lists(st.text(max_size=60) | st.from_regex(r"[0-9a-f]{4} default (N\d=\w{1,3} ){1,3}kernelpagesize_kB=\w")))
def test_any_text_is_parsed_or_refused(lines: list[str]) -> None:
    try:
        maps = parse_numa_maps(lines)
    except ParseError:
        return
    assert sum(maps.policies.values()) == sum(m.anon_bytes + m.shared_bytes + m.file_bytes for m in maps.nodes)
