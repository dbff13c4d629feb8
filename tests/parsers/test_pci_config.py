"""Configuration space: payload size and ACS, from whatever bytes there are."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.pci_config import PciConfig, parse_pci_config
from tests.support.config_space import config_space

UNKNOWN = PciConfig()


@pytest.mark.parametrize("size", [128, 256, 512, 1024, 2048, 4096])
def test_the_payload_size_is_read(size: int) -> None:
    assert parse_pci_config(config_space(max_payload_bytes=size)).max_payload_bytes == size


@pytest.mark.parametrize(
    ("bits", "redirects"),
    [(0x00, False), (0x01, False), (0x04, True), (0x08, True), (0x1D, True), (0x10, False), (None, False)],
)
def test_redirection_is_either_of_two_bits(bits: int | None, redirects: bool) -> None:
    assert parse_pci_config(config_space(acs_control=bits)).acs_redirects is redirects


def test_what_root_alone_sees_is_unknown_without_root() -> None:
    whole = config_space(max_payload_bytes=512, acs_control=0x1D)
    assert parse_pci_config(whole[:64]) == UNKNOWN
    assert parse_pci_config(whole[:256]) == PciConfig(max_payload_bytes=512)


@pytest.mark.parametrize("data", [b"", b"\0" * 64, b"\0" * 4096, b"\xff" * 4096, b"\xff" * 64, b"\x86\x80"])
def test_nothing_there(data: bytes) -> None:
    found = parse_pci_config(data)
    assert (found.max_payload_bytes, found.acs_redirects) in ((None, None), (None, False))
    if data.startswith(b"\xff"):
        assert found == UNKNOWN


def test_a_reserved_size_is_unknown() -> None:
    data = bytearray(config_space(max_payload_bytes=128))
    data[0x40 + 8 : 0x40 + 10] = struct.pack("<H", 7 << 5)
    assert parse_pci_config(bytes(data)).max_payload_bytes is None


def test_lists_that_run_in_a_circle_end() -> None:
    data = bytearray(config_space(max_payload_bytes=None))
    data[0x34], data[0x40], data[0x41] = 0x40, 0x05, 0x40
    data[0x100:0x104] = struct.pack("<I", 0x0001 | 1 << 16 | 0x100 << 20)
    assert parse_pci_config(bytes(data)) == PciConfig(acs_redirects=False)


@given(st.binary(max_size=4096))
def test_any_bytes_give_a_record(data: bytes) -> None:
    assert parse_pci_config(data).max_payload_bytes in (None, 128, 256, 512, 1024, 2048, 4096)
