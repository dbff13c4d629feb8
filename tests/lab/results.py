"""What the guest left: hostdoctor's answers in each scenario, and what the kernel showed meanwhile."""

import json
from pathlib import Path
from typing import Any

import msgspec

FLEETING = ("free_bytes", "memory", "memory_groups")  # what changes from one run to the next


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a command in the guest ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Return the JSON that it printed."""
        document: dict[str, Any] = json.loads(self.out)
        return document


class Guest:
    """The folder that the guest filled; scenarios and runs are named in inside.py."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, scenario: str, name: str) -> Ran:
        """Return how a run ended."""
        return msgspec.json.decode((self.folder / scenario / f"{name}.json").read_bytes(), type=Ran)

    def kernel(self, scenario: str) -> dict[str, Any]:
        """Return what the kernel showed, by a reader that shares no code with hostdoctor."""
        document: dict[str, Any] = json.loads((self.folder / scenario / "kernel.json").read_text(encoding="utf-8"))
        return document

    def host(self, scenario: str) -> dict[str, Any]:
        """Return the host that ``check`` saw."""
        host: dict[str, Any] = self.run(scenario, "check").document["host"]
        return host

    def result(self, scenario: str, id: str) -> dict[str, Any]:
        """Return one check's result."""
        return next(result for result in self.run(scenario, "check").document["results"] if result["id"] == id)

    def fired(self, scenario: str, id: str) -> list[dict[str, Any]]:
        """Return a check's findings."""
        result = self.result(scenario, id)
        assert result["status"] in ("pass", "fail"), result
        findings: list[dict[str, Any]] = result["findings"]
        return findings


def by(records: list[dict[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    """Index records by a field."""
    return {record[key]: record for record in records}


def lasting(value: Any) -> Any:
    """Return a document without what changes from one run to the next."""
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in FLEETING}
    return [lasting(item) for item in value] if isinstance(value, list) else value
