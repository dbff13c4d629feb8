"""The header of a safetensors file: eight bytes of length (little-endian), then JSON, name -> dtype, shape, offsets."""

from typing import Any

import msgspec

from hostdoctor.errors import ParseError

MAX_HEADER_BYTES = 16 << 20


def parse_safetensors_header(data: bytes, source: str = "safetensors") -> dict[str, Any]:
    """Return the tensors by name, without ``__metadata__``; raise ParseError for anything else."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= length <= MAX_HEADER_BYTES or len(data) < 8 + length:
        raise ParseError(source, 0, "", f"no header of {length} bytes in the first {len(data)}")
    try:
        tensors = msgspec.json.decode(data[8 : 8 + length])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ParseError(source, 0, "", f"header: {error}") from error
    if not isinstance(tensors, dict):
        raise ParseError(source, 0, "", "header: no object")
    return {name: tensor for name, tensor in tensors.items() if name != "__metadata__"}
