"""Writes the JSON Schemas that ship with the package: ``make schemas``."""

from pathlib import Path

import msgspec

from hostdoctor.budget.document import BudgetDocument
from hostdoctor.budget.plan import Plan, Unsupported
from hostdoctor.diagnosis.process_places import ProcessReport
from hostdoctor.diagnosis.report import Report
from hostdoctor.facts import Host
from hostdoctor.measure.comparison import Comparison
from hostdoctor.measure.copies_model import CopyDocument
from hostdoctor.measure.documents import MemoryDocument, NvmeDocument, WatchDocument, document_schema
from hostdoctor.measure.matrix.experiment import Experiment as MatrixExperiment
from hostdoctor.measure.matrix.model import MatrixDocument
from hostdoctor.measure.trial_model import Experiment
from hostdoctor.outputs.report_json import json_schema

FOLDER = Path(__file__).parents[2] / "hostdoctor" / "schemas"
DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "host.schema.json": Host,
    "report.schema.json": Report,
    "plan.schema.json": Plan,
    "plan-unsupported.schema.json": Unsupported,
    "processes.schema.json": ProcessReport,
    "budget.schema.json": BudgetDocument,
    "comparison.schema.json": Comparison,
    "experiment.schema.json": Experiment,
    "matrix-experiment.schema.json": MatrixExperiment,
    "matrix.schema.json": MatrixDocument,
}
RESULTS = {
    "measure-copy.schema.json": CopyDocument,
    "measure-memory.schema.json": MemoryDocument,
    "measure-nvme.schema.json": NvmeDocument,
    "watch-nvme.schema.json": WatchDocument,
}


def main() -> None:
    """Write all schemas."""
    for name, result in RESULTS.items():
        (FOLDER / name).write_text(document_schema(result), encoding="utf-8")
    for name, kind in DOCUMENTS.items():
        (FOLDER / name).write_text(json_schema(kind), encoding="utf-8")


if __name__ == "__main__":
    main()
