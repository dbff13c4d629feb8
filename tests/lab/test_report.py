"""The report made in the guest: its map is the guest's, and it says what cannot be bound or known there."""

import pytest

from tests.lab.results import Guest
from tests.outputs.pages import Dom
from tests.outputs.test_page import assert_inert

pytestmark = pytest.mark.lab


def test_the_page_of_a_running_host(guest: Guest) -> None:
    made = guest.run("plain", "report")
    assert made.status == 0, made.err
    assert_inert(made.out)
    drawn = [element.text for element in Dom(made.out).all("text")]
    assert {"NUMA node 0 · package 0", "NUMA node 1 · package 1", "Memory without CPUs"} <= set(drawn)
    assert "root complex 0000:a0" in drawn
    assert "hostdoctor capture -o host.tar.gz" in made.out


def test_its_drives_are_those_that_the_kernel_shows(guest: Guest) -> None:
    dom = Dom(guest.run("plain", "report").out)
    drives = {drive["name"] for drive in guest.host("plain")["nvme"]}
    assert len(drives) == 3
    assert drives <= {element.text for element in dom.all("th")}
