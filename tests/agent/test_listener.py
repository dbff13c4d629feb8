"""The listener: what it answers, what it refuses, and whom it outlives."""

import socket
import struct
import sys
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hostdoctor.agent.http import MAX_HEAD_BYTES, MAX_LINE_BYTES, Request, Response, encode, parse_head
from hostdoctor.agent.listener import MAX_AGE_S, ListenPublisher, is_loopback_name, parse_address
from hostdoctor.agent.metrics import snapshot_families
from hostdoctor.errors import OutputError, UsageError
from tests.agent.snapshots import healthy, sick
from tests.support.promtool import promtool

SLOW_CLIENTS = 1000
SECRETS = (b"hostdoctor_", b"gpu7", b"0000:19", b"0.1.0")  # what only /metrics may say


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def listener(clock: Clock) -> Iterator[ListenPublisher]:
    publisher = ListenPublisher("127.0.0.1:0", clock=clock)
    yield publisher
    publisher.close()


def connect(listener: ListenPublisher) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.port), timeout=30)


def ask(listener: ListenPublisher, request: bytes) -> bytes:
    """Send a request and return all that comes back."""
    with connect(listener) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


def get(listener: ListenPublisher, path: str = "/metrics", *fields: str, method: str = "GET") -> tuple[int, bytes]:
    lines = "".join(f"{field}\r\n" for field in ("Host: localhost:9797", *fields))
    head, _, body = ask(listener, f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_a_scrape_gets_the_last_snapshot(listener: ListenPublisher) -> None:
    listener(healthy())
    listener(sick())
    status, body = get(listener)
    assert status == 200
    assert b'hostdoctor_pcie_link_width_lanes{bdf="0000:19:00.0",device="GPU0",kind="gpu"} 8.0\n' in body
    assert b"process_resident_memory_bytes" in body
    promtool("check", "metrics", text=body.decode())


def test_what_is_scraped_is_what_the_textfile_says(listener: ListenPublisher) -> None:
    listener(sick())
    scraped = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(get(listener)[1].decode())
        for sample in family.samples
        if not sample.name.startswith("process_")
    }
    families = snapshot_families(sick())
    assert scraped == {(f.name, frozenset(s.labels)): s.value for f in families for s in f.series}


def test_openmetrics_to_those_who_ask(listener: ListenPublisher) -> None:
    listener(healthy())
    status, body = get(listener, "/metrics", "Accept: application/openmetrics-text;version=1.0.0")
    assert (status, body[-6:]) == (200, b"# EOF\n")


def test_versions_that_a_client_makes_up_cost_no_memory(listener: ListenPublisher) -> None:
    listener(healthy())
    seen = set()
    for version in ("1.0.0", "1.0.1", "2.0.0", "99.0.0", "x", "0.0.1"):
        accept = f"application/openmetrics-text; version={version}; escaping=made-up-{version}"
        answer = listener.answer(Request(method="GET", path="/metrics", fields={"accept": accept}))
        seen.add((answer.status, answer.content_type, id(answer.body)))
    assert len(seen) == 1
    assert next(iter(seen))[:2] == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")


