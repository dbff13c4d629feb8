"""Writes the JSON Schemas that ship with the package: ``make schemas``."""

from pathlib import Path

import msgspec

from hostdoctor.diagnosis.report import Report
from hostdoctor.facts import Host
from hostdoctor.measure.comparison import Comparison
from hostdoctor.outputs.report_json import json_schema

FOLDER = Path(__file__).parents[2] / "hostdoctor" / "schemas"
DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "host.schema.json": Host,
    "report.schema.json": Report,
    "comparison.schema.json": Comparison,
}


def main() -> None:
    """Write the schemas."""
    for name, kind in DOCUMENTS.items():
        (FOLDER / name).write_text(json_schema(kind), encoding="utf-8")


if __name__ == "__main__":
    main()
