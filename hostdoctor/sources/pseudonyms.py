"""One identifier, one other in its place: what was found in a capture's texts, numbered, and replaced everywhere."""

import re
from collections.abc import Iterable

from hostdoctor.sources.identifiers import TOKEN, Family, disguise, homes, is_telling, key_of, patterned, placed

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
# A replaced identifier, until all are: nothing that looks for others matches it.
_MARK, _END = "\ue000", "\ue001"
_MARKED = re.compile(f"{_MARK}([0-9]+){_END}")


class Pseudonyms:
    """The identifiers of one capture and what takes their place."""

    def __init__(self, vocabulary: frozenset[str]) -> None:
        self._vocabulary = vocabulary
        self._keys: dict[Family, set[str]] = {family: set() for family in COUNTED}
        self._numbers: dict[tuple[Family, str], int] = {}
        self._literals: dict[str, tuple[str, Family, str, re.Pattern[str]]] = {}
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
            for spelling in dict.fromkeys((key, key.replace("-", "--"))):  # device-mapper doubles dashes
                if (pattern := self._literal(family, key, spelling)) is not None:
                    self._literals[spelling] = (spelling.lower(), family, key, pattern)

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
        lower = marked.lower()
        for literal, family, key, pattern in self._literals.values():
            if literal in lower:
                marked = pattern.sub(self._mark(family, key), marked)
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

    def _literal(self, family: Family, key: str, spelling: str) -> re.Pattern[str] | None:
        """Return what finds a name or serial number elsewhere, None where it could be anything."""
        escaped = re.escape(spelling)
        case = re.IGNORECASE if family in ("host", "server") else 0
        bound = re.compile(rf"(?<![0-9A-Za-z]){escaped}(?![0-9A-Za-z])", case)
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
