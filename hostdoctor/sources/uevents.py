"""Device events of the kernel (PCI, NVMe, block, network), by udev where it runs: pyudev's monitor."""

import contextlib
import errno
import os
from typing import Any

from hostdoctor.errors import SourceError

SUBSYSTEMS = ("pci", "nvme", "block", "net")
ACTIONS = frozenset(("add", "remove", "change", "bind", "unbind", "move", "online", "offline"))
MAX_AT_ONCE = 256  # events taken before the service looks at its clock again
RECEIVE_BYTES = 4 << 20
_RUNNING = "/run/udev/control"
_VIRTUAL = "/devices/virtual/"


class Uevents:
    """A subscription to device events. :meth:`fileno` becomes readable when there are some."""

    def __init__(self) -> None:
        """Subscribe; raise SourceError where that is not possible."""
        try:
            import pyudev

            source = "udev" if os.path.exists(_RUNNING) else "kernel"  # noqa: PTH110
            self._monitor: Any = pyudev.Monitor.from_netlink(pyudev.Context(), source=source)
            for subsystem in SUBSYSTEMS:
                self._monitor.filter_by(subsystem)
            with contextlib.suppress(OSError):  # without CAP_NET_ADMIN the buffer is smaller; lost events are noticed
                self._monitor.set_receive_buffer_size(RECEIVE_BYTES)
            self._monitor.start()
        except (OSError, ImportError, ValueError) as error:
            raise SourceError(f"device events: {error}") from None

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return int(self._monitor.fileno())

    def drain(self) -> tuple[tuple[str, ...], bool]:
        """Take what is there, at most :data:`MAX_AT_ONCE`: the events that matter, in words, and whether some are lost.

        Raises SourceError where there can be no more.
        """
        found: list[str] = []
        lost = False
        for _ in range(MAX_AT_ONCE):
            try:
                device = self._monitor.poll(timeout=0)
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    return tuple(found), True
                raise SourceError(f"device events: {error.strerror}") from None
            except (ValueError, MemoryError):  # libudev's EINVAL and ENOMEM: a message that it cannot take is gone
                lost = True
                continue
            if device is None:
                break
            if matters(device.action or "", device.device_path):
                found.append(f"{device.action} {device.sys_name}")
        return tuple(found), lost


def matters(action: str, path: str) -> bool:
    """Tell whether an event may change the map: containers' interfaces and loop devices come and go all day."""
    return action in ACTIONS and (not path.startswith(_VIRTUAL) or "/nvme" in path)
