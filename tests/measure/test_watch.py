"""Differences between two readings of counters: of disks, and of an engine's caches."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable

import pytest

from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import Sample
from hostdoctor.measure.documents import CacheHits, DiskMeans
from hostdoctor.measure.watch import cache_hits, disk_means, watch_disks
from hostdoctor.sources.web import read_url, refuse_bad_url


def sample(seconds: float = 2.0, **rose: int) -> Sample:
    names = ("read_ios", "read_ticks_ms", "write_ios", "write_ticks_ms", "time_in_queue_ms")
    before = {f"block.nvme0n1.{name}": 1000 for name in names}
    return Sample(seconds=seconds, before=before, after={name: 1000 + rose.get(name[14:], 0) for name in before})


def test_the_kernels_formulas() -> None:
    told = disk_means(
        "nvme0n1", sample(read_ios=4000, read_ticks_ms=500, write_ios=50, write_ticks_ms=300, time_in_queue_ms=800)
    )
    assert told == DiskMeans(r_await_ms=0.125, w_await_ms=6.0, queue_depth=0.4)


def test_less_than_a_hundred_milliseconds_tell_nothing() -> None:
    """The kernel counts whole milliseconds: a mean of few of them is rounding."""
    assert disk_means("nvme0n1", sample(read_ios=4000, read_ticks_ms=99, time_in_queue_ms=99)) == DiskMeans()


def test_a_disk_whose_counters_cannot_be_read() -> None:
    (watched,) = watch_disks(["nvme9n1"], sample())
    assert watched.means is None


LOCAL = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
EXTERNAL = ("vllm:external_prefix_cache_queries_total", "vllm:external_prefix_cache_hits_total")


def metrics(names: tuple[str, str], queries: float, hits: float) -> dict[str, float]:
    return dict(zip(names, (queries, hits), strict=True))


def test_hits_are_those_of_the_interval() -> None:
    before = metrics(LOCAL, 1_000_000, 10) | metrics(EXTERNAL, 500, 500)
    after = metrics(LOCAL, 1_000_400, 110) | metrics(EXTERNAL, 700, 600)
    assert cache_hits(before, after) == (
        CacheHits(cache="vLLM prefix cache", queries=400, hits=100, hit_percent=25.0),
        CacheHits(cache="vLLM external prefix cache", queries=200, hits=100, hit_percent=50.0),
    )


@pytest.mark.parametrize(
    "names",
    [
        ("vllm:prefix_cache_queries", "vllm:prefix_cache_hits"),
        ("vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hits_total"),
    ],
)
def test_other_versions_names(names: tuple[str, str]) -> None:
    (cache,) = cache_hits(metrics(names, 0, 0), metrics(names, 10, 9))
    assert (cache.cache, cache.hit_percent) == ("vLLM prefix cache", 90.0)


def test_nothing_looked_up_is_no_percentage() -> None:
    (cache,) = cache_hits(metrics(LOCAL, 5, 4), metrics(LOCAL, 5, 4))
    assert (cache.queries, cache.hit_percent) == (0, None)


def test_an_engine_that_was_restarted_tells_nothing() -> None:
    (cache,) = cache_hits(metrics(LOCAL, 5000, 4000), metrics(LOCAL, 7, 3))
    assert cache == CacheHits(cache="vLLM prefix cache")


def test_more_hits_than_lookups_tell_nothing() -> None:
    assert cache_hits(metrics(LOCAL, 0, 0), metrics(LOCAL, 10, 1000)) == (CacheHits(cache="vLLM prefix cache"),)


def test_counters_beyond_all_numbers_tell_nothing() -> None:
    endless = float("inf")
    for before, after in (((0, 0), (endless, 5)), ((endless, 0), (endless, 0))):
        assert cache_hits(metrics(LOCAL, *before), metrics(LOCAL, *after)) == (CacheHits(cache="vLLM prefix cache"),)


def test_an_engine_without_these_counters() -> None:
    assert cache_hits({"python_info": 1.0}, {"python_info": 1.0}) == ()


def test_an_engine_that_does_not_answer() -> None:
    with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:1/metrics: .*refused"):
        read_url("http://127.0.0.1:1/metrics", 5)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:8000", "ftp://x/"])
def test_only_http_is_asked(url: str) -> None:
    with pytest.raises(UsageError, match="not an http address"):
        read_url(url, 5)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/a b", "http://", "http://[::1", "http://x:99999/", "ftp://x/", "http://x/\x1b", "http://ü/"],
)
def test_what_is_no_address_is_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(UsageError, match="--metrics-url: not an http address"):
        refuse_bad_url("--metrics-url", url)


@pytest.mark.parametrize("url", ["http://me:secret@127.0.0.1:1/", "http://me:secret@[::1", "http://me:secret@x:99999/"])
def test_a_password_is_neither_asked_with_nor_shown(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_bad_url("--metrics-url", url)
    assert "secret" not in str(refused.value)


def slowly(answer: Callable[[bytes], None]) -> None:
    with contextlib.suppress(OSError):
        while True:
            answer(b"X: y\r\n")
            time.sleep(0.05)


ANSWERS: dict[str, tuple[bytes, str]] = {
    "no HTTP": (b"\x00\xff hello\r\n\r\n", "hello"),
    "a body that ends early": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na_total 12",
        "cut off: 90 bytes are missing",
    ),
    "bad chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "IncompleteRead"),
    "an endless header": (b"HTTP/1.0 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", "more than 65536 bytes"),
    "a way to another protocol": (b"HTTP/1.0 302 F\r\nLocation: ftp://127.0.0.1:1/\r\n\r\n", "HTTP status 302"),
    "more than a page": (b"HTTP/1.0 200 OK\r\n\r\n" + b"a_total 12345678\n" * (1 << 20), "more than 16 MiB"),
    "a byte now and then": (b"HTTP/1.0 200 OK\r\n", "no whole answer within 0.5 s"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_engine_that_answers_badly_is_an_error_in_one_line(what: str) -> None:
    sent, reason = ANSWERS[what]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(sent)
                if what == "a byte now and then":
                    slowly(connection.sendall)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(SourceError, match=reason):
            read_url(f"http://127.0.0.1:{server.getsockname()[1]}/metrics", 0.5 if "now and then" in what else 20)
