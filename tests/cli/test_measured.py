"""``check --measured``: links that ``measure copy`` saw busy are evidence for HD203."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import hostdoctor

Root = Callable[[str], str]

HOST, GPU, PORT = "l40s-4", "0000:27:00.0", "0000:26:01.0"  # PCIe 4.0 in P8, at 2.5 GT/s while idle


def copies(folder: Path, speed_gts: str, hostname: str | None = None, gpu: str = GPU) -> str:
    """Write a document of ``measure copy`` in which the GPU's link ran at one rate; return its name."""
    links = [{"bdf": bdf, "readings": 50, "speeds_gts": {speed_gts: 50}} for bdf in (PORT, GPU)]
    document = {
        "kind": "measure-copy",
        "circumstances": {"at": "2026-11-30T01:00:00+00:00", "hostname": hostname},
        "gpu": {"bdf": gpu},
        "links": links,
    }
    (folder / "copies.json").write_text(json.dumps(document), encoding="utf-8")
    return str(folder / "copies.json")


def judged(root: str, *files: str) -> dict[str, Any]:
    words = [word for file in files for word in ("--measured", file)]
    ran = hostdoctor("check", "--format", "json", "--select", "HD203", "--from", root, *words)
    assert ran.err == ""
    (result,) = json.loads(ran.out)["results"]
    assert isinstance(result, dict)
    return result


def test_idle_links_are_judged_once_something_was_copied(root_of: Root, tmp_path: Path) -> None:
    root = root_of(HOST)
    assert judged(root)["reason"].startswith("GPU0-GPU3: not in P0")
    slow = judged(root, copies(tmp_path, "8"))
    assert [finding["subject"] for finding in slow["findings"]] == ["GPU0"]
    assert "runs Gen3 while copying, both ends can do Gen4" in slow["findings"][0]["message"]
    assert slow["findings"][0]["evidence"][0]["source"].startswith(f"{tmp_path}/copies.json (2026-11-30T01:00:00")
    fine = judged(root, copies(tmp_path, "16"))
    assert fine["findings"] == []
    assert fine["reason"].startswith("GPU1-GPU3: not in P0")


def test_what_was_measured_is_part_of_the_report(root_of: Root, tmp_path: Path) -> None:
    words = ("check", "--format", "json", "--from", root_of(HOST), "--measured", copies(tmp_path, "16"))
    (link,) = json.loads(hostdoctor(*words).out)["host"]["measured"]["links"]
    assert (link["gpu_bdf"], [reading["speeds_gts"] for reading in link["links"]]) == (GPU, [{"16": 50}] * 2)


@pytest.mark.parametrize(
    ("what", "status", "reason"),
    [
        ("nowhere", 64, "no such file"),
        ("prose", 3, "not a document of hostdoctor measure copy"),
        ("other host", 64, "taken on another host (somewhere-else)"),
        ("other gpu", 64, "a GPU that this host does not have (0000:99:00.0)"),
    ],
)
def test_files_that_are_not_of_this_host_are_refused(
    root_of: Root, tmp_path: Path, what: str, status: int, reason: str
) -> None:
    (tmp_path / "prose").write_text("hello", encoding="utf-8")
    names = {
        "nowhere": lambda: str(tmp_path / "nowhere"),
        "prose": lambda: str(tmp_path / "prose"),
        "other host": lambda: copies(tmp_path, "16", hostname="somewhere-else"),
        "other gpu": lambda: copies(tmp_path, "16", gpu="0000:99:00.0"),
    }
    ran = hostdoctor("check", "--from", root_of(HOST), "--measured", names[what]())
    assert (ran.status, ran.out) == (status, "")
    assert reason in ran.err
