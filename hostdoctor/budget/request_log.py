"""A log of requests, read as a stream: token percentiles, rates by hour, minute and second, time in system.

JSON Lines (an object a line) or CSV with a header line. Columns, each under any of its names, in any order:

- ``input_tokens``, ``prompt_tokens``, ``input_len``
- ``output_tokens``, ``completion_tokens``, ``output_len``
- ``timestamp``, ``time``, ``arrival``, ``start_time``: seconds (or milli-, micro-, nanoseconds) since 1970, or ISO 8601
  to the second (without an offset: UTC); when the request came in. A day or a minute alone is no time.
- ``time_in_system_s``, ``latency_s``, ``duration_s``, or ``latency_ms``, ``duration_ms``: until its last token

Memory is bounded whatever the log holds: counts by value, and by second for the first 100 days that occur in it.
"""

import csv
import math
import re
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import Fact

MAX_TOKENS = 1 << 22  # no context is longer; more is a malformed line
MAX_LINE_BYTES = 1 << 16
MAX_MINUTES = 144_000
# As seconds the first would be the year 5138, as milliseconds the second, and so on.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
_DAY, _CLOCK = r"(\d{4})-?(\d\d)-?(\d\d)", r"(\d\d):?(\d\d)"
_ISO = re.compile(
    rf"{_DAY}(?:[T ]{_CLOCK}(?::?(\d\d)(?:[.,](\d{{1,12}}))?)?)? ?(?:Z|UTC|([+-])(\d\d):?(\d\d)?)?", re.IGNORECASE
)
MINUTES = 60
_MAX_TIME_S = 1e7
_COLUMNS = {
    "input": ("input_tokens", "prompt_tokens", "input_len"),
    "output": ("output_tokens", "completion_tokens", "output_len"),
    "at": ("timestamp", "time", "arrival", "start_time"),
    "seconds": ("time_in_system_s", "latency_s", "duration_s"),
    "milliseconds": ("latency_ms", "duration_ms"),
}
_Row = dict[str, Any]


class Tokens(Fact, frozen=True, kw_only=True):
    """Tokens a request: mean, 95th and 99th percentile; None where not told."""

    mean: float | None = None
    p95: float | None = None
    p99: float | None = None


class RequestLog(Fact, frozen=True, kw_only=True):
    """What a log shows. ``malformed`` lines were left out, ``untimed`` ones had no usable time.

    Rates are requests a second: in a normal hour (the median one since the first request, of those that have any), in
    the busiest minute, and in the busiest second.
    """

    requests: int
    malformed: int = 0
    untimed: int = 0
    input_tokens: Tokens = Tokens()
    output_tokens: Tokens = Tokens()
    rps: float | None = None
    peak_rps: float | None = None
    burst_rps: float | None = None
    time_in_system_s: float | None = None


class _Sizes:
    """How often each number of tokens occurs: exact, in bounded memory."""

    def __init__(self) -> None:
        self.counts = array("I", [0])
        self.total = self.number = 0

    def add(self, tokens: int) -> None:
        if tokens >= len(self.counts):
            room = min(MAX_TOKENS + 1, max(2 * len(self.counts), tokens + 1))
            self.counts.extend(array("I", bytes(4 * (room - len(self.counts)))))
        self.counts[tokens] += 1
        self.total += tokens
        self.number += 1

    def tokens(self) -> Tokens:
        if not self.number:
            return Tokens()
        return Tokens(mean=self.total / self.number, p95=self._percentile(0.95), p99=self._percentile(0.99))

    def _percentile(self, share: float) -> float:
        """Return the smallest value that at least this share of requests does not exceed."""
        wanted, seen = math.ceil(share * self.number), 0
        for tokens, occurs in enumerate(self.counts):
            seen += occurs
            if seen >= wanted:
                return float(tokens)
        return float(MAX_TOKENS)


