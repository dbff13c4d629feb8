"""Structured log lines: journald's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL), else plain lines.

Under systemd, which says so in ``$JOURNAL_STREAM`` (device and inode of the service's standard error), each entry is
one datagram of ``FIELD=value`` lines. Anywhere else it is one line for whoever started the service.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Mapping

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER = "hostdoctor"
ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6  # syslog's priorities
_STDERR = 2
_PATIENCE_S = 1.0
_MAX_VALUE_BYTES = 16 << 10  # with all its fields an entry fits a datagram


class Journal:
    """Where the service's log goes. Nothing raises: a log that cannot be written must not end the service."""

    def __init__(
        self, plain: Callable[[str], None], environment: Mapping[str, str] = os.environ, address: str = SOCKET
    ) -> None:
        """Write to the journal where standard error is connected to it, else give each line to ``plain``."""
        self._plain = plain
        self._socket: socket.socket | None = None
        self._is_journal = _is_journal(environment.get("JOURNAL_STREAM", ""))
        if self._is_journal:
            self._connect(address)

    def write(self, priority: int, message: str, fields: Mapping[str, str] | None = None) -> None:
        """Log one entry; ``fields`` are upper-case names, in the journal alone."""
        if self._socket is not None and self._sent(priority, message, fields or {}):
            return
        with contextlib.suppress(OSError, ValueError):
            self._plain(f"<{priority}>{message}" if self._is_journal else message)

    def close(self) -> None:
        """Let go of the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self, address: str) -> None:
        found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            found.connect(address)
            found.settimeout(_PATIENCE_S)
        except OSError:
            found.close()
            return
        self._socket = found

    def _sent(self, priority: int, message: str, fields: Mapping[str, str]) -> bool:
        assert self._socket is not None
        entry = {"MESSAGE": message, "PRIORITY": str(priority), "SYSLOG_IDENTIFIER": IDENTIFIER, **fields}
        try:
            self._socket.send(b"".join(encoded(name, value) for name, value in entry.items()))
        except (TimeoutError, BlockingIOError):
            self._socket.settimeout(0.0)  # a journal that hangs must not hold the watchdog up: entries are dropped
            return True
        except OSError:
            return False
        self._socket.settimeout(_PATIENCE_S)
        return True


def encoded(name: str, value: str) -> bytes:
    """Return a field as the protocol has it: values with line breaks carry their length."""
    data = value.encode("utf-8", "replace")[:_MAX_VALUE_BYTES]
    if b"\n" not in data:
        return b"%s=%s\n" % (name.encode("ascii"), data)
    return b"%s\n%s%s\n" % (name.encode("ascii"), struct.pack("<Q", len(data)), data)


def _is_journal(stream: str) -> bool:
    """Tell whether standard error is the stream that systemd connected to the journal (``8:1234``)."""
    device, _, inode = stream.partition(":")
    if not device.isdecimal() or not inode.isdecimal():
        return False
    try:
        told = os.fstat(_STDERR)
    except OSError:
        return False
    return (told.st_dev, told.st_ino) == (int(device), int(inode))
