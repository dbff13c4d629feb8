"""Metrics over HTTP: ``--listen 127.0.0.1:9797``, for a Prometheus on the same host or behind a tunnel.

``GET`` and ``HEAD`` of ``/metrics`` and ``/healthz`` are answered, nothing else; only from this host unless somebody
says otherwise. A browser that was led here by another site's name (DNS rebinding) is refused by the name it asks for.
"""

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hostdoctor.agent.http import Request, Response
from hostdoctor.agent.metrics import snapshot_families
from hostdoctor.agent.model import Snapshot
from hostdoctor.agent.server import Server
from hostdoctor.errors import OutputError, UsageError
from hostdoctor.outputs.prometheus import Family

if TYPE_CHECKING:
    from prometheus_client import Metric

MISSING = (
    "--listen needs prometheus-client beside hostdoctor (its extra agent: pip install '.[agent]' in the checkout, or"
    " pipx inject hostdoctor prometheus-client); --textfile does without"
)
OPEN_METRICS = (
    "application/openmetrics-text"  # of its versions and escapings, which a client may make up, one is enough
)
ALLOWED = {"Allow": "GET, HEAD"}
MAX_AGE_S = 120.0  # without a new snapshot for so long the agent's loop is stuck: it makes one every 15 s
MAX_PORT = 65535
_ADDRESS = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45})\]|(?P<four>[0-9.]{7,15})|(?P<name>localhost)):(?P<port>\d{1,5})"
)
_PORT = re.compile(r":\d{1,5}$")


class ListenPublisher:
    """Answers scrapes with the last snapshot, on one thread of its own.

    ``anywhere`` allows an address that other hosts can reach. Raises UsageError for what is no address and for such a
    one without that, and without prometheus-client; OutputError where it cannot be listened on.
    """

    def __init__(self, address: str, *, anywhere: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        host, port = parse_address(address, anywhere=anywhere)
        self._page = _page()
        self._anywhere, self._clock = anywhere, clock
        self._snapshot: Snapshot | None = None
        self._given_at = clock()
        listening = _listen(host, port)
        self.port: int = listening.getsockname()[1]
        self._server = Server(listening, self.answer)

    def __call__(self, snapshot: Snapshot) -> None:
        """Keep it for the scrapes to come; raise OutputError where nobody answers them any more."""
        self._snapshot, self._given_at = snapshot, self._clock()
        if not self._server.is_running:
            raise OutputError("--listen: answers no more")

    @property
    def connections(self) -> int:
        """How many clients there are now."""
        return self._server.connections

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def answer(self, request: Request) -> Response:
        """Return what a request is answered with."""
        if not self._anywhere and not is_loopback_name(request.fields.get("host", "localhost")):
            return Response(status=421)
        if request.path not in ("/metrics", "/healthz"):
            return Response(status=404)
        if request.method not in ("GET", "HEAD"):
            return Response(status=405, fields=ALLOWED)
        if request.path == "/healthz":
            return Response(status=200 if self._clock() - self._given_at <= MAX_AGE_S else 503)
        snapshot = self._snapshot
        if snapshot is None:
            return Response(status=503)
        body, content_type = self._page(snapshot, request.fields.get("accept", ""))
        return Response(status=200, body=body, content_type=content_type)


def parse_address(text: str, *, anywhere: bool) -> tuple[str, int]:
    """Return host and port of ``127.0.0.1:9797`` or ``[::1]:9797``; raise UsageError where nobody may listen."""
    told = _ADDRESS.fullmatch(text)
    address = told and _address(told["six"] or told["four"] or "127.0.0.1")
    if told is None or address is None or int(told["port"]) > MAX_PORT:
        raise UsageError(f"--listen: not ADDRESS:PORT, as 127.0.0.1:9797 or [::1]:9797: {text[:80]!r}")
    if not address.is_loopback and not anywhere:
        raise UsageError(
            f"--listen: {address} can be reached from other hosts, and nothing here asks who they are"
            " (--listen-anywhere allows it; better 127.0.0.1 and a proxy)"
        )
    return str(address), int(told["port"])


def is_loopback_name(host: str) -> bool:
    """Tell whether a Host field names this very machine."""
    name = _PORT.sub("", host.strip()).lower()
    address = _address(name[1:-1] if name.startswith("[") else name)
    return name == "localhost" or (address is not None and address.is_loopback)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = None
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise OutputError(f"--listen: {host}:{port}: {(error.strerror or str(error)).lower()}") from error
    return listening


class _Collector:
    """What prometheus-client renders: the families of one snapshot at a time."""

    def __init__(self) -> None:
        self.families: tuple[Family, ...] = ()

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client import Metric

        for family in self.families:
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            for series in family.series:
                metric.add_sample(family.name, dict(series.labels), series.value)
            yield metric


def _page() -> Callable[[Snapshot, str], tuple[bytes, str]]:
    """Return a function that renders a snapshot in the format that an Accept field asks for, once for each of both.

    Beside the snapshot there is the process itself (``process_resident_memory_bytes`` …). Raises UsageError without
    prometheus-client.
    """
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import choose_encoder
    except ImportError:
        raise UsageError(MISSING) from None
    registry, collector = CollectorRegistry(), _Collector()
    registry.register(collector)
    ProcessCollector(registry=registry)
    kept: dict[str, tuple[Snapshot, bytes]] = {}
    lock = threading.Lock()

    def page(snapshot: Snapshot, accept: str) -> tuple[bytes, str]:
        encoder, content_type = choose_encoder(OPEN_METRICS if OPEN_METRICS in accept else "")
        with lock:
            if content_type not in kept or kept[content_type][0] is not snapshot:
                collector.families = snapshot_families(snapshot)
                kept[content_type] = snapshot, encoder(registry)
            return kept[content_type][1], content_type

    return page
