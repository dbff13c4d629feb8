"""As much of HTTP/1.1 as a scraper needs: one request's head in, one response out, nothing else (RFC 9112)."""

import re
from collections.abc import Callable, Mapping

import msgspec

from hostdoctor.facts import Fact

MAX_LINE_BYTES = 2048
MAX_HEAD_BYTES = 8192
END = b"\r\n\r\n"
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    414: "URI Too Long",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/(\d\.\d)")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*?)[ \t]*")


class Request(Fact, frozen=True, kw_only=True):
    """A request's head; field names in lower case, a field that was given twice joined with commas."""

    method: str
    path: str
    fields: dict[str, str] = msgspec.field(default_factory=dict)


class Response(Fact, frozen=True, kw_only=True):
    """What is answered. Without a body it says its status in words, and nothing about the host."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    fields: dict[str, str] = msgspec.field(default_factory=dict)


Answer = Callable[[Request], Response]


def is_whole(head: bytes) -> bool:
    """Tell whether a request's head is there to its end."""
    return END in head


def too_large(head: bytes) -> int | None:
    """Return the status that refuses what came so far, None while it is small enough."""
    line = head.partition(b"\r\n")[0]
    if len(line) > MAX_LINE_BYTES:
        return 414
    return 431 if len(head.partition(END)[0]) > MAX_HEAD_BYTES else None


def parse_head(head: bytes) -> Request | int:
    """Return the request, or the status that refuses it: 400, 413 where a body follows, 505."""
    line, *rest = head.partition(END)[0].split(b"\r\n")
    told = _LINE.fullmatch(line)
    if told is None:
        return 400
    if told[3] not in (b"1.0", b"1.1"):
        return 505
    fields = _fields(rest)
    if fields is None or (told[3] == b"1.1" and "host" not in fields):
        return 400
    if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
        return 413
    return Request(method=told[1].decode(), path=told[2].decode().partition("?")[0], fields=fields)


def _fields(lines: list[bytes]) -> dict[str, str] | None:
    fields: dict[str, str] = {}
    for line in lines:
        told = _FIELD.fullmatch(line)
        if told is None:
            return None
        name, value = told[1].decode().lower(), told[2].decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def encode(response: Response, *, with_body: bool = True) -> bytes:
    """Return a response as it goes over the wire; the connection ends after it."""
    reason = REASONS[response.status]
    body = response.body or f"{response.status} {reason}\n".encode()
    fields: Mapping[str, str] = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **response.fields,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {response.status} {reason}\r\n{head}\r\n".encode("latin-1") + (body if with_body else b"")
