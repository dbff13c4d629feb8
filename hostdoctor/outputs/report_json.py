"""Documents as JSON, by the shipped schemas."""

import msgspec


def render_json(record: msgspec.Struct) -> str:
    """Return the record as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


def json_schema(kind: type[msgspec.Struct]) -> str:
    """Return the JSON Schema of a document, generated from the types."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(kind)), indent=2).decode() + "\n"
