"""Archives made to harm: each is refused in one line, soon, in little memory, and nothing is written.

The command line runs in a process of its own that may write no byte to a file; what it used is measured from outside.
"""

import bz2
import gzip
import io
import lzma
import os
import subprocess  # noqa: TID251  measures whole processes
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from hostdoctor.facts import Fact

MAX_MIB = 150
MAX_CPU_S = 10  # on a machine that runs other tests; alone each takes under 3
ZEROS = bytes(64 << 20)
END = bytes(1024)


class Ended(Fact, frozen=True, kw_only=True):
    """How a run ended and what it used."""

    status: int
    out: str
    err: str
    mib: float
    seconds: float


# Runs a command within limits and prints what it used; a process of its own, because a child's peak is no smaller than
# that of the process that it was forked from.
MEASURE = """
import json, resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
usage = {"mib": used.ru_maxrss / 1024, "seconds": used.ru_utime + used.ru_stime}
print(json.dumps({"status": done.returncode, "out": done.stdout, "err": done.stderr} | usage))
"""


def run(path: Path) -> Ended:
    command = [sys.executable, "-m", "hostdoctor", "topo", "--from", str(path)]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True, env=environment
    )
    ended = msgspec.json.decode(done.stdout, type=Ended)
    print(f"{path.name}: {ended.seconds:.1f} s, {ended.mib:.0f} MiB, {ended.err.strip()}")  # noqa: T201  shown by -s
    return ended


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = size, kind, link
    return member.tobuf(tarfile.GNU_FORMAT)


def raw_header(name: bytes, size: int = 0, kind: bytes = b"0") -> bytes:
    """Return a header with any bytes as its name, and any size."""
    block = bytearray(header("x", 0))
    block[:100] = name.ljust(100, b"\0")
    block[124:136] = b"%011o\0" % size if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def file(name: str, data: bytes = b"x") -> bytes:
    return header(name, len(data)) + data + bytes(-len(data) % 512)


ROOT = file("sys/devices/system/node/online", b"0\n") + file("proc/cpuinfo", b"processor : 0\n")


def packed(*parts: bytes) -> bytes:
    return gzip.compress(b"".join((ROOT, *parts, END)), 1)


def pax(records: bytes, kind: bytes = b"x") -> bytes:
    return raw_header(b"pax", len(records), kind) + records + bytes(-len(records) % 512)