class _Rates:
    """Requests by second, in minutes of 60 counters."""

    def __init__(self) -> None:
        self.minutes: dict[int, array[int]] = {}
        self.untimed = 0

    def add(self, at: float | None) -> None:
        if at is None:
            self.untimed += 1
            return
        minute, second = divmod(int(at), 60)
        counters = self.minutes.get(minute)
        if counters is None:
            if len(self.minutes) >= MAX_MINUTES:
                self.untimed += 1
                return
            counters = self.minutes[minute] = array("I", bytes(240))
        counters[second] += 1

    def normal_hour(self) -> float | None:
        """Return the median hour's rate; the last hour of a stretch, which may be short, counts by its length.

        Hours begin with the first request, and again after an hour without any, so that a clock that once was wrong
        does not weigh more than its minute.
        """
        rates = sorted(rate for stretch in self._stretches() for rate in self._hours(stretch))
        whole, seen = sum(seconds for _, seconds in rates), 0
        for rate, seconds in rates:
            seen += seconds
            if 2 * seen >= whole:
                return rate
        return None

    def _stretches(self) -> Iterator[list[int]]:
        """Yield minutes with requests, parted where an hour or more has none."""
        found = list[int]()
        for minute in sorted(self.minutes):
            if found and minute - found[-1] > MINUTES:
                yield found
                found = []
            found.append(minute)
        if found:
            yield found

    def _hours(self, stretch: list[int]) -> Iterator[tuple[float, int]]:
        """Yield the rate and the seconds of each hour with requests."""
        first = self._first_second(stretch[0])
        is_short = stretch[-1] - stretch[0] < MINUTES
        end = self._last_second(stretch[-1]) + 1 if is_short else (stretch[-1] + 1) * 60
        hours: dict[int, int] = {}
        for minute in stretch:
            number = (minute - stretch[0]) // MINUTES
            hours[number] = hours.get(number, 0) + sum(self.minutes[minute])
        for number, requests in hours.items():
            began = max(first, (stretch[0] + number * MINUTES) * 60)
            seconds = min(end, (stretch[0] + (number + 1) * MINUTES) * 60) - began
            yield requests / seconds, seconds

    def busiest_minute(self) -> float | None:
        """Return the rate of the busiest minute; of a log shorter than one, its own."""
        if not self.minutes:
            return None
        first, last = min(self.minutes), max(self.minutes)
        covered = self._last_second(last) - self._first_second(first) + 1
        return max(map(sum, self.minutes.values())) / 60 if covered >= 60 else self._over(covered)

    def _over(self, seconds: int) -> float:
        return sum(map(sum, self.minutes.values())) / seconds

    def busiest_second(self) -> float | None:
        return float(max(map(max, self.minutes.values()))) if self.minutes else None

    def _first_second(self, minute: int) -> int:
        return minute * 60 + next(i for i, occurs in enumerate(self.minutes[minute]) if occurs)

    def _last_second(self, minute: int) -> int:
        return minute * 60 + max(i for i, occurs in enumerate(self.minutes[minute]) if occurs)


