"""Taking the identifiers out of a capture: the same one becomes the same other one everywhere, so that joins hold."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from hostdoctor.sources.base import NvmlOutput
from hostdoctor.sources.identifiers import (
    SERIAL_KEY,
    TOKEN,
    Family,
    disguise,
    homes,
    is_telling,
    key_of,
    patterned,
    placed,
)
from hostdoctor.sources.manifest import CapturedOutput
from hostdoctor.sources.snapshot import Snapshot

Span = tuple[int, int, Family]  # where an identifier begins and ends, and of which family it is
# What is counted under which name in the manifest.
COUNTED: dict[Family, str] = {
    "host": "host names",
    "user": "user names",
    "server": "server names",
    "serial": "serial numbers",
    "hex": "UUIDs, MAC addresses and WWNs",
    "nqn": "NQNs",
    "ip4": "IP addresses",
    "ip6": "IP addresses",
}
LITERAL: tuple[Family, ...] = ("host", "user", "server", "serial")
MIN_NAME, MIN_SERIAL, MIN_UNBOUND_SERIAL = 3, 6, 8
# Names that would hit words of the map; a host that is called so keeps its name in them.
_WORDS = frozenset(
    (
        "localhost",
        "localdomain",
        "local",
        "internal",
        "lan",
        "domain",
        "home",
        "none",
        "linux",
        "docker",
        "podman",
        "containerd",
        "kubepods",
        "kubernetes",
        "crio",
        "lxc",
        "libpod",
        "overlay",
        "container",
        "nvidia",
        "root",
        "admin",
        "user",
        "users",
        "ubuntu",
        "debian",
        "data",
        "swap",
        "hypervisor",
        "server",
        "default",
        "true",
        "false",
        "error",
        "driver",
        "library",
        "timeout",
        "command",
        "found",
        "file",
        "directory",
        "permission",
        "denied",
    )
)
_HARDWARE_FILES = frozenset(("/proc/cpuinfo", "/proc/interrupts"))
_HARDWARE_KINDS = frozenset(("topo-matrix", "numactl", "lspci", "lspci-tree", "lscpu", "nvme-list"))
# A replaced identifier, until all are: nothing that looks for others matches it.
_MARK, _END = "\ue000", "\ue001"
_MARKED = re.compile(f"{_MARK}([0-9]+){_END}")


def redacted(snapshot: Snapshot) -> Snapshot:
    """Return a capture in which host and user names, serials, UUIDs, addresses and their like are others.

    A replacement is as long as what it replaces (names and addresses apart) and sorts as it did. Host and user names
    that are words of the map (``node1``, ``nvidia``) are replaced only where nothing else can be meant.
    """
    known = _Known(_vocabulary(snapshot))
    for path, text in _texts(snapshot):
        known.learn(path, text)
    known.learn_all((*snapshot.files, *snapshot.folders, *snapshot.links, *snapshot.links.values()))
    known.learn_all(snapshot.manifest.errors)
    known.settle()
    files, links, folders, errors = snapshot.files, snapshot.links, snapshot.folders, snapshot.manifest.errors
    texts = (known.replace(path, text) for path, text in files.items())
    reasons = ((kind, known.replace("", reason)) for kind, reason in errors.values())
    manifest = msgspec.structs.replace(
        snapshot.manifest, errors=dict(zip(known.replace_all(errors), reasons, strict=True)), redacted=known.counts()
    )
    return Snapshot(
        files=dict(zip(known.replace_all(files), texts, strict=True)),
        links=dict(zip(known.replace_all(links), known.replace_all(links.values()), strict=True)),
        folders=frozenset(known.replace_all(folders)),
        outputs=tuple(_redacted_output(output, known) for output in snapshot.outputs),
        nvml=msgspec.convert(_redacted_json(msgspec.to_builtins(snapshot.nvml), known), NvmlOutput),
        manifest=manifest,
    )


class _Known:
    """The identifiers of one capture and what takes their place."""

    def __init__(self, vocabulary: frozenset[str]) -> None:
        self._vocabulary = vocabulary
        self._keys: dict[Family, set[str]] = {family: set() for family in COUNTED}
        self._numbers: dict[tuple[Family, str], int] = {}
        self._literals: dict[str, tuple[Family, re.Pattern[str]]] = {}
        self._marks: dict[tuple[Family, str], str] = {}
        self._replacements: list[str] = []
        self._tokens: dict[str, str] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def learn(self, path: str, text: str) -> None:
        """Note the identifiers in a text."""
        self._learn(path, text, _apart(placed(path, text)))

    def learn_all(self, texts: Iterable[str]) -> None:
        """Note the identifiers in many paths."""
        text = "\n".join(texts)
        self._learn("", text, _apart(homes(text)))

    def _learn(self, path: str, text: str, spans: list[Span]) -> None:
        for start, end, family in spans:
            self._keys[family].add(key_of(family, text[start:end]))
        for token in set(TOKEN.findall(text)):
            for start, end, family in patterned(path, token):
                self._keys[family].add(key_of(family, token[start:end]))

    def settle(self) -> None:
        """Give each identifier its number, in order, so that what takes its place sorts alike; then replace."""
        for family, keys in self._keys.items():
            self._numbers |= {(family, key): number for number, key in enumerate(sorted(keys), start=1)}
        names = [(key, family) for family in LITERAL for key in self._keys[family]]
        for key, family in sorted(names, key=lambda pair: (-len(pair[0]), pair)):
            pattern = self._literal(family, key)
            if pattern is not None:
                self._literals[key] = (family, pattern)

    def counts(self) -> dict[str, int]:
        """Return how many of each were found."""
        found = dict.fromkeys(COUNTED.values(), 0)
        for family, keys in self._keys.items():
            found[COUNTED[family]] += len(keys)
        return found

    def replace(self, path: str, text: str) -> str:
        """Return a file's text (``path`` is "" for any other text) with every identifier replaced."""
        place = path if is_telling(path) else ""
        done = self._texts.get((place, text))
        if done is None:
            clean = _clean(text)
            done = self._texts[place, text] = self._replaced(place, clean, _apart(placed(place, clean)))
        return done

    def replace_all(self, texts: Iterable[str]) -> list[str]:
        """Return many paths with every identifier replaced."""
        given = list(texts)
        text = _clean("\n".join(given))
        if text.count("\n") + 1 != len(given):  # a line end in a name, or none given
            return [self.replace("", path) for path in given]
        return self._replaced("", text, _apart(homes(text))).split("\n")

    def _replaced(self, path: str, clean: str, spans: list[Span]) -> str:
        """Return a text in which marks took the identifiers' place, and then what they stand for the marks'."""
        marked = self._marked(clean, spans)
        marked = TOKEN.sub(lambda match: self._token(path, match.group()), marked)
        for literal, (family, pattern) in self._literals.items():
            if literal in marked:
                marked = pattern.sub(self._mark(family, literal), marked)
        return _MARKED.sub(lambda match: self._replacements[int(match.group(1))], marked)

    def _token(self, path: str, token: str) -> str:
        if token in self._literals or path:
            return token if token in self._literals else self._marked(token, patterned(path, token))
        done = self._tokens.get(token)
        if done is None:
            done = self._tokens[token] = self._marked(token, patterned("", token))
        return done

    def _marked(self, text: str, spans: Iterable[Span]) -> str:
        parts = []
        at = 0
        for start, end, family in spans:
            parts += [text[at:start], self._mark(family, text[start:end])]
            at = end
        return "".join((*parts, text[at:])) if parts else text

    def _mark(self, family: Family, found: str) -> str:
        """Return the mark of an identifier; one that was not noted (a part of another) counts as one more."""
        mark = self._marks.get((family, found))
        if mark is None:
            number = self._numbers.setdefault((family, key_of(family, found)), len(self._numbers) + 1)
            mark = self._marks[family, found] = f"{_MARK}{len(self._replacements)}{_END}"
            self._replacements.append(disguise(family, found, number))
        return mark

    def _literal(self, family: Family, key: str) -> re.Pattern[str] | None:
        """Return what finds a name or serial number elsewhere, None where it could be anything."""
        escaped = re.escape(key)
        bound = re.compile(rf"(?<![0-9A-Za-z]){escaped}(?![0-9A-Za-z])")
        if key.isdigit() and len(key) < MIN_UNBOUND_SERIAL:
            return None
        if family != "serial":
            return None if len(key) < MIN_NAME or key.lower() in self._vocabulary else bound
        if len(key) < MIN_SERIAL or not re.search("[0-9]", key):
            return None
        return bound if key.isdigit() or len(key) < MIN_UNBOUND_SERIAL else re.compile(escaped)


