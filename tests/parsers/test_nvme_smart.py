"""``nvme smart-log`` as the versions of nvme-cli print it, whole and damaged."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.facts import NvmeHealth
from hostdoctor.parsers.nvme_smart import parse_nvme_smart
from tests.support.mangle import MANGLINGS

JSON = """{
  "critical_warning" : 4,
  "temperature" : 318,
  "avail_spare" : 97,
  "spare_thresh" : 10,
  "percent_used" : 3,
  "endurance_grp_critical_warning_summary" : 0,
  "data_units_read" : "340282366920938463463374607431768211455",
  "data_units_written" : "182",
  "power_on_hours" : "9001",
  "media_errors" : "17",
  "num_err_log_entries" : "0",
  "warning_temp_time" : 0,
  "temperature_sensor_1" : 325
}
"""
VERBOSE_JSON = JSON.replace(
    '"critical_warning" : 4',
    '"critical_warning":{"value":4,"available_spare":0,"temp_threshold":0,"reliability_degraded":1}',
)
TEXT = """Smart Log for NVME device:nvme3n1 namespace-id:ffffffff
critical_warning\t\t\t: 0x4
temperature\t\t\t\t: 45 °C (318 K)
available_spare\t\t\t\t: 97%
available_spare_threshold\t\t: 10%
percentage_used\t\t\t\t: 3%
endurance group critical warning summary: 0
Data Units Read\t\t\t\t: 1,234,567 (632.10 GB)
media_errors\t\t\t\t: 17
num_err_log_entries\t\t\t: 0
Temperature Sensor 1           : 52 °C (325 K)
"""
SEEN = NvmeHealth(
    critical_warning=4,
    temperature_celsius=45.0,
    spare_percent=97,
    spare_threshold_percent=10,
    used_percent=3,
    media_errors=17,
)


@pytest.mark.parametrize("text", [JSON, VERBOSE_JSON, TEXT, JSON.replace("\n", "").replace(" ", "")])
def test_every_form_tells_the_same(text: str) -> None:
    assert parse_nvme_smart(text, "x") == SEEN


@pytest.mark.parametrize("mangling", MANGLINGS)
@pytest.mark.parametrize("text", [JSON, TEXT], ids=["json", "text"])
def test_mangled_texts_tell_the_same(text: str, mangling: str) -> None:
    if text is TEXT and mangling in ("on one line", "mail of 72", "mail of 100", "quoted, then mail"):
        pytest.skip("rows of the text form that were joined are not told apart")
    assert parse_nvme_smart(MANGLINGS[mangling](text), "x") == SEEN


@given(st.integers(0, len(JSON)), st.integers(0, len(JSON)), st.sampled_from([JSON, TEXT, VERBOSE_JSON]))
def test_a_piece_of_a_log_tells_nothing_else(start: int, length: int, text: str) -> None:
    try:
        found = parse_nvme_smart(text[start : start + length], "x")
    except ParseError:
        return
    told = {name: value for name in NvmeHealth.__struct_fields__ if (value := getattr(found, name)) is not None}
    assert told == {name: getattr(SEEN, name) for name in told}


@pytest.mark.parametrize(
    ("row", "celsius"),
    [
        ("temperature : 0 °C (0 K)", None),
        ('"temperature" : 0,', None),
        ('"temperature" : 273,', 0.0),
        ("temperature : 38 C", 38.0),
        ("temperature : -5 °C (268 K)", -5.0),
        ("temperature : 113 °F (318 K)", 45.0),
        ("temperature : 113 °F", None),
        ('"temperature" : "45 °C",', 45.0),
        ('"temperature" : 99999,', None),
    ],
)
def test_temperatures(row: str, celsius: float | None) -> None:
    assert parse_nvme_smart(f"critical_warning : 0\n{row}\n", "x").temperature_celsius == celsius


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("5", 5),
        ('"1,234"', 1234),
        ("1.234", None),
        ("5.000000", 5),
        ('"18446744073709551615"', None),
        ("340282366920938463463374607431768211455", None),
        ('"none"', None),
        ("-1", None),
    ],
)
def test_counters(value: str, count: int | None) -> None:
    assert parse_nvme_smart(f'{{"critical_warning":0,"media_errors":{value}}}', "x").media_errors == count


def test_text_counters_may_group_their_digits() -> None:
    assert parse_nvme_smart("critical_warning : 0\nmedia_errors : 1,234\n", "x").media_errors == 1234


@pytest.mark.parametrize("row", ["critical_warning : 300", '"avail_spare" : 101', '"percent_used" : 256'])
def test_values_out_of_range_are_unknown(row: str) -> None:
    assert parse_nvme_smart(f"{row}\nmedia_errors : 0\n", "x") == NvmeHealth(media_errors=0)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "NVMe status: Invalid Command Opcode(0x1)", "Permission denied\n", "critical_warning", '"temp":1'],
)
def test_other_texts_are_refused_with_their_first_line(text: str) -> None:
    with pytest.raises(ParseError) as refused:
        parse_nvme_smart(text, "here")
    assert refused.value.source == "here"
    assert refused.value.text == text.strip()


@given(st.text() | st.lists(st.sampled_from([*JSON.split(), *TEXT.split(), "\n", '"', "{"])).map(" ".join))
def test_nothing_but_a_record_or_a_parse_error(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_nvme_smart(text, "x")


@pytest.mark.parametrize("unit", ["critical_warning : ", "critical_warning\t", "temperature" + " " * 40, "[", '{"a":'])
def test_long_texts_take_no_time(unit: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ParseError):
        parse_nvme_smart(unit * (20_000_000 // len(unit)), "x")
    assert time.process_time() - began < 5