def record(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode("utf-8", "surrogateescape")
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length += 1
    return str(length).encode() + body


def many(count: int, name: Callable[[int], str] = "sys/x{}".format) -> Iterator[bytes]:
    """Yield a gzip of a tar with this many empty members."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    thousand = b"".join(header(name(i)) for i in range(1000))
    yield packer.compress(ROOT)
    for _ in range(count // 1000):
        yield packer.compress(thousand)
    yield packer.compress(END) + packer.flush()


def ten_gigabytes(compress: Callable[[bytes], bytes], start: bytes) -> bytes:
    """Return a bomb in several streams, as decompressors take them one after another."""
    return compress(start) + compress(ZEROS) * 160


def deep(count: int) -> bytes:
    """Return members that are nothing but long paths of folders, none like another."""
    paths = ("/".join(["sys", f"{i:x}", *("d" * 14 for _ in range(58))]) for i in range(count))
    return packed(*(pax(record("path", path)) + header("x") for path in paths))


CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "traversal": (lambda: packed(file("sys/../../../etc/cron.d/x")), "leads out of the archive"),
    "absolute": (lambda: packed(file("/etc/cron.d/x")), "leads out of the archive"),
    "symlink-out": (lambda: packed(header("sys/x", 0, b"2", "../../../etc/shadow")), "leads out of the archive"),
    "symlink-out-of-proc": (lambda: packed(header("proc/x", 0, b"2", "../../etc/shadow")), "leads out of the archive"),
    "symlink-out-of-etc": (lambda: packed(header("etc/x", 0, b"2", "../../etc/shadow")), "leads out of the archive"),
    "zeros-behind-the-end": (lambda: ten_gigabytes(gzip.compress, ROOT + END), "250 times its size"),
    "noise-behind-the-end": (lambda: gzip.compress(ROOT + END + os.urandom(1 << 20))[:-1000], "cut short"),
    "cut-in-the-sum": (lambda: packed()[:-1], "cut short"),
    "symlink-absolute": (lambda: packed(header("sys/x", 0, b"2", "/etc/shadow")), "leads out of the archive"),
    "hardlink": (lambda: packed(header("sys/x", 0, b"1", "/etc/shadow")), "is a hard link"),
    "character-device": (lambda: packed(header("sys/x", 0, b"3")), "is a device"),
    "block-device": (lambda: packed(header("sys/x", 0, b"4")), "is a device"),
    "pipe": (lambda: packed(header("sys/x", 0, b"6")), "is a pipe"),
    "sparse": (lambda: packed(header("sys/x", 0, b"S")), "is a sparse file"),
    "pax-sparse": (lambda: packed(pax(record("GNU.sparse.major", "1")), header("sys/x")), "is a sparse file"),
    "unknown-type": (lambda: packed(header("sys/x", 0, b"V")), "unknown type"),
    "zeros-told": (lambda: packed(raw_header(b"var/log/x", 10 << 30)), "unpacks to 10737418240 bytes"),
    "zeros-in-sys": (lambda: packed(raw_header(b"sys/x", 1 << 30)), "larger than 16 MiB"),
    "zeros-gzip": (lambda: ten_gigabytes(gzip.compress, raw_header(b"var/x", 2000 << 20)), "250 times its size"),
    "zeros-bzip2": (lambda: ten_gigabytes(bz2.compress, raw_header(b"var/x", 2000 << 20)), "250 times its size"),
    "zeros-xz": (lambda: ten_gigabytes(_xz, raw_header(b"var/x", 2000 << 20)), "250 times its size"),
    "zeros-after-nothing": (lambda: ten_gigabytes(gzip.compress, b""), "250 times its size"),
    "crumbs": (lambda: gzip.compress(ROOT[:512]) + gzip.compress(b"") * 400_000, "in too many pieces"),
    "xz-dictionary": (lambda: _xz(ROOT + END, dictionary=1 << 30), "unreadable archive"),
    "million-members": (lambda: b"".join(many(1_000_000)), "more than 200000 members"),
    "million-skipped": (lambda: b"".join(many(1_000_000, "var/x{}".format)), "more than 200000 members"),
    "million-extensions": (
        lambda: gzip.compress(ROOT + pax(record("a", "b")) * 250_000, 1),
        "more than 200000 members",
    ),
    "deep-folders": (lambda: deep(3000), "unpacks to more than 80 MiB"),
    "too-deep": (lambda: packed(pax(record("path", "sys" + "/a" * 500)), header("x")), "more than 64 folders deep"),
    "long-name": (lambda: packed(pax(record("path", "sys/" + "a" * 5000)), header("x")), "more than 1024 characters"),
    "pax-bomb": (lambda: packed(raw_header(b"pax", 1 << 30, b"x"), bytes(1 << 20)), "an extended header of more than"),
    "gnu-name-bomb": (
        lambda: packed(raw_header(b"x", 1 << 30, b"L"), bytes(1 << 20)),
        "an extended header of more than",
    ),
    "pax-global-bomb": (
        lambda: packed(raw_header(b"x", 1 << 30, b"g"), bytes(1 << 20)),
        "extended header of more than",
    ),
    "pax-damaged": (lambda: packed(pax(b"999999 path=x\n"), header("x")), "damaged extended header"),
    "pax-negative": (lambda: packed(pax(record("size", "-1")), header("sys/x")), "damaged size"),
    "newline-in-name": (lambda: packed(raw_header(b"sys/a\nb")), "control characters"),
    "escape-in-name": (lambda: packed(raw_header(b"sys/\x1b[2Jb")), "control characters"),
    "nul-in-name": (lambda: packed(pax(record("path", "sys/a\0b")), header("x")), "control characters"),
    "newline-in-target": (lambda: packed(header("sys/x", 0, b"2", "a\nb")), "control characters"),
    "two-contents": (lambda: packed(file("sys/a", b"1"), file("sys/a", b"2")), "is there twice"),
    "file-and-folder": (lambda: packed(file("sys/a", b"1"), file("sys/a/b", b"2")), "is there twice"),
    "link-and-folder": (lambda: packed(header("sys/a", 0, b"2", "b"), file("sys/a/c", b"2")), "is there twice"),
    "link-and-file": (lambda: packed(file("sys/a", b"1"), header("sys/a", 0, b"2", "b")), "is there twice"),
    "cut-in-gzip": (lambda: packed(*(file(f"sys/{i}", os.urandom(600)) for i in range(99)))[:-30_000], "cut short"),
    "cut-in-a-file": (lambda: (ROOT + file("sys/x", bytes(9000)))[:-4000], "cut short"),
    "cut-in-a-skipped-file": (lambda: (ROOT + file("var/x", bytes(9000)))[:-4000], "cut short"),
    "cut-in-a-header": (lambda: (ROOT + file("sys/x", bytes(512)))[:-700], "cut short"),
    "cut-between-members": (lambda: ROOT + file("sys/x", bytes(512)), "cut short"),
    "cut-between-members-gzip": (lambda: gzip.compress(ROOT + file("sys/x", bytes(512))), "cut short"),
    "cut-after-an-extension": (lambda: packed(pax(record("path", "sys/x")))[:0] + ROOT + pax(b""), "cut short"),
    "damaged-gzip": (lambda: _flipped(packed(file("sys/x", os.urandom(9000)))), "unreadable archive"),
    "damaged-header": (lambda: ROOT + b"\xff" * 512 + END, "damaged"),
    "gzip-of-a-log": (lambda: gzip.compress(b"a line of a log\n" * 1000), "holds no tar archive"),
    "gzip-of-nothing": (lambda: gzip.compress(b""), "holds no tar archive"),
    "gzip-in-gzip": (lambda: gzip.compress(packed()), "holds no tar archive"),
    "tar-in-tar": (
        lambda: packed(file("inner.tar", ROOT + END))[:0] + gzip.compress(file("a.tar", ROOT) + END),
        "nothing",
    ),
    "deep-documents": (
        lambda: packed(*(file(f"hostdoctor/{name}.json", b"[" * 1_000_000) for name in ("manifest", "nvml", "cpu"))),
        "nothing could be established",
    ),
    "several-hosts": (lambda: gzip.compress(file("a/sys/x") + file("b/sys/x") + END), "several hosts"),
    "zstd": (lambda: b"\x28\xb5\x2f\xfd" + os.urandom(600), "zstd"),
    "noise": (lambda: b"\x1f\x8b" + os.urandom(5000), "unreadable archive"),
}


def _xz(data: bytes, dictionary: int = 1 << 20) -> bytes:
    if dictionary <= 1 << 20:
        return lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": dictionary}])
    # Only the header tells the dictionary's size; making one so large would take its memory here.
    small = lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}])
    block = bytearray(small[12:24])
    at = block.index(b"\x21\x01") + 2
    block[at] = 36  # 1 GiB
    block[-4:] = zlib.crc32(block[:-4]).to_bytes(4, "little")
    return small[:12] + bytes(block) + small[24:]


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0x55 for byte in data[middle : middle + 8]) + data[middle + 8 :]


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_in_one_line_soon_and_in_little_memory(tmp_path: Path, case: str) -> None:
    make, reason = CASES[case]
    path = tmp_path / f"{case}.tar.gz"
    path.write_bytes(make())
    ended = run(path)
    assert (ended.status, ended.out) == (3, ""), ended.err
    assert ended.err.count("\n") == 1
    assert ended.err.startswith("hostdoctor: ")
    assert reason in ended.err
    assert "internal error" not in ended.err
    assert ended.mib < MAX_MIB
    assert ended.seconds < MAX_CPU_S
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_what_is_not_hostile_passes_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "good.tar.gz"
    path.write_bytes(packed(file("sys/devices/system/node/node0/cpulist", b"0-3\n")))
    ended = run(path)
    assert (ended.status, ended.err) == (0, "")
    assert "NUMA node 0" in ended.out


def test_a_sparse_plain_tar_of_ten_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hole.tar"
    path.write_bytes(ROOT + raw_header(b"var/x", 10 << 30))
    with path.open("r+b") as stream:
        stream.truncate(11 << 30)
    ended = run(path)
    assert (ended.status, ended.err.count("\n")) == (3, 1)
    assert ended.mib < MAX_MIB


def test_standard_tools_agree_on_what_is_good(tmp_path: Path) -> None:
    """The blocks that these tests make by hand are tars to Python's reader too."""
    with tarfile.open(fileobj=io.BytesIO(packed(file("sys/a/b", b"1")))) as archive:
        assert archive.getnames() == ["sys/devices/system/node/online", "proc/cpuinfo", "sys/a/b"]
