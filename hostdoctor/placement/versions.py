"""Versions of engines, ordered as Python packages order them (PEP 440): ``0.20.0rc1`` comes before ``0.20.0``."""

import re

from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact

_MAX_LENGTH = 100
_NUMBERS = r"v?(\d{1,6}(?:\.\d{1,6}){0,5})"
_PHASE = r"(?:[-_.]?(a|b|c|rc|alpha|beta|pre)[-_.]?\d{0,6})?(?:[-_.]?(?:post|rev|r)\d{0,6})?"
_REST = r"(?:[-_.]?(dev)\d{0,9})?(?:\+[a-z0-9._-]*)?"
_UNTAGGED = ((0,), (0, 0), (0, 1))  # what a build from a checkout without tags is called, whatever it is


class Version(Fact, frozen=True, kw_only=True):
    """A version as it is printed, its numbers, and whether it comes before the release of these numbers."""

    text: str
    release: tuple[int, ...]
    early: bool = False

    def reaches(self, minimum: tuple[int, ...]) -> bool:
        """Tell whether this version is the release ``minimum`` or a later one."""
        width = max(len(self.release), len(minimum))
        own = self.release + (0,) * (width - len(self.release))
        asked = minimum + (0,) * (width - len(minimum))
        return own > asked or (own == asked and not self.early)


def parse_version(text: str) -> Version | None:
    """Return the version that a text such as ``v0.23.0rc1`` or ``0.20.1.dev3+g12ab`` names.

    None where it names none, and for the names that builds without tags get (``0.1.dev1+g12ab``, ``dev``).
    """
    stripped = text.strip()
    if len(stripped) > _MAX_LENGTH:
        return None
    match = re.fullmatch(_NUMBERS + _PHASE + _REST, stripped.lower(), re.ASCII)
    if match is None:
        return None
    release = tuple(int(part) for part in match[1].split("."))
    if match[3] and release in _UNTAGGED:
        return None
    return Version(text=stripped, release=release, early=bool(match[2] or match[3]))


def asked_version(text: str) -> Version:
    """Return the version that a caller named; raise UsageError where the text is none."""
    version = parse_version(text)
    if version is None:
        raise UsageError(f"{text!r} is not a version: write it as 0.23.0")
    return version
