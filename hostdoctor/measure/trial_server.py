"""A server's command line: its words, and where it tells that it is ready."""

import ipaddress
import shlex
from collections.abc import Sequence
from urllib.parse import urlsplit

from hostdoctor.errors import UsageError
from hostdoctor.placement.model import EngineName

_PORTS: dict[EngineName, int] = {"vllm": 8000, "sglang": 30000, "tensorrt-llm": 8000, "llama.cpp": 8080}
_MAX_PORT = 65535


def server_words(text: str) -> tuple[str, ...]:
    """Return the words of ``--server``, by a shell's quoting rules but without one; raise UsageError."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--server: {str(error).lower()}: {text[:80]!r}") from None
    if not words:
        raise UsageError("--server: no command")
    return words


def default_ready_url(words: Sequence[str], engine: EngineName) -> str:
    """Return ``http://127.0.0.1:PORT/health`` for the port in the words, else the engine's own.

    Raises UsageError where neither is known.
    """
    told = _value(words, "--port")
    port = int(told) if told is not None and told.isascii() and told.isdecimal() and len(told) < 6 else None
    if port is None:
        port = _PORTS.get(engine) if told is None else None
    if not port or port > _MAX_PORT:
        why = "no --port among its words" if told is None else f"--port {told[:20]!r} is none"
        raise UsageError(f"--server: {why}: --ready-url says what answers when it is ready")
    return f"http://127.0.0.1:{port}/health"


def refuse_beyond_loopback(url: str) -> None:
    """Raise UsageError for an address that is not this machine's own."""
    if not url.startswith(("http://", "https://")) or not _is_loopback(url):
        raise UsageError(f"--ready-url: not an http address of this machine (127.0.0.1): {url[:80]!r}")


def _is_loopback(url: str) -> bool:
    """Tell whether an address is a whole one (no blanks, a possible port) and this machine's own."""
    try:
        told = urlsplit(url)
        name, port = told.hostname or "", told.port
        own = name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
    return own and port != 0 and all("!" <= character <= "~" for character in url)


def _value(words: Sequence[str], option: str) -> str | None:
    """Return an option's last value, given as the next word or after ``=``."""
    found = None
    for word, after in zip(words, (*words[1:], None), strict=True):
        if word == option:
            found = after
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found
