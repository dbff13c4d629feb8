"""One quoting per language of a launch wrapper, so that every word arrives as it was given, and comments stay comments.

Rules: POSIX.1-2017 XCU 2.2; systemd.syntax(7), systemd.service(5) and systemd.exec(5); YAML 1.1 and 1.2 double-quoted
scalars; Compose's and Kubernetes' own ``$`` on top of YAML. A word that a language cannot hold raises PlacementError.
"""

import re
from collections.abc import Sequence

from hostdoctor.errors import PlacementError


class Quoted(str):
    """Text that one of these functions made: the only kind that a template may print."""

    __slots__ = ()


_SH_PLAIN = re.compile(r"[A-Za-z0-9@%+:,./_-][A-Za-z0-9@%+:,./_=-]*\Z")
_SH_RESERVED = re.compile(r"(case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while)\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SYSTEMD_PREFIXES = "-@:+!|"
_SYSTEMD_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "%": "%%"}
_YAML_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def sh_word(word: str) -> Quoted:
    """Return a word of a POSIX shell command; undecodable bytes (surrogate escapes) stay what they are.

    The command's name itself is :func:`sh_line`'s.
    """
    _encoded(word, "a shell")
    return Quoted(word) if _SH_PLAIN.match(word) else _sh_quoted(word)


def sh_line(words: Sequence[str]) -> Quoted:
    """Return a whole command: its first word is quoted too where it would be an assignment or a keyword."""
    name = sh_word(words[0])
    command = _sh_quoted(name) if name == words[0] and ("=" in name or _SH_RESERVED.match(name)) else name
    return Quoted(" ".join((command, *map(sh_word, words[1:]))))


def _sh_quoted(word: str) -> Quoted:
    return Quoted("'" + word.replace("'", "'\\''") + "'")


def systemd_word(word: str) -> Quoted:
    """Return an argument of ``ExecStart=``: no specifier, variable, separator or escape in it means anything."""
    return Quoted('"' + _systemd_text(word).replace("$", "$$") + '"')


def systemd_executable(word: str) -> Quoted:
    """Return the first word of ``ExecStart=``. Raises PlacementError for the names that systemd itself refuses."""
    if word.startswith(tuple(_SYSTEMD_PREFIXES)):
        raise PlacementError(f"{word!r}: systemd reads the first character as a prefix: give the command's full path")
    if not word.startswith("/") and "/" in word:
        raise PlacementError(f"{word!r}: systemd takes no relative path: give the command's full path")
    if not word.isprintable() or any(character in "\"'\\$" for character in word):
        raise PlacementError(f"{word!r}: systemd takes no such character in the name of a command")
    return Quoted('"' + _systemd_text(word) + '"')


def systemd_assignment(name: str, value: str) -> Quoted:
    """Return one assignment of ``Environment=``; in it ``$`` has no meaning."""
    if any((character < " " and character not in "\t\n") or character == "\x7f" for character in value):
        raise PlacementError(f"{name}={value!r}: systemd drops variables with control characters")
    _decoded(value, "a systemd variable")
    return Quoted('"' + variable_name(name) + "=" + _systemd_text(value) + '"')


def yaml_text(text: str) -> Quoted:
    """Return a double-quoted scalar that YAML 1.1 and 1.2 read alike, as a string."""
    _decoded(text, "YAML")
    return Quoted('"' + "".join(map(_yaml_character, text)) + '"')


def dollar_text(text: str) -> Quoted:
    """Return a scalar for a field where ``$$`` stands for ``$``: Compose's interpolation, Kubernetes' ``$(NAME)``."""
    return yaml_text(text.replace("$", "$$"))


def docker_word(word: str) -> Quoted:
    """Return a shell word that docker passes on unchanged: its API is JSON, so undecodable bytes raise."""
    _decoded(word, "docker")
    return sh_word(word)


def comment(text: str) -> Quoted:
    """Return a text that stays on its line in any language's comment: what cannot be seen is spelt as an escape."""
    return Quoted("".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text))


def variable_name(name: str) -> Quoted:
    """Return a variable's name. Raises PlacementError for one that a shell cannot export."""
    if not _NAME.match(name):
        raise PlacementError(f"{name!r}: not the name of an environment variable")
    return Quoted(name)


def _encoded(word: str, holder: str) -> bytes:
    if "\0" in word:
        raise PlacementError(f"{word!r}: has a NUL character, which {holder} cannot hold")
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise PlacementError(f"{word!r}: is not text that {holder} can hold") from error


def _decoded(word: str, holder: str) -> None:
    _encoded(word, holder)
    if any("\ud800" <= character <= "\udfff" for character in word):
        raise PlacementError(f"{word!r}: is not valid UTF-8, so {holder} cannot hold it")


def _systemd_text(text: str) -> str:
    _encoded(text, "a systemd unit")
    return "".join(map(_systemd_character, text))


def _systemd_character(character: str) -> str:
    if character in _SYSTEMD_ESCAPES:
        return _SYSTEMD_ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _yaml_character(character: str) -> str:
    if character in _YAML_ESCAPES:
        return _YAML_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
