"""Reading a page that the caller names: an engine's metrics, a server's word that it is ready."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from hostdoctor.errors import SourceError, UsageError

MAX_PAGE_BYTES = 16 << 20


def read_url(url: str, timeout_s: float) -> str:
    """Return a page's text, at most 16 MiB of it, asked without any proxy.

    Raises UsageError for what is no http address, SourceError when there is no answer.
    """
    with _opened(url, timeout_s) as answer:
        body: bytes = answer.read(MAX_PAGE_BYTES)
    return body.decode("utf-8", "replace")


def answers(url: str, timeout_s: float) -> bool:
    """Tell whether there is a page, without reading it: it may never end. Raises UsageError for no http address."""
    try:
        with _opened(url, timeout_s):
            return True
    except SourceError:
        return False


@contextmanager
def _opened(url: str, timeout_s: float) -> Iterator[Any]:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"not an http address: {url[:80]!r}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHost)
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        raise SourceError(f"{url[:120]}: HTTP status {error.code}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = str(getattr(error, "reason", None) or error).strip() or type(error).__name__
        raise SourceError(f"{url[:120]}: {reason[:120]}") from None


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect on the host that was asked, and to no other."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the next request, None for one to another host."""
        if urlsplit(newurl).hostname != urlsplit(req.full_url).hostname:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)
