"""Options among the words of a command line, as getopt and argparse read them."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hostdoctor.facts import Fact

_MAX_DIGITS = 6


class Options(Fact, frozen=True, kw_only=True):
    """Options in their order: name (dashes for underscores) and the words that may be its values."""

    found: tuple[tuple[str, tuple[str, ...]], ...]

    def has(self, *names: str) -> bool:
        """Tell whether one of the options is there."""
        return any(name in names for name, _ in self.found)

    def words(self, *names: str) -> tuple[str, ...] | None:
        """Return the value words of the last of these options; None where there is none."""
        return next((words for name, words in reversed(self.found) if name in names), None)

    def value(self, *names: str) -> str | None:
        """Return the first value word of the last of these options, ``""`` where it has none; None without it."""
        words = self.words(*names)
        return None if words is None else (words[0] if words else "")

    def starting(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the options that begin with a prefix."""
        return tuple(name for name, _ in self.found if name.startswith(prefix))


def basename(word: str) -> str:
    """Return the last part of a path."""
    return PurePosixPath(word).name


def read_options(words: Sequence[str]) -> Options:
    """Return the options among words, up to a bare ``--``; ``--a_b=1``, ``--a-b 1`` and ``-tp 2`` are all read."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for name, values in _grouped(words):
        key, equals, value = name.partition("=")
        found.append((_dashed(key), (value,) if equals else tuple(values)))
    return Options(found=tuple(found))


def _grouped(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    name: str | None = None
    values: list[str] = []
    for word in words:
        if word == "--":
            break
        if not _is_option(word):
            values.append(word)
            continue
        if name is not None:
            yield name, values
        name, values = word, []
    if name is not None:
        yield name, values


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def _dashed(name: str) -> str:
    """Spell a long option's name with dashes; what follows a dot is a key of its value."""
    if not name.startswith("--"):
        return name
    head, dot, rest = name.partition(".")
    return head.replace("_", "-") + dot + rest


def whole(text: str | None) -> int | None:
    """Return a number from 0 to 999,999; None for anything else."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        return None
    return int(text)


def decimal(text: str | None) -> float | None:
    """Return a number such as ``10`` or ``0.5``; None for anything else."""
    if text is None or len(text) > 2 * _MAX_DIGITS:
        return None
    left, _, right = text.partition(".")
    digits = left + right
    return float(text) if digits.isascii() and digits.isdigit() else None


def skip_options(
    words: Sequence[str], at: int, with_value: str, *, ends: str = ""
) -> tuple[int, list[tuple[str, str]]]:
    """Read getopt options from ``words[at]`` on; return where the operands begin, and the options with their values.

    ``with_value`` names the options that take one, blank-separated: ``-u --unset``. Long ones may be shortened where
    the rest is clear. ``ends`` names those of them after which everything is an operand.
    """
    taking, ending = with_value.split(), ends.split()
    read: list[tuple[str, str]] = []
    while not (read and read[-1][0] in ending) and at < len(words) and len(words[at]) > 1 and words[at].startswith("-"):
        word = words[at]
        at += 1
        if word == "--":
            break
        name, value, wants_next = _long(word, taking) if word.startswith("--") else _short(word, taking)
        if wants_next and at < len(words):
            value = words[at]
            at += 1
        read += [(flag, "") for flag in name[:-1]] + [(name[-1], value)]
    return at, read


def _long(word: str, taking: list[str]) -> tuple[list[str], str, bool]:
    name, equals, value = word.partition("=")
    meant = [name] if name in taking else [full for full in taking if full.startswith(name)]
    name = meant[0] if len(meant) == 1 else name
    return [name], value, not equals and name in taking


def _short(word: str, taking: list[str]) -> tuple[list[str], str, bool]:
    """Read a cluster such as ``-iu NAME`` or ``-n10``: its options, the last one's value, whether that follows."""
    names: list[str] = []
    for position, letter in enumerate(word[1:], start=2):
        names.append(f"-{letter}")
        if names[-1] in taking:
            return names, word[position:], position == len(word)
    return names, "", False
