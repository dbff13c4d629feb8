"""A small HTTP server: one thread, a bounded number of connections, each with a deadline.

A client that is slow costs a place until its deadline, or until somebody else needs the place: then one goes that has
its answer, else the one that has owed its request for longest. A quick client is answered however many slow ones there
are.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Literal

from hostdoctor.agent.http import Answer, Response, encode, is_whole, parse_head, too_large

MAX_CONNECTIONS = 64
DEADLINE_S = 5.0  # from being accepted to the last byte taken
CHUNK_BYTES = 4096
PAUSE_S = 0.1  # when the process has no file descriptor left for another client
MAX_DRAINED_BYTES = 1 << 20

Phase = Literal["answered", "reading", "writing"]
PHASES: tuple[Phase, ...] = ("answered", "reading", "writing")  # who goes first when there is no room


class Connection:
    """A client: what it sent so far, what it is still to be sent, and until when."""

    def __init__(self, client: socket.socket, deadline: float) -> None:
        self.client = client
        self.deadline = deadline
        self.phase: Phase = "reading"
        self.head = b""
        self.rest = memoryview(b"")
        self.drained_bytes = 0


class Server:
    """Answers requests on a listening socket, which it then owns, on a thread of its own until it is closed."""

    def __init__(
        self,
        listening: socket.socket,
        answer: Answer,
        *,
        most: int = MAX_CONNECTIONS,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listening, self._answer, self._clock = listening, answer, clock
        self._most, self._deadline_s = most, deadline_s
        self._connections: dict[int, Connection] = {}
        self._paused_until: float | None = None
        self._waker, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        listening.setblocking(False)
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="hostdoctor-listen", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Its thread answers."""
        return self._thread.is_alive()

    @property
    def connections(self) -> int:
        """How many clients there are now."""
        return len(self._connections)

    def close(self) -> None:
        """Stop answering; every connection ends. Returns when the thread has ended."""
        self._waker.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        finally:
            for connection in list(self._connections.values()):
                self._end(connection)
            self._selector.close()
            self._listening.close()
            self._woken.close()

    def _step(self) -> bool:
        """Serve whoever is ready; return False when the server was closed."""
        for key, _ in self._selector.select(self._wait_s()):
            if key.fileobj is self._woken:
                return False
            if key.fileobj is self._listening:
                self._accept()
            else:
                self._serve(key.fd)
        now = self._clock()
        for connection in [late for late in self._connections.values() if late.deadline <= now]:
            self._expire(connection)
        if self._paused_until is not None and self._paused_until <= now:
            self._paused_until = None
            self._selector.register(self._listening, selectors.EVENT_READ)
        return True

    def _wait_s(self) -> float | None:
        times = [connection.deadline for connection in self._connections.values()]
        times += [] if self._paused_until is None else [self._paused_until]
        return max(0.0, min(times) - self._clock()) if times else None

    def _accept(self) -> None:
        try:
            client, _ = self._listening.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no descriptor left
            self._selector.unregister(self._listening)
            self._paused_until = self._clock() + PAUSE_S
            return
        if len(self._connections) >= self._most:
            self._end(min(self._connections.values(), key=lambda told: (PHASES.index(told.phase), told.deadline)))
        client.setblocking(False)
        self._connections[client.fileno()] = Connection(client, self._clock() + self._deadline_s)
        self._selector.register(client, selectors.EVENT_READ)

    def _serve(self, descriptor: int) -> None:
        connection = self._connections.get(descriptor)
        if connection is None:  # ended to make room, in this very step
            return
        serve = {"reading": self._read, "writing": self._write, "answered": self._drain}[connection.phase]
        try:
            serve(connection)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._end(connection)

    def _read(self, connection: Connection) -> None:
        got = connection.client.recv(CHUNK_BYTES)
        if not got:
            self._end(connection)
            return
        connection.head += got
        refused = too_large(connection.head)
        if refused is None and not is_whole(connection.head):
            return
        answer = self._answered(connection.head) if refused is None else encode(Response(status=refused))
        connection.phase, connection.head, connection.rest = "writing", b"", memoryview(answer)
        self._selector.modify(connection.client, selectors.EVENT_WRITE)
        self._write(connection)

    def _answered(self, head: bytes) -> bytes:
        request = parse_head(head)
        if isinstance(request, int):
            return encode(Response(status=request))
        try:
            return encode(self._answer(request), with_body=request.method != "HEAD")
        except Exception:  # noqa: BLE001  whatever it is, the client gets no part of it and the thread lives on
            return encode(Response(status=500))

    def _write(self, connection: Connection) -> None:
        connection.rest = connection.rest[connection.client.send(connection.rest) :]
        if not connection.rest:
            connection.client.shutdown(socket.SHUT_WR)  # closing with bytes unread would take the answer back
            connection.phase = "answered"
            self._selector.modify(connection.client, selectors.EVENT_READ)

    def _drain(self, connection: Connection) -> None:
        got = connection.client.recv(CHUNK_BYTES)
        connection.drained_bytes += len(got)
        if not got or connection.drained_bytes > MAX_DRAINED_BYTES:
            self._end(connection)

    def _expire(self, connection: Connection) -> None:
        if connection.phase == "reading" and connection.head:
            with contextlib.suppress(OSError):
                connection.client.send(encode(Response(status=408)))
        self._end(connection)

    def _end(self, connection: Connection) -> None:
        self._connections.pop(connection.client.fileno(), None)
        self._selector.unregister(connection.client)
        with contextlib.suppress(OSError):
            connection.client.shutdown(socket.SHUT_RDWR)  # a forked child may hold the descriptor
        connection.client.close()
