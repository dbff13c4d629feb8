"""Reading a page that the caller names: an engine's metrics."""

import urllib.error
import urllib.request

from hostdoctor.errors import SourceError, UsageError

MAX_PAGE_BYTES = 16 << 20


def read_url(url: str, timeout_s: float) -> str:
    """Return a page's text, at most 16 MiB of it, asked without any proxy.

    Raises UsageError for what is no http address, SourceError when there is no answer.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"not an http address: {url[:80]!r}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            body: bytes = answer.read(MAX_PAGE_BYTES)
    except urllib.error.HTTPError as error:
        raise SourceError(f"{url[:120]}: HTTP status {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SourceError(f"{url[:120]}: {str(reason)[:120]}") from None
    return body.decode("utf-8", "replace")
