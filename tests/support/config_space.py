"""PCI configuration space for tests: what root reads of a function."""

import struct

PCIE_AT, AER_AT, ACS_AT = 0x40, 0x100, 0x148


def config_space(
    *, max_payload_bytes: int | None = 256, acs_control: int | None = None, head: bytes | None = None
) -> bytes:
    """Return 4,096 bytes with a PCI Express capability, and with Access Control Services where bits are given."""
    data = bytearray(4096)
    data[:64] = (head or struct.pack("<HHHH", 0x8086, 0x352A, 0x0406, 0x0010)).ljust(64, b"\0")[:64]
    if max_payload_bytes is not None:
        data[0x34] = PCIE_AT
        code = (max_payload_bytes // 128).bit_length() - 1
        data[PCIE_AT : PCIE_AT + 10] = struct.pack("<BBHIH", 0x10, 0, 2, 0, 0x2810 | code << 5)
    following = 0 if acs_control is None else ACS_AT
    data[AER_AT : AER_AT + 4] = struct.pack("<I", 0x0001 | 2 << 16 | following << 20)
    if acs_control is not None:
        data[ACS_AT : ACS_AT + 8] = struct.pack("<IHH", 0x000D | 1 << 16, 0x1F, acs_control)
    return bytes(data)
