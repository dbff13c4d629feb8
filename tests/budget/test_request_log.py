"""Request logs: percentiles, rates, and what is malformed; streaming, in bounded memory."""

import json
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.budget.request_log import MAX_LINE_BYTES, MAX_TOKENS, RequestLog, Tokens, read_request_log
from hostdoctor.errors import HostdoctorError, SourceError, UsageError


def log(folder: Path, *lines: object) -> Path:
    path = folder / "requests.log"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return path


def test_percentiles_are_values_that_occur(tmp_path: Path) -> None:
    found = read_request_log(log(tmp_path, *({"input_tokens": n, "output_tokens": 2 * n} for n in range(1, 101))))
    assert found.input_tokens == Tokens(mean=50.5, p95=95, p99=99)
    assert found.output_tokens == Tokens(mean=101, p95=190, p99=198)
    assert (found.requests, found.malformed, found.untimed, found.rps) == (100, 0, 100, None)


def test_rates_of_an_hour_a_minute_and_a_second(tmp_path: Path) -> None:
    steady = [{"input_tokens": 1, "timestamp": 1_700_000_000 - 1_700_000_000 % 3600 + 2 * i} for i in range(3 * 1800)]
    burst = [{"input_tokens": 1, "timestamp": steady[0]["timestamp"] + 700.25} for _ in range(90)]
    found = read_request_log(log(tmp_path, *burst, *steady))
    assert found.rps == 0.5
    assert found.peak_rps == (90 + 30) / 60
    assert found.burst_rps == 91


def test_less_than_an_hour_is_the_rate_over_what_it_covers(tmp_path: Path) -> None:
    found = read_request_log(log(tmp_path, *({"input_tokens": 1, "time": 100 + i / 4} for i in range(80))))
    assert (found.rps, found.burst_rps) == (4, 4)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt_tokens": 7, "completion_tokens": 3, "arrival": "2025-06-03T16:33:56Z", "latency_ms": 1500},
        {"input_len": 7.0, "output_len": "3", "start_time": 1748968436000, "duration_s": 1.5},
        {
            "input_tokens": 7,
            "output_tokens": 3,
            "timestamp": "2025-06-03 18:33:56.000+02:00",
            "time_in_system_s": "1.5",
        },
        {"input_tokens": 7, "prompt_tokens": "", "output_tokens": 3, "time": "2025-06-03T16:33:56", "latency_s": 1.5},
    ],
)
def test_columns_go_by_several_names(tmp_path: Path, row: dict[str, object]) -> None:
    other = row | {"arrival": None, "start_time": None, "timestamp": 1748968435, "time": None}
    found = read_request_log(log(tmp_path, row, other))
    assert (found.input_tokens.mean, found.output_tokens.mean, found.time_in_system_s) == (7, 3, 1.5)
    assert found.rps == 1


def test_csv_has_its_columns_in_any_order(tmp_path: Path) -> None:
    lines = ("\ufeffmodel,Output_Tokens,timestamp,input_tokens\r", '"a, b",3,100,7\r', "", "c,5,101,9\r", "too,few")
    found = read_request_log(log(tmp_path, *lines))
    assert (found.requests, found.malformed) == (2, 1)
    assert (found.input_tokens.mean, found.output_tokens.mean, found.rps) == (8, 4, 1)


BAD = (
    "{", "null", "[1]", "x", '{"output_tokens": 5}', '{"input_tokens": -1}', '{"input_tokens": 1.5}', "\x00\x01",
    '{"input_tokens": true}', '{"input_tokens": "many"}', '{"input_tokens": 1e99}', '{"input_tokens": NaN}',
    f'{{"input_tokens": {MAX_TOKENS + 1}}}', '{"input_tokens": 1, "timestamp": "soon"}',
    '{"input_tokens": 1, "timestamp": -5}', '{"input_tokens": 1, "timestamp": true}',
    '{"input_tokens": 1, "latency_s": -1}', '{"input_tokens": 1, "output_tokens": [2]}', "[" * 5000, "9" * 5000,
    '{"input_tokens": ' + "1" * 5000 + "}", '{"input_tokens": 1' + " " * 3 * MAX_LINE_BYTES + "}",
)  # fmt: skip


def test_malformed_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    found = read_request_log(log(tmp_path, {"input_tokens": 5}, *BAD, {"input_tokens": 7}))
    assert (found.requests, found.malformed, found.input_tokens.mean) == (2, len(BAD), 6)


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_a_log_with_no_good_line_is_said_to_have_none(tmp_path: Path, line: str) -> None:
    with pytest.raises(SourceError, match="input_tokens") as caught:
        read_request_log(log(tmp_path, line, line))
    assert "\n" not in str(caught.value)


