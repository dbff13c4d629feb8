"""The agent as a service of a real systemd. Times are the guest's: of a processor with 10^9 instructions a second."""

from typing import Any

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.long]

SOON_S = 5.0
HELD = "HD904"
# What the service's own sandbox must not make it say of the host: memory policy, quota, limits, /dev/shm, its sources.
OF_A_SANDBOX = {"HD106", "HD113", "HD114", "HD307", "HD308", "HD309", "HD310", "HD902", "HD903"}


def unit(seen: dict[str, Any], step: str) -> dict[str, str]:
    shown: dict[str, str] = seen["units"][step]
    return shown


def entries(seen: dict[str, Any], step: str, *texts: str) -> list[dict[str, str]]:
    """Return the journal's entries that hold these texts, from a step's beginning to the next one's."""
    began = seen["at"][step]
    ended = min((at for at in seen["at"].values() if at > began), default=float("inf"))
    return [
        entry
        for entry in seen["journal"]
        if began <= at(entry) < ended and all(text in entry["MESSAGE"] for text in texts)
    ]


def at(entry: dict[str, str]) -> float:
    return int(entry["__MONOTONIC_TIMESTAMP"]) / 1e6


def event(seen: dict[str, Any], action: str, device: str) -> float:
    return float(
        next(e["at"] for e in seen["events"] if e["what"].startswith(f"{action}@") and e["what"].endswith(device))
    )


def test_it_starts_and_says_so(seen: dict[str, Any]) -> None:
    started = unit(seen, "start")
    assert (started["ActiveState"], started["SubState"]) == ("active", "running")
    assert started["StatusText"] == "the first survey runs"
    assert "; survey took " in unit(seen, "survey")["StatusText"]


def test_it_has_no_rights(seen: dict[str, Any]) -> None:
    assert unit(seen, "start")["User"] == "hostdoctor"
    assert {(entry["_UID"] != "0", entry["_CAP_EFFECTIVE"]) for entry in seen["journal"]} == {(True, "0")}


def test_it_reaches_the_drivers_devices_and_no_others(seen: dict[str, Any]) -> None:
    """Every one may be read by everybody; that of the driver has none behind it here."""
    assert "'/dev/nvidiactl' for reading: No such device or address" in seen["texts"]["devices"]
    assert "'/dev/ttyS0' for reading: Operation not permitted" in seen["texts"]["devices"]
    assert "'/dev/nvme0' for reading: Operation not permitted" in seen["texts"]["devices"]


def test_it_does_not_take_its_sandbox_for_the_host(seen: dict[str, Any]) -> None:
    found = {entry.get("HOSTDOCTOR_CHECK") for entry in entries(seen, "survey")}
    assert "HD501" in found
    assert found & OF_A_SANDBOX == set()


def test_it_publishes_below_its_own_folder(seen: dict[str, Any]) -> None:
    assert "\nhostdoctor_check_status{" in seen["texts"]["metrics"]
    assert seen["texts"]["metrics"].endswith("\n")
    assert seen["texts"]["left"] == []


def test_reload_reads_the_configuration_again(seen: dict[str, Any]) -> None:
    (refused,) = entries(seen, "bad reload", "the former configuration stays")
    assert "did you mean signals?" in refused["MESSAGE"]
    assert refused["HOSTDOCTOR_PROBLEM"] == "config"
    assert "suffers from: config" in unit(seen, "bad reload")["StatusText"]
    assert entries(seen, "reload", "the configuration was read again")
    assert unit(seen, "reload")["MainPID"] == unit(seen, "start")["MainPID"]


def test_a_drive_that_is_pulled_is_told_soon(seen: dict[str, Any]) -> None:
    (told,) = entries(seen, "unplug", "HD904 map-drifted appeared")
    assert "no longer there" in told["MESSAGE"]
    assert told["HOSTDOCTOR_TRANSITION"] == "appeared"
    assert 0 < at(told) - event(seen, "remove", "/0000:22:00.0") < SOON_S


def test_a_drive_that_is_back_is_told_soon(seen: dict[str, Any]) -> None:
    told = entries(seen, "plug", "HD904 map-drifted cleared")
    assert len(told) == 1
    assert 0 < at(told[0]) - event(seen, "add", "/0000:22:00.0") < SOON_S


@pytest.mark.parametrize(("step", "transition"), [("narrow", "appeared"), ("widen", "cleared")])
def test_a_link_that_changes_is_told_soon(seen: dict[str, Any], step: str, transition: str) -> None:
    """Links have no events: they are read every 1.5 s here."""
    (told,) = entries(seen, step, f"HD904 map-drifted {transition}")
    assert "GPU0 x8 (was x16)" in told["MESSAGE"]
    assert 0 < at(told) - seen["at"][step] < SOON_S


def test_one_that_hangs_is_started_again(seen: dict[str, Any]) -> None:
    hung = unit(seen, "watchdog")
    assert (hung["ActiveState"], hung["NRestarts"]) == ("active", "1")
    assert hung["MainPID"] != unit(seen, "start")["MainPID"]


def test_one_that_is_killed_is_started_again(seen: dict[str, Any]) -> None:
    killed = unit(seen, "crash")
    assert (killed["ActiveState"], killed["NRestarts"]) == ("active", "2")
    assert killed["MainPID"] != unit(seen, "watchdog")["MainPID"]


def test_what_was_known_is_not_told_again(seen: dict[str, Any]) -> None:
    assert not [e for step in ("watchdog", "crash") for e in entries(seen, step) if "HOSTDOCTOR_CHECK" in e]
    assert not [e for e in seen["journal"] if "damaged" in e["MESSAGE"]]


def test_it_stops_cleanly(seen: dict[str, Any]) -> None:
    stopped = unit(seen, "stop")
    assert (stopped["ActiveState"], stopped["Result"], stopped["ExecMainStatus"]) == ("inactive", "success", "0")
    assert seen["journal"][-1]["MESSAGE"] == "stopped"


def test_the_preflight_holds_the_engine_back(seen: dict[str, Any]) -> None:
    """This host has GPUs and no driver: that is critical."""
    told = seen["preflight"]
    assert told["status"] != 0
    assert told["unit"].split() == ["Result=exit-code", "ExecMainStatus=1"]
    assert not told["served"]
