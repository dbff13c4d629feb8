"""Whether a server of this machine answers yet."""

import http.client
import urllib.request
from typing import Any
from urllib.parse import urlsplit


def answers(url: str, timeout_s: float) -> bool:
    """Tell whether there is a page at an http address, asked without any proxy; it is not read, as it may never end."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHost)
    try:
        with opener.open(url, timeout=timeout_s):
            return True
    except (OSError, ValueError, http.client.HTTPException):
        return False


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect on the host that was asked, and to no other."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the next request, None for one to another host."""
        if urlsplit(newurl).hostname != urlsplit(req.full_url).hostname:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)
