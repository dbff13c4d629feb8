"""The map needs neither root nor tools."""

import pytest

from tests.lab.results import Guest, lasting

pytestmark = pytest.mark.lab


def test_an_unprivileged_user_gets_the_same_report(guest: Guest) -> None:
    nobody = guest.run("nobody", "check")
    if "No module named" in nobody.err:
        pytest.skip("this checkout or its Python may not be read by everybody")
    assert nobody.err == ""
    assert lasting(nobody.document) == lasting(guest.run("plain", "check").document)


def test_without_tools_the_map_still_stands(guest: Guest) -> None:
    host, bare = guest.host("plain"), guest.host("no-tools")
    for key in ("numa_nodes", "nvme", "paths", "cores", "block_devices", "system", "disagreements"):
        assert lasting(bare[key]) == lasting(host[key]), key
    unnamed = ("name",)  # only lspci knows names
    for key in ("gpus", "pci_devices"):
        for ours, theirs in zip(bare[key], host[key], strict=True):
            assert {k: v for k, v in ours.items() if k not in unnamed} == {
                k: v for k, v in theirs.items() if k not in unnamed
            }
    (finding,) = guest.fired("no-tools", "HD901")
    assert finding["severity"] == "info"
    assert {"numactl --hardware", "lspci -D -nn -v", "lscpu"} <= set(finding["subject"].split(", "))
