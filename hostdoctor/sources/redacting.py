"""Taking the identifiers out of a capture: the same one becomes the same other one everywhere, so that joins hold."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hostdoctor.parsers.pci_config import without_serial
from hostdoctor.sources.base import NvmlOutput
from hostdoctor.sources.cpu import CPU_PATH
from hostdoctor.sources.identifiers import SERIAL_KEY, is_telling
from hostdoctor.sources.manifest import CapturedOutput
from hostdoctor.sources.pseudonyms import Pseudonyms
from hostdoctor.sources.snapshot import Snapshot

# Names that would hit words of the map; a host that is called so keeps its name in them.
_WORDS = (
    "localhost localdomain local internal lan domain home none linux docker podman containerd kubepods kubernetes "
    "crio lxc libpod overlay container nvidia root admin user users ubuntu debian data swap hypervisor server "
    "default true false error driver library timeout command found file directory permission denied "
)
_HARDWARE_FILES = frozenset(("/proc/cpuinfo", "/proc/interrupts", CPU_PATH))
_MODEL_FILES = frozenset(("sys_vendor", "product_name", "board_vendor", "board_name", "model"))
_HARDWARE_KINDS = frozenset(("topo-matrix", "numactl", "lspci", "lspci-tree", "lscpu", "nvme-list"))


def redacted(snapshot: Snapshot) -> Snapshot:
    """Return a capture in which host and user names, serials, UUIDs, addresses and their like are others.

    A replacement is as long as what it replaces (names and addresses apart) and sorts as it did. Host and user names
    that are words of the map (``node1``, ``nvidia``) are replaced only where nothing else can be meant. A file
    that is no text, PCI configuration space apart, is left out.
    """
    known = Pseudonyms(_vocabulary(snapshot))
    for path, text in _texts(snapshot):
        known.learn(path, text)
    known.learn_all((*snapshot.files, *snapshot.folders, *snapshot.links, *snapshot.links.values()))
    known.learn_all((*snapshot.binaries, *snapshot.manifest.errors, *snapshot.manifest.spaces))
    known.settle()
    files, links, folders, errors = snapshot.files, snapshot.links, snapshot.folders, snapshot.manifest.errors
    texts = (known.replace(path, text) for path, text in files.items())
    binaries = {path: without_serial(data) for path, data in snapshot.binaries.items() if path.endswith("/config")}
    spaces = snapshot.manifest.spaces
    reasons = ((kind, known.replace("", reason)) for kind, reason in errors.values())
    manifest = msgspec.structs.replace(
        snapshot.manifest,
        errors=dict(zip(known.replace_all(errors), reasons, strict=True)),
        spaces=dict(zip(known.replace_all(spaces), spaces.values(), strict=True)),
        redacted=known.counts(),
    )
    return Snapshot(
        files=dict(zip(known.replace_all(files), texts, strict=True)),
        binaries=dict(zip(known.replace_all(binaries), binaries.values(), strict=True)),
        links=dict(zip(known.replace_all(links), known.replace_all(links.values()), strict=True)),
        folders=frozenset(known.replace_all(folders)),
        outputs=tuple(_redacted_output(output, known) for output in snapshot.outputs),
        nvml=msgspec.convert(_redacted_json(msgspec.to_builtins(snapshot.nvml), known), NvmlOutput),
        manifest=manifest,
    )


def _vocabulary(snapshot: Snapshot) -> frozenset[str]:
    """Return the words that the map is made of, in lower case: of paths and of what describes hardware."""
    hardware = {output.file for output in snapshot.outputs if output.kind in _HARDWARE_KINDS} | _HARDWARE_FILES
    texts = [*snapshot.files, *snapshot.links, *snapshot.links.values()]
    texts += [text for path, text in snapshot.files.items() if path in hardware or _names_a_model(path)]
    texts += [text for key, text in _json_keys(msgspec.to_builtins(snapshot.nvml)) if key == "name"]
    words = set("\n".join(texts).lower().replace("/", " ").split())
    return frozenset(words.union(_WORDS.split(), *(re.findall("[0-9a-z]+", word) for word in words)))


def _names_a_model(path: str) -> bool:
    return path.rpartition("/")[2] in _MODEL_FILES


def _texts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield every text of a capture but paths, with the path that tells what it is."""
    yield from dict.fromkeys((path if is_telling(path) else "", text) for path, text in snapshot.files.items())
    for output in snapshot.outputs:
        yield "", output.source
        yield "", output.reason or ""
    for _, reason in snapshot.manifest.errors.values():
        yield "", reason
    for key, text in _json_keys(msgspec.to_builtins(snapshot.nvml)):
        yield _place(key), text


def _json_keys(document: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of a document with the name that it stands under."""
    if isinstance(document, str):
        yield key, document
    for name, value in document.items() if isinstance(document, dict) else ():
        yield from _json_keys(value, name)
    for value in document if isinstance(document, list) else ():
        yield from _json_keys(value, key)


def _redacted_json(document: Any, known: Pseudonyms, key: str = "") -> Any:
    if isinstance(document, str):
        return known.replace(_place(key), document)
    if isinstance(document, dict):
        return {name: _redacted_json(value, known, name) for name, value in document.items()}
    return [_redacted_json(value, known, key) for value in document] if isinstance(document, list) else document


def _place(key: str) -> str:
    """Return a path that tells as much as the name of a JSON value does."""
    return "/serial" if SERIAL_KEY.search(key) else ""


def _redacted_output(output: CapturedOutput, known: Pseudonyms) -> CapturedOutput:
    reason = None if output.reason is None else known.replace("", output.reason)
    return msgspec.structs.replace(output, source=known.replace("", output.source), reason=reason)
