"""/proc/zoneinfo: zones, watermarks and reserves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.zoneinfo import ZoneInfo, parse_zoneinfo

NEW = """\
Node 0, zone      DMA
  per-node stats
      nr_inactive_file 700
      nr_active_file 300
  pages free     3840
        boost    0
        min      12
        low      15
        high     18
        promo    21
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 3019, 20043, 20043, 20043)
      nr_free_pages 3840
      nr_zone_inactive_file 0
      nr_zone_active_file 0
      nr_free_cma  0
  pagesets
    cpu: 0
              count:    0
              high:     99999
  vm stats threshold: 24
  node_unreclaimable:  0
  start_pfn:           1
Node 0, zone   Normal
  pages free     50000
        boost    128
        min      140
        low      175
        high     210
        managed  100000
        cma      16384
        protection: (0, 0, 0, 4096, 4096)
      nr_zone_inactive_file 700
      nr_zone_active_file 300
      nr_free_cma  16000
Node 1, zone  Movable
  pages free     0
        min      32
        low      32
        high     32
        managed  0
        protection: (0, 0, 0, 0, 0)
"""
OLD = """\
Node 0, zone   Normal
  pages free     3975
        min      3
        low      3
        high     4
        scanned  0
        spanned  4095
        present  3994
        managed  3973
    nr_free_pages 3975
    nr_inactive_file 20
    nr_active_file 30
        protection: (0, 1863, 7922, 7922)
  pagesets
    cpu: 0
              high:  0
  all_unreclaimable: 1
"""


def test_a_kernel_of_today() -> None:
    assert parse_zoneinfo(NEW) == (
        ZoneInfo(
            node=0, name="DMA", free=3840, min=12, low=15, high=18, managed=3840, reserve=20043, free_cma=0, file=0
        ),
        ZoneInfo(
            node=0,
            name="Normal",
            free=50000,
            min=140,
            low=175,
            high=210,
            managed=100000,
            reserve=4096,
            free_cma=16000,
            file=1000,
        ),
        ZoneInfo(node=1, name="Movable", free=0, min=32, low=32, high=32, managed=0, reserve=0),
    )


def test_a_kernel_that_counted_lists_by_zone() -> None:
    (zone,) = parse_zoneinfo(OLD)
    assert (zone.high, zone.reserve, zone.file, zone.free_cma) == (4, 7922, 50, None)


def test_a_cpus_own_high_mark_is_not_the_zones() -> None:
    assert parse_zoneinfo(NEW)[0].high == 18


@pytest.mark.parametrize("change", [str.strip, lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
def test_mangled_in_passing(change: object) -> None:
    assert callable(change)
    assert parse_zoneinfo(change(NEW)) == parse_zoneinfo(NEW)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no zone"),
        ("MemTotal: 3 kB\n", "before the first zone"),
        (NEW.replace("        high     210\n", ""), "no high"),
        (NEW.replace("        protection: (0, 0, 0, 4096, 4096)\n", ""), "no protection"),
        (NEW.replace("(0, 0, 0, 4096, 4096)", "(0, 0, x)"), "no protection"),
        (NEW.replace("high     210", "high     -1"), "no high"),
        (NEW[: NEW.index("boost    128")], "no min"),
        (OLD + OLD, "given twice"),
    ],
)
def test_what_is_incomplete_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_zoneinfo(text)


@given(
    st.lists(st.sampled_from([*NEW.splitlines(), "Node 9, zone X", "protection: (", "pages free 9" * 99]), max_size=60)
)
def test_any_order_of_lines_gives_zones_or_a_parse_error(lines: list[str]) -> None:
    try:
        zones = parse_zoneinfo("\n".join(lines))
    except ParseError:
        return
    assert zones
    assert all(zone.free >= 0 for zone in zones)
