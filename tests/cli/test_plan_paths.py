"""``check --model-path`` and ``--kv-path``: stated paths become facts and verdicts; nonsense is usage."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Ran, hostdoctor

Root = Callable[[str], str]


def results(ran: Ran) -> dict[str, Any]:
    return {result["id"]: result for result in json.loads(ran.out)["results"]}


def test_the_drives_below_a_raid_are_judged(root_of: Root) -> None:
    ran = hostdoctor(
        "check", "--from", root_of("dgx-h100"), "--format", "json", "--model-path", "/raid/m", "--kv-path", "/srv/kv"
    )
    assert ran.status == 1
    places = {place["path"]: place for place in json.loads(ran.out)["host"]["places"]}
    assert places["/raid/m"]["disks"] == [f"nvme{i}n1" for i in range(2, 10)]
    assert places["/srv/kv"]["disks"] == ["nvme0n1", "nvme1n1"]
    found = results(ran)
    assert [f["subject"] for f in found["HD402"]["findings"]] == ["GPU4, GPU5, GPU6, GPU7"]
    assert "--kv-path /srv/kv shares its drive" in found["HD406"]["findings"][0]["message"]
    assert "root file system" in found["HD406"]["findings"][0]["message"]
    assert found["HD410"]["skip_kind"] == "live-only"


def test_without_a_plan_the_checks_say_so(root_of: Root) -> None:
    found = results(hostdoctor("check", "--from", root_of("dgx-h100"), "--format", "json"))
    planned = ("HD310", "HD402", "HD406", "HD410")
    assert [found[name]["skip_kind"] for name in planned] == ["no-plan"] * len(planned)


def test_the_live_host_tells_the_room_below_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kv").mkdir()
    (tmp_path / "link").symlink_to("kv")
    monkeypatch.chdir(tmp_path)
    ran = hostdoctor("check", "--format", "json", "--select", "HD410", "--kv-path", "link")
    (place,) = json.loads(ran.out)["host"]["places"]
    assert place["path"] == str(tmp_path / "link")
    assert place["mount_point"]
    assert 0 <= place["available_bytes"] <= place["free_bytes"] <= place["size_bytes"]
    assert results(ran)["HD410"]["status"] in ("pass", "fail")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model-path", "/nowhere/llama"), "--model-path: no such file or directory: '/nowhere/llama'"),
        (("--kv-path", "/nowhere"), "--kv-path: no such file or directory"),
        (("--demo", "--kv-path", "kv"), "--kv-path: not an absolute path of that host: 'kv'"),
        (("--demo", "--model-path", "meta-llama/Llama-3.1-8B"), "--model-path: not an absolute path"),
    ],
)
def test_a_path_that_cannot_be_meant_is_one_line_and_usage(arguments: tuple[str, ...], says: str) -> None:
    ran = hostdoctor("check", *arguments)
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)
    assert says in ran.err


def test_the_map_as_json_has_every_fact(root_of: Root) -> None:
    host = json.loads(hostdoctor("topo", "--from", root_of("l40s-4"), "--format", "json").out)
    assert host["cpu_power"]["governors"] == {"powersave": 128}
    assert host["settings"]["rlimit.memlock.soft"] == "unlimited"
