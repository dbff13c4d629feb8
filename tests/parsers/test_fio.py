"""fio's JSON: the figures of one job that read, to the digit; anything else is refused."""

import contextlib
import json
import shutil
import subprocess  # noqa: TID251  runs the real fio
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.fio import parse_fio

READ: dict[str, Any] = {
    "bw_bytes": 226492416,
    "iops": 13824.5,
    "runtime": 5001,
    "total_ios": 69137,
    "clat_ns": {
        "min": 40125,
        "max": 9000111,
        "mean": 71543.25,
        "N": 69130,
        "percentile": {"50.000000": 68096, "99.000000": 146432, "99.900000": 1712128},
        "bins": {"68096": 34000},
    },
}


def printed(**changes: Any) -> str:
    job = {"jobname": "a", "error": 0, "read": READ | changes.pop("read", {})} | changes.pop("job", {})
    return json.dumps({"fio version": "fio-3.33", "jobs": changes.pop("jobs", [job])} | changes, indent=2)


def test_figures_are_fios_own() -> None:
    told = parse_fio(printed(), "fio")
    assert (told.p50_ns, told.p99_ns, told.p999_ns) == (68096, 146432, 1712128)
    assert (told.samples, told.iops, told.runtime_ms, told.bytes_per_s) == (69130, 13824.5, 5001, 226492416)
    assert told.version == "fio-3.33"
    assert json.loads(told.raw) == json.loads(printed())


def test_what_is_printed_after_the_json_is_passed_over() -> None:
    told = parse_fio(printed() + "\nfio: file hash not empty on exit\n", "fio")
    assert (told.p99_ns, json.loads(told.raw)) == (146432, json.loads(printed()))


def test_what_is_printed_before_the_json_is_passed_over() -> None:
    assert (
        parse_fio("fio: this platform does not support process shared mutexes {x}\n" + printed(), "fio").p50_ns == 68096
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON of fio"),
        ("fio: engine libaio not loadable\n", "no JSON of fio"),
        ("{", "no JSON of fio"),
        (printed()[:-30], "no JSON of fio"),
        ('{"jobs": 3}', "no JSON of fio"),
        (printed(jobs=[]), "no job"),
        (printed(jobs=[{"read": READ}, {"read": READ}]), "several jobs"),
        (printed(job={"error": 22}), "error 22"),
        (printed(read={"clat_ns": {"N": 0, "percentile": {}}, "total_ios": 0}), "no reads"),
        (printed(read={"clat_ns": {"N": 5, "percentile": {"50.000000": 3}}}), "not the percentiles"),
        ("{" * 100_000, "no JSON of fio"),
    ],
)
def test_what_cannot_be_told_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_fio(text, "fio")


@pytest.mark.parametrize(
    "read",
    [
        {"clat_ns": {"N": -5, "percentile": {"50.000000": 1, "99.000000": 2, "99.900000": 3}}},
        {"clat_ns": {"N": 1 << 60, "percentile": {"50.000000": 1, "99.000000": 2, "99.900000": 3}}},
        {"clat_ns": {"N": 500, "percentile": {"50.000000": -1, "99.000000": 2, "99.900000": 3}}},
        {"clat_ns": {"N": 500, "percentile": {"50.000000": 0, "99.000000": 0, "99.900000": 3}}},
        {"clat_ns": {"N": 500, "percentile": {"50.000000": 3, "99.000000": 2, "99.900000": 9}}},
        {"clat_ns": {"N": 500, "percentile": {"50.000000": 1, "99.000000": 2, "99.900000": 10**30}}},
        {"iops": -1.0},
        {"runtime": -5000},
        {"bw_bytes": -1},
    ],
)
def test_figures_that_cannot_be_are_refused(read: dict[str, Any]) -> None:
    with pytest.raises(ParseError, match="figures that cannot be"):
        parse_fio(printed(read=read), "fio")


def test_fio_2_tells_no_nanoseconds() -> None:
    old = {"fio version": "fio-2.16", "jobs": [{"error": 0, "read": {"clat": {"percentile": {"50.000000": 10}}}}]}
    with pytest.raises(ParseError, match=r"fio 3 or newer is needed: 'fio-2\.16'"):
        parse_fio(json.dumps(old), "fio")


@given(st.text() | st.integers(0, len(printed())).map(lambda end: printed()[:end]))
def test_any_text_gives_figures_or_a_parse_error(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_fio(text, "fio")


def test_a_huge_text_takes_no_time_to_speak_of() -> None:
    began = time.process_time()
    with pytest.raises(ParseError):
        parse_fio("{" + "[" * 20_000_000, "fio")
    assert time.process_time() - began < 5


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not here")
def test_the_real_fio(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"x" * (1 << 20))
    words = ("fio", "--name=a", f"--filename={file}", "--rw=randread", "--bs=4k", "--readonly", "--loops=20")
    ending = ("--percentile_list=50:99:99.9", "--output-format=json+")
    done = subprocess.run((*words, *ending), capture_output=True, text=True, check=True, cwd=tmp_path)
    told = parse_fio(done.stdout, "fio")
    read = json.loads(done.stdout)["jobs"][0]["read"]
    assert told.samples == read["total_ios"] == 5120
    assert told.p99_ns == read["clat_ns"]["percentile"]["99.000000"] > 0
