"""Differences between two readings of counters: of disks, and of an engine's caches."""

import pytest

from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import Sample
from hostdoctor.measure.documents import CacheHits, DiskMeans
from hostdoctor.measure.watch import cache_hits, disk_means, watch_disks
from hostdoctor.sources.web import read_url


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


def test_an_engine_without_these_counters() -> None:
    assert cache_hits({"python_info": 1.0}, {"python_info": 1.0}) == ()


def test_an_engine_that_does_not_answer() -> None:
    with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:1/metrics: .*refused"):
        read_url("http://127.0.0.1:1/metrics", 5)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:8000", "ftp://x/"])
def test_only_http_is_asked(url: str) -> None:
    with pytest.raises(UsageError, match="not an http address"):
        read_url(url, 5)