def test_head_has_the_length_and_no_body(listener: ListenPublisher) -> None:
    listener(healthy())
    told = ask(listener, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    length = int(told.partition(b"Content-Length: ")[2].split()[0])
    assert told.startswith(b"HTTP/1.1 200 OK\r\n")
    assert told.endswith(b"\r\n\r\n")
    assert length > 10_000


REFUSED = [
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    (b"GET /metrics/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    (b"GET /../metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    (b"GET //metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    (b"GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    (b"OPTIONS /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    (b"TRACE /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    (b"get /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    (b"GET /metrics HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 421),
    (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n", 421),
    (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
    (b"GET /metrics\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 413),
    (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
    (b"GET /" + b"a" * MAX_LINE_BYTES + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
    (b"A" * (MAX_LINE_BYTES + 1), 414),
    (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_HEAD_BYTES // 5), 431),
]


@pytest.mark.parametrize(("request_", "status"), REFUSED, ids=[f"{s}-{r[:24]!r}" for r, s in REFUSED])
def test_everything_else_is_refused_and_learns_nothing(listener: ListenPublisher, request_: bytes, status: int) -> None:
    listener(healthy())
    told = ask(listener, request_)
    assert told.startswith(f"HTTP/1.1 {status} ".encode())
    assert not any(secret in told for secret in SECRETS)
    assert get(listener)[0] == 200


def test_a_request_in_pieces_is_one_request(listener: ListenPublisher) -> None:
    listener(healthy())
    with connect(listener) as client:
        for byte in b"GET /metrics HTTP/1.0\r\n\r\n":
            client.sendall(bytes([byte]))
        assert client.recv(15) == b"HTTP/1.1 200 OK"


def test_of_many_requests_on_a_connection_the_first_is_answered(listener: ListenPublisher) -> None:
    listener(healthy())
    told = ask(listener, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"GET /metrics HTTP/1.0\r\n\r\n" * 50)
    assert (told.count(b"HTTP/1.1 "), told[-7:]) == (1, b"200 OK\n")


@pytest.mark.parametrize(
    ("request_", "begins"), [(b"GET /metrics HTTP/1.0\r\n\r\n", b"HTTP/1.1 200"), (b"GET /m", b"")]
)
def test_a_client_that_says_nothing_more_may_still_listen(
    listener: ListenPublisher, request_: bytes, begins: bytes
) -> None:
    listener(healthy())
    with connect(listener) as client:
        client.sendall(request_)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(12, socket.MSG_WAITALL) == begins


def test_clients_that_break_off_cost_nothing(listener: ListenPublisher) -> None:
    listener(healthy())
    for request in (b"", b"GET /m", b"GET /metrics HTTP/1.0\r\n\r\n") * 50:
        client = connect(listener)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
        client.sendall(request)
        client.close()
    assert get(listener)[0] == 200


def test_a_thousand_slow_clients_keep_nobody_out(listener: ListenPublisher) -> None:
    listener(healthy())
    slow: list[socket.socket] = []
    try:
        for number in range(SLOW_CLIENTS):
            client = connect(listener)
            client.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
            slow.append(client)
            if number % 100 == 99:
                assert get(listener)[0] == 200
        assert get(listener)[0] == 200
        assert listener.connections <= 64
    finally:
        for client in slow:
            client.close()


def test_clients_that_never_read_keep_nobody_out(listener: ListenPublisher) -> None:
    listener(healthy())
    deaf = [connect(listener) for _ in range(200)]
    for client in deaf:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert get(listener)[0] == 200
    for client in deaf:
        client.close()


def test_before_the_first_snapshot_there_is_nothing_to_tell(listener: ListenPublisher) -> None:
    assert get(listener)[0] == 503


def test_health_is_a_loop_that_goes_on(listener: ListenPublisher, clock: Clock) -> None:
    listener(healthy())
    assert get(listener, "/healthz") == (200, b"200 OK\n")
    clock.now = MAX_AGE_S + 1
    assert get(listener, "/healthz")[0] == 503
    listener(healthy())
    assert get(listener, "/healthz")[0] == 200


def test_after_the_end_nobody_answers_and_the_loop_hears_of_it() -> None:
    publisher = ListenPublisher("127.0.0.1:0")
    held = connect(publisher)
    publisher.close()
    assert held.recv(1) == b""
    held.close()
    with pytest.raises(ConnectionRefusedError):
        connect(publisher)
    with pytest.raises(OutputError, match="answers no more"):
        publisher(healthy())


def test_an_address_in_use_is_said(listener: ListenPublisher) -> None:
    with pytest.raises(OutputError, match=rf"127\.0\.0\.1:{listener.port}: address already in use"):
        ListenPublisher(f"127.0.0.1:{listener.port}")


@pytest.mark.parametrize("address", ["0.0.0.0:9797", "[::]:9797", "192.168.1.7:9797", "[fe80::1]:9797"])
def test_what_others_can_reach_needs_a_word_of_its_own(address: str) -> None:
    with pytest.raises(UsageError, match="can be reached from other hosts"):
        ListenPublisher(address)
    assert parse_address(address, anywhere=True)[1] == 9797


@pytest.mark.parametrize(
    "address",
    ["", "9797", ":9797", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.1:9797", "::1:9797", "gpu7:9797", "[]:1"],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not ADDRESS:PORT"):
        parse_address(address, anywhere=True)


def test_loopback_has_several_names() -> None:
    assert parse_address("localhost:1", anywhere=False) == ("127.0.0.1", 1)
    assert parse_address("[::1]:9797", anywhere=False) == ("::1", 9797)
    for name in ("localhost", "LOCALHOST:9797", "127.0.0.1:9797", "[::1]:9797", "127.8.8.8"):
        assert is_loopback_name(name)
    for name in ("", "localhost.attacker.example", "attacker.example:9797", "10.0.0.1", "127.0.0.1.nip.io"):
        assert not is_loopback_name(name)


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match=r"pip install '\.\[agent\]' in the checkout"):
        ListenPublisher("127.0.0.1:0")


def test_a_defect_while_answering_costs_one_answer(listener: ListenPublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    listener(healthy())
    monkeypatch.setattr(listener, "_page", lambda *_: 1 / 0)
    assert get(listener) == (500, b"500 Internal Server Error\n")
    assert get(listener, "/healthz")[0] == 200


def test_a_head_is_parsed_whole() -> None:
    request = parse_head(b"GET /metrics?name[]=x HTTP/1.1\r\nHOST: a\r\nAccept:b \r\naccept: c\r\n\r\nrest")
    assert not isinstance(request, int)
    assert (request.path, request.fields) == ("/metrics", {"host": "a", "accept": "b, c"})


def test_a_response_says_its_status_in_words() -> None:
    assert encode(Response(status=404)).endswith(b"\r\n\r\n404 Not Found\n")
