"""Hosts and reports as JSON, by the shipped schema."""

import msgspec

from hostdoctor.diagnosis.report import Report
from hostdoctor.facts import Fact, Host


def render_json(record: Host | Report) -> str:
    """Return the record as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


def json_schema(kind: type[Fact]) -> str:
    """Return the JSON Schema of a document, generated from the types."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(kind)), indent=2).decode() + "\n"
