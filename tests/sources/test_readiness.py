"""Whether a server answers: whatever it says, yes or no."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hostdoctor.sources.readiness import answers

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup"


@contextmanager
def server(reply: Callable[[str, int], bytes]) -> Iterator[str]:
    """Give the address of a server that sends what ``reply`` makes of a path and its port, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            while True:
                try:
                    asked, _ = listening.accept()
                except OSError:
                    return
                with asked:
                    words = asked.recv(4096).split()
                    asked.sendall(reply(words[1].decode() if words else "", port))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}/health"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_page_is_an_answer() -> None:
    with server(lambda _path, _port: OK) as url:
        assert answers(url, 5)


@pytest.mark.parametrize(
    "told",
    [
        b"", b"garbage\r\n\r\n", b"HTTP/1.1 503 Loading\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ],
    ids=["nothing", "garbage", "503", "no status", "endless headers"],
)  # fmt: skip
def test_what_is_no_answer(told: bytes) -> None:
    with server(lambda _path, _port: told) as url:
        assert not answers(url, 5)


def test_a_redirect_is_followed_on_the_same_host_alone() -> None:
    def moved(path: str, port: int) -> bytes:
        if path != "/health":
            return OK
        return f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/up\r\n\r\n".encode()

    with server(moved) as url:
        assert answers(url, 5)
    with server(
        lambda _path, port: f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:{port}/\r\n\r\n".encode()
    ) as url:
        assert not answers(url, 5)


def test_an_address_that_cannot_be_asked_does_not_answer() -> None:
    assert not answers("http://127.0.0.1:1/a b", 5)