def test_what_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="empty"):
        read_request_log(log(tmp_path))
    with pytest.raises(UsageError, match="no such file"):
        read_request_log(tmp_path / "nothing")
    with pytest.raises(UsageError, match="not a regular file"):
        read_request_log(tmp_path)
    (tmp_path / "packed").write_bytes(b"\x1f\x8b\x08\x00rest")
    with pytest.raises(SourceError, match="unpack"):
        read_request_log(tmp_path / "packed")


@given(st.binary(max_size=400))
def test_any_bytes_are_a_log_or_one_line(data: bytes) -> None:
    path = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/tmp")
    file = path / f"hostdoctor-fuzz-{id(data)}"
    file.write_bytes(data)
    try:
        told = str(read_request_log(file).requests)
    except HostdoctorError as error:
        told = str(error)
    finally:
        file.unlink()
    assert "\n" not in told
    assert told != "0"


def test_a_log_is_read_as_a_stream(tmp_path: Path) -> None:
    """60 MB in which every value and every minute is another one, in less memory than half of it."""
    path = tmp_path / "requests.log"
    with path.open("w", encoding="utf-8") as stream:
        for i in range(600_000):
            at = 1_700_000_000 + 61 * i
            stream.write(
                f'{{"input_tokens": {i * 6}, "output_tokens": {i}, "timestamp": {at}, "text": "{"x" * 20}"}}\n'
            )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = read_request_log(path)
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert (found.requests, found.malformed, found.input_tokens.p95) == (600_000, 0, 6.0 * 569_999)
    assert found.untimed == 600_000 - 144_000
    assert grown_mib < 120


def at(tmp_path: Path, *times: object) -> RequestLog:
    return read_request_log(log(tmp_path, *({"input_tokens": 1, "timestamp": time} for time in times)))


def test_hours_begin_with_the_first_request(tmp_path: Path) -> None:
    start = 1_700_000_000 - 1_700_000_000 % 3600 + 3000
    assert at(tmp_path, *range(start, start + 4800)).rps == 1
    assert at(tmp_path, *range(start, start + 2400)).rps == 1


@pytest.mark.parametrize("wrong", [0, 4_000_000_000])
def test_a_clock_that_was_wrong_once_does_not_make_the_normal_hour(tmp_path: Path, wrong: int) -> None:
    assert at(tmp_path, wrong, *range(1_700_000_000, 1_700_000_600)).rps == 1


@pytest.mark.parametrize("unit", [1, 1000, 10**6, 10**9])
def test_times_in_every_unit_since_1970(tmp_path: Path, unit: int) -> None:
    found = at(tmp_path, *((1_700_000_000 + i // 2) * unit for i in range(1200)))
    assert (found.rps, found.peak_rps, found.burst_rps) == (2, 2, 2)


def test_the_busiest_minute_of_a_log_of_seconds_is_its_own_rate(tmp_path: Path) -> None:
    found = at(tmp_path, *(1_700_000_000 + i / 10 for i in range(100)))
    assert (found.rps, found.peak_rps, found.burst_rps) == (10, 10, 10)


def test_a_day_or_a_minute_alone_is_no_time(tmp_path: Path) -> None:
    found = at(tmp_path, "2025-06-03", "2025-06-03 10:05", "2025-06-03T10:05+02:00")
    assert (found.requests, found.untimed, found.malformed) == (3, 3, 0)
    assert (found.rps, found.peak_rps, found.burst_rps) == (None, None, None)


@pytest.mark.parametrize(
    "time",
    [
        "2025-06-03T16:33:55Z", "2025-06-03 16:33:55.123456789Z", "2025-06-03T16:33:55.5+00:00", "20250603T163355Z",
        "2025-06-03T18:33:55+0200", "2025-06-03 09:03:55.6805900 -07:30", "2025-06-03 16:33:55,123",
        "2025-06-03t16:33:55z",
        "2025-06-03 16:33:55 UTC", "2025-06-03T18:33:55+02",
    ],
)  # fmt: skip
def test_iso_dates_as_logs_write_them(tmp_path: Path, time: str) -> None:
    assert at(tmp_path, 1748968434, time).rps == 1


@pytest.mark.parametrize(
    "time", ["2025-13-03T16:33:55Z", "2025-06-03T25:33:55Z", "03/06/2025 16:33:55", "T", "2025-06-03T"]
)
def test_dates_that_are_none(tmp_path: Path, time: str) -> None:
    assert at(tmp_path, 1748968434, time).malformed == 1
