"""The map needs neither root nor tools."""

from typing import Any

import pytest

from tests.lab.results import Guest, lasting

pytestmark = pytest.mark.lab
ROOT_ONLY = ("HD206", "HD208", "HD309", "HD405", "HD901")


def test_an_unprivileged_user_gets_the_same_report(guest: Guest) -> None:
    nobody = guest.run("nobody", "check")
    if "No module named" in nobody.err:
        pytest.skip("this checkout or its Python may not be read by everybody")
    assert nobody.err == ""
    ours, root_s = (lasting(without_root_s(guest.run(name, "check").document)) for name in ("nobody", "plain"))
    assert ours == root_s


def without_root_s(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without what it says that only root sees: configuration space, SMART, limits of its own."""
    host = dict(report["host"])
    host["pci_devices"] = [
        {k: v for k, v in device.items() if k not in ("max_payload_bytes", "acs_redirects")}
        for device in host["pci_devices"]
    ]
    host["nvme"] = [{k: v for k, v in drive.items() if k != "health"} for drive in host["nvme"]]
    host["gaps"] = [gap for gap in host["gaps"] if gap["kind"] != "denied" and "smart" not in gap["fact"]]
    host["settings"] = {k: v for k, v in host["settings"].items() if not k.startswith("rlimit")}
    results = [r for r in report["results"] if r["skip_kind"] != "needs-root" and r["id"] not in ROOT_ONLY]
    return report | {"host": host, "results": results}


def test_without_tools_the_map_still_stands(guest: Guest) -> None:
    host, bare = guest.host("plain"), guest.host("no-tools")
    for key in ("numa_nodes", "nvme", "paths", "cores", "block_devices", "system", "disagreements"):
        assert without_health(lasting(bare[key])) == without_health(lasting(host[key])), key
    unnamed = ("name",)  # only lspci knows names
    for key in ("gpus", "pci_devices"):
        for ours, theirs in zip(bare[key], host[key], strict=True):
            assert {k: v for k, v in ours.items() if k not in unnamed} == {
                k: v for k, v in theirs.items() if k not in unnamed
            }
    (finding,) = guest.fired("no-tools", "HD901")
    assert finding["severity"] == "info"
    assert {"numactl --hardware", "lspci -D -nn -v", "lscpu"} <= set(finding["subject"].split(", "))


def without_health(value: Any) -> Any:
    """Return devices without their SMART logs, which nvme-cli reads."""
    if not isinstance(value, list):
        return value
    return [{k: v for k, v in d.items() if k != "health"} if isinstance(d, dict) else d for d in value]