def read_request_log(path: Path) -> RequestLog:
    """Return what the log at ``path`` shows.

    Raises UsageError for what does not exist, SourceError for what cannot be read or has not one good line.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"--log: not a regular file: {str(path)[:200]!r}")
        with path.open("rb") as stream:
            return _summary(_rows(stream, path), path)
    except (FileNotFoundError, ValueError):
        raise UsageError(f"--log: no such file: {str(path)[:200]!r}") from None
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error


def _summary(rows: Iterator[_Row | None], path: Path) -> RequestLog:
    sizes = {"input": _Sizes(), "output": _Sizes()}
    rates, good, bad, waited, waits = _Rates(), 0, 0, 0.0, 0
    for row in rows:
        values = None if row is None else _values(row)
        if values is None:
            bad += 1
            continue
        good += 1
        tokens_in, tokens_out, at, seconds = values
        sizes["input"].add(tokens_in)
        if tokens_out is not None:
            sizes["output"].add(tokens_out)
        rates.add(at)
        if seconds is not None:
            waited, waits = waited + seconds, waits + 1
    if not good:
        told = f"none of {bad} lines is" if bad else "empty: not"
        raise SourceError(f"{path}: {told} a request with input_tokens (JSON Lines, or CSV with a header)")
    return RequestLog(
        requests=good,
        malformed=bad,
        untimed=rates.untimed,
        input_tokens=sizes["input"].tokens(),
        output_tokens=sizes["output"].tokens(),
        rps=rates.normal_hour(),
        peak_rps=rates.busiest_minute(),
        burst_rps=rates.busiest_second(),
        time_in_system_s=waited / waits if waited else None,
    )


def _rows(stream: BinaryIO, path: Path) -> Iterator[_Row | None]:
    """Yield each line as columns, None for one that is malformed; blank lines are passed over."""
    read: Callable[[bytes], _Row | None] | None = None
    for number, whole in enumerate(_lines(stream)):
        line = whole.removeprefix(b"\xef\xbb\xbf") if whole is not None and not number else whole
        if line is None:
            yield None
        elif read is not None:
            if line.strip():
                yield read(line)
        elif line.strip():
            _refuse_compressed(line, path)
            read = _reader(line)
            if read is None:
                yield None
            elif read is _from_json:
                yield read(line)


def _refuse_compressed(line: bytes, path: Path) -> None:
    if line.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"PK\x03\x04")):
        raise SourceError(f"{path}: compressed: unpack it first")


def _reader(line: bytes) -> Callable[[bytes], _Row | None] | None:
    """Return how to read what follows a JSON object or a CSV header, None for any other line."""
    if line.lstrip().startswith(b"{"):
        return _from_json
    names = [name.strip().lower() for name in _cells(line) or []]
    return _from_csv(names) if set(_COLUMNS["input"]) & set(names) else None


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield lines; None for one that is too long, which is not kept."""
    while line := stream.readline(MAX_LINE_BYTES):
        if line.endswith(b"\n") or len(line) < MAX_LINE_BYTES:
            yield line
            continue
        while (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
            pass
        yield None


_decoder = msgspec.json.Decoder(dict[str, Any])


def _from_json(line: bytes) -> _Row | None:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _from_csv(names: list[str]) -> Callable[[bytes], _Row | None]:
    def read(line: bytes) -> _Row | None:
        cells = _cells(line)
        return dict(zip(names, cells, strict=True)) if cells is not None and len(cells) == len(names) else None

    return read


def _cells(line: bytes) -> list[str] | None:
    try:
        return next(csv.reader([line.decode().rstrip("\r\n")]), None)
    except (UnicodeDecodeError, csv.Error):
        return None


def _values(row: _Row) -> tuple[int, int | None, float | None, float | None] | None:
    """Return input and output tokens, when it came (seconds) and how long it took; None for a malformed row."""
    try:
        tokens_in = _tokens(_first(row, "input"))
        if tokens_in is None:
            return None
        tokens_out = _tokens(_first(row, "output"))
        at = _when(_first(row, "at"))
        seconds = _number(_first(row, "seconds"))
        thousandths = _number(_first(row, "milliseconds")) if seconds is None else None
    except (ValueError, OverflowError):
        return None
    if thousandths is not None:
        seconds = thousandths / 1000
    if seconds is not None and not 0 <= seconds <= _MAX_TIME_S:
        return None
    return tokens_in, tokens_out, at, seconds


def _first(row: _Row, column: str) -> Any:
    for name in _COLUMNS[column]:
        value = row.get(name)
        if value is not None and value != "":
            return value
    return None


def _tokens(value: Any) -> int | None:
    number = _number(value)
    if number is None:
        return None
    if not number.is_integer() or not 0 <= number <= MAX_TOKENS:
        raise ValueError("no number of tokens")
    return int(number)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, str))
        or (isinstance(value, str) and len(value) > 40)
    ):
        raise ValueError("no number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("no number")
    return number


def _when(value: Any) -> float | None:
    """Return seconds since 1970."""
    if value is None:
        return None
    try:
        number = _number(value)
    except ValueError:
        return _date(value)
    if number is None or number < 0:
        raise ValueError("no time")
    return number / next((unit for least, unit in _UNITS if number >= least), 1.0)


def _date(value: Any) -> float | None:
    """Return seconds since 1970, None for a day or a minute alone: thousands of requests would seem one burst."""
    match = _ISO.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= 40 else None
    if match is None:
        raise ValueError("no time")
    *day, second, fraction, sign, hours, minutes = match.groups()
    if second is None:
        return None
    year, month, of_month, hour, minute = map(int, day)
    leap_aside = min(int(second), 59)
    found = datetime(year, month, of_month, hour, minute, leap_aside, tzinfo=timezone.utc)
    ahead = (int(hours or 0) * 60 + int(minutes or 0)) * 60
    return found.timestamp() - (-ahead if sign == "-" else ahead) + float(f"0.{fraction or 0}")
