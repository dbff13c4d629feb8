"""Reading a page that the caller names: an engine's metrics."""

import threading
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPResponse

from hostdoctor.errors import SourceError, UsageError

MAX_PAGE_BYTES = 16 << 20


def refuse_bad_url(option: str, url: str) -> None:
    """Raise UsageError for what is no http address, and for one with a password, which would be kept with results."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{option}: not an http address: {url.rpartition('@')[2][:80]!r}")
    if "@" in parts.netloc:
        raise UsageError(f"{option}: without a user and a password: {parts.netloc.rpartition('@')[2][:80]!r}")


def read_url(url: str, timeout_s: float) -> str:
    """Return a page's text, asked without any proxy.

    Raises UsageError for what is no http address, SourceError when there is no whole answer of at most 16 MiB within
    the time: of a page that was cut off, the last number may be another one.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"not an http address: {url[:80]!r}")
    answer = _Answer(url, timeout_s)
    answer.join(timeout_s)
    if answer.is_alive():  # it may be kept waiting byte by byte
        raise SourceError(f"{url[:120]}: no whole answer within {timeout_s:g} s")
    if answer.error is not None:
        raise answer.error
    return answer.body.decode("utf-8", "replace")


class _Answer(threading.Thread):
    """Asks for a page in a thread, since a socket's own limit counts anew with every byte."""

    def __init__(self, url: str, timeout_s: float) -> None:
        super().__init__(daemon=True)
        self._url, self._timeout_s = url, timeout_s
        self.body = b""
        self.error: SourceError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.body = self._read()
        except urllib.error.HTTPError as error:
            self.error = self._told(f"HTTP status {error.code}")
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            self.error = self._told(str(reason)[:120] or type(error).__name__)

    def _read(self) -> bytes:
        opener = urllib.request.OpenerDirector()  # none for ftp and files, where a redirection may lead
        for handler in (urllib.request.HTTPHandler, urllib.request.HTTPSHandler, urllib.request.HTTPErrorProcessor,
                        urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPRedirectHandler):  # fmt: skip
            opener.add_handler(handler())
        with opener.open(self._url, timeout=self._timeout_s) as answer:
            body: bytes = answer.read(MAX_PAGE_BYTES + 1)
            lacks = answer.length if isinstance(answer, HTTPResponse) else None
        if len(body) > MAX_PAGE_BYTES:
            raise ValueError(f"more than {MAX_PAGE_BYTES >> 20} MiB")
        if lacks:
            raise ValueError(f"cut off: {lacks} bytes are missing")
        return body

    def _told(self, reason: str) -> SourceError:
        return SourceError(f"{self._url[:120]}: {reason}")
