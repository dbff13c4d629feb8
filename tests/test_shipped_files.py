"""What ships beside the code is what the code would make now: the schemas and the demo host."""

import json
import tarfile
from io import BytesIO
from pathlib import Path

import jsonschema
import pytest

from hostdoctor.measure.documents import document_schema
from hostdoctor.outputs.report_json import json_schema
from hostdoctor.sources.archive import read_archive
from tests.cli.support import hostdoctor
from tests.support import write_demo, write_schemas
from tests.support.hostbuilder import build_files, load_host, pack
from tests.support.serving_results import options, write_results


@pytest.mark.parametrize("name", write_schemas.DOCUMENTS)
def test_schemas_are_current(name: str) -> None:
    shipped = (write_schemas.FOLDER / name).read_text(encoding="utf-8")
    assert shipped == json_schema(write_schemas.DOCUMENTS[name]), "run `make schemas`"


@pytest.mark.parametrize("name", write_schemas.RESULTS)
def test_schemas_of_results_are_current(name: str) -> None:
    shipped = (write_schemas.FOLDER / name).read_text(encoding="utf-8")
    assert shipped == document_schema(write_schemas.RESULTS[name]), "run `make schemas`"


def test_the_demo_is_current() -> None:
    assert members(write_demo.PATH.read_bytes()) == members(pack(build_files(load_host("demo")))), "run `make demo`"
    assert read_archive(write_demo.PATH).read("/proc/sys/kernel/hostname") == "demo\n"


def test_documents_obey_their_schema() -> None:
    for command, name in (("topo", "host.schema.json"), ("check", "report.schema.json")):
        schema = json.loads((write_schemas.FOLDER / name).read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        document = json.loads(hostdoctor(command, "--demo", "--format", "json").out)
        jsonschema.validate(document, schema)
        del document["schema_version" if command == "topo" else "status"]
        document["gpus" if command == "topo" else "results"] = 3
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema)


def test_comparisons_obey_their_schema(tmp_path: Path) -> None:
    schema = json.loads((write_schemas.FOLDER / "comparison.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    arms = {arm: write_results(tmp_path, arm, runs=2, requests=20) for arm in ("near", "far")}
    document = json.loads(hostdoctor("compare", *options(**arms), "--format", "json").out)
    jsonschema.validate(document, schema)
    document["metrics"]["itl"]["p99"]["verdict"] = "perhaps"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def members(data: bytes) -> dict[str, bytes | str]:
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        found: dict[str, bytes | str] = {}
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            found[member.name] = stream.read() if stream else member.linkname
    return found
