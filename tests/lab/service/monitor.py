"""The machine that the guest runs on, reached from inside: QEMU's own monitor at the guest's second serial port."""

import json
import os
import select
import termios
import time
import tty
from pathlib import Path
from typing import Any

PORT = "/dev/ttyS1"
WAIT_S = 60.0


def arguments(folder: Path) -> tuple[str, ...]:
    """Return QEMU's arguments: a monitor that listens at a socket, to which a serial port of the guest is connected."""
    socket = folder / "monitor"
    return (
        *("-chardev", f"socket,id=monitor,path={socket},server=on,wait=off", "-mon", "chardev=monitor,mode=control"),
        *("-chardev", f"socket,id=caller,path={socket}", "-device", "isa-serial,chardev=caller"),
    )


class Monitor:
    """A connection, from inside the guest. Raises RuntimeError for what QEMU refuses, TimeoutError for no answer."""

    def __init__(self) -> None:
        self._port = os.open(PORT, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._port)
        termios.tcflush(self._port, termios.TCIOFLUSH)
        self._unread = b""
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: Any) -> Any:
        """Return what QEMU answers to a command."""
        os.write(self._port, json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            told = self._message()
            if "error" in told:
                raise RuntimeError(f"{command}: {told['error']}")
            if "return" in told:
                return told["return"]

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._port], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the monitor said no more than {self._unread!r}")
            self._unread += os.read(self._port, 4096)
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:  # the end of its greeting
            return {}
        return message