def _clean(text: str) -> str:
    return text.replace(_MARK, "?").replace(_END, "?")


def _apart(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, without those that begin inside another."""
    kept: list[Span] = []
    for span in sorted(spans):
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


def _vocabulary(snapshot: Snapshot) -> frozenset[str]:
    """Return the words that the map is made of, in lower case: of paths and of what describes hardware."""
    hardware = {output.file for output in snapshot.outputs if output.kind in _HARDWARE_KINDS} | _HARDWARE_FILES
    texts = [*snapshot.files, *snapshot.links, *snapshot.links.values()]
    texts += [snapshot.files[path] for path in hardware if path in snapshot.files]
    words = set("\n".join(texts).lower().replace("/", " ").split())
    return frozenset(words.union(_WORDS, *(re.findall("[0-9a-z]+", word) for word in words)))


def _texts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield every text of a capture but paths, with the path that tells what it is."""
    yield from dict.fromkeys((path if is_telling(path) else "", text) for path, text in snapshot.files.items())
    for output in snapshot.outputs:
        yield "", output.source
        yield "", output.reason or ""
    for _, reason in snapshot.manifest.errors.values():
        yield "", reason
    yield from _json_texts(msgspec.to_builtins(snapshot.nvml))


def _json_texts(document: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(document, str):
        yield _place(key), document
    for name, value in document.items() if isinstance(document, dict) else ():
        yield from _json_texts(value, name)
    for value in document if isinstance(document, list) else ():
        yield from _json_texts(value, key)


def _redacted_json(document: Any, known: _Known, key: str = "") -> Any:
    if isinstance(document, str):
        return known.replace(_place(key), document)
    if isinstance(document, dict):
        return {name: _redacted_json(value, known, name) for name, value in document.items()}
    return [_redacted_json(value, known, key) for value in document] if isinstance(document, list) else document


def _place(key: str) -> str:
    """Return a path that tells as much as the name of a JSON value does."""
    return "/serial" if SERIAL_KEY.search(key) else ""


def _redacted_output(output: CapturedOutput, known: _Known) -> CapturedOutput:
    reason = None if output.reason is None else known.replace("", output.reason)
    return msgspec.structs.replace(output, source=known.replace("", output.source), reason=reason)
