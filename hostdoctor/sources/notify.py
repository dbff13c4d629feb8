"""Telling systemd how a service is: sd_notify(3), datagrams of ``NAME=value`` lines to ``$NOTIFY_SOCKET``."""

import contextlib
import os
import socket
import time
from collections.abc import Mapping


class Notifier:
    """Where systemd (or nobody) is told; a message that cannot be sent is dropped, as the manager may be restarting."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Use ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC``; without the former every message goes nowhere."""
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._socket: socket.socket | None = None
        if self._address.startswith(("/", "\0")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        self.watchdog_s = _watchdog_s(environment) if self._socket else None

    @property
    def is_asked_for(self) -> bool:
        """Somebody wants to be told."""
        return self._socket is not None

    def ready(self, status: str) -> None:
        """Say that the service is up, or has reloaded."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, text: str) -> None:
        """Say in one line what the service does."""
        self._send(f"STATUS={_one_line(text)}")

    def alive(self) -> None:
        """Pat the watchdog."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """Say that the configuration is being read again; :meth:`ready` ends it."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now_us}")

    def stopping(self, status: str) -> None:
        """Say that the service ends."""
        self._send(f"STOPPING=1\nSTATUS={_one_line(status)}")

    def close(self) -> None:
        """Say nothing more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto(message.encode(), self._address)


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    """Return the watchdog's time limit, None where there is none or it is another process'."""
    limit_us, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not limit_us.isdecimal() or int(limit_us) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(limit_us) / 1e6


def _one_line(text: str) -> str:
    return " ".join(text.split())
