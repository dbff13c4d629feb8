"""The files that ``report`` is given: measured documents, a plan, reports to compare."""

import contextlib
from codecs import BOM_UTF8
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hostdoctor.cli.common import open_evidence, survey_host, timeout_of
from hostdoctor.diagnosis import Ask, Report
from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import SCHEMA_VERSION, Fact, Host

if TYPE_CHECKING:
    from hostdoctor.budget.plan import Plan
    from hostdoctor.diagnosis.api import Rule
    from hostdoctor.outputs.page.model import Measurement


BOM = "\ufeff"  # what some editors and shells put before a text


def _read(path: Path) -> bytes:
    """Return the JSON in a file, or in standard input for ``-``.

    Raises UsageError for what is not there, SourceError for what cannot be read or is of another schema version.
    """
    import msgspec

    from hostdoctor.sources.texts import read_text_file

    data = read_text_file("-" if str(path) == "-" else path).removeprefix(BOM).encode("utf-8", "replace")
    with contextlib.suppress(msgspec.DecodeError, RecursionError):  # who reads it tells what it is not
        version = msgspec.json.decode(data, type=_Versioned).schema_version
        if version not in (None, SCHEMA_VERSION):
            raise SourceError(f"{path}: of schema version {str(version)[:20]}, this hostdoctor reads {SCHEMA_VERSION}")
    return data


class _Versioned(Fact, frozen=True, kw_only=True):
    schema_version: str | int | None = None


class MeasuredFile(NamedTuple):
    """A measured document: what it is shown as, where it was made, and its text where it tells of links too."""

    name: str
    shown: "list[Measurement]"
    hostname: str | None
    links_text: str | None


def measured_file(path: Path) -> MeasuredFile:
    """Return a measured document; raise UsageError or SourceError where it is none."""
    from hostdoctor.outputs.page.documents import Copies, read_document
    from hostdoctor.outputs.page.measured import hostname_of, measurements

    if path.is_dir():
        raise SourceError(f"{path}: a folder: name the document in it (that of compare is its comparison.json)")
    data = _read(path)
    document = read_document(data, str(path))
    text = data.decode("utf-8", "replace") if isinstance(document, Copies) else None
    return MeasuredFile(str(path), measurements(document, path.name), hostname_of(document), text)


def with_measured(host: Host, files: "list[MeasuredFile]") -> Host:
    """Return the host with what the documents tell of its links; raise UsageError for those of another host."""
    here = host.system.hostname
    for file in files:
        if file.hostname and here and file.hostname != here:
            raise UsageError(f"--measured {file.name}: taken on another host ({file.hostname[:60]})")
    texts = [(file.name, file.links_text) for file in files if file.links_text is not None]
    if not texts:
        return host
    import msgspec

    from hostdoctor.survey.measured import read_measured

    return msgspec.structs.replace(host, measured=read_measured(host, texts))


def plan_in(path: Path) -> "Plan":
    """Return the plan in a file; raise UsageError or SourceError where it holds none."""
    import msgspec

    from hostdoctor.budget.plan import Plan, Unsupported

    data = _read(path)
    try:
        return msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            told = msgspec.json.decode(data, type=Unsupported).unsupported
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise SourceError(f"{path}: not what hostdoctor plan --format json writes: {str(error)[:200]}") from None
        raise SourceError(f"{path}: a plan without figures: {told[:200]}") from None


def report_of(name: str, rules: "tuple[Rule, ...]") -> Report:
    """Return the report in a JSON file, or that of the host which a JSON file, capture or folder holds."""
    from hostdoctor.diagnosis.runner import diagnose

    path = Path(name)
    if path.is_file():
        told = _json_of(path)
        if isinstance(told, Report):
            return told
        if told is not None:
            return diagnose(told, Ask(), rules)
    source = open_evidence([name], demo=False, timeout_s=timeout_of(None, quick=True))
    return diagnose(survey_host(source), Ask(), rules)


def _json_of(path: Path) -> Report | Host | None:
    """Return the report or host that a JSON file holds, None for a file that is something else."""
    import msgspec

    with path.open("rb") as stream:
        if stream.read(64).removeprefix(BOM_UTF8).lstrip()[:1] != b"{":
            return None
    data = _read(path)
    try:
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if "results" in keys:
            return msgspec.json.decode(data, type=Report)
        return msgspec.json.decode(data, type=Host) if "numa_nodes" in keys else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{path}: not what check or topo --format json writes: {str(error)[:200]}") from None
