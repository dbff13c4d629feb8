"""Trying on the live host what a sandbox may forbid, in a child process: a filter may kill the one who asks."""

import os
import sys
import time

from hostdoctor.sources.commands import Running

# An invalid policy changes nothing: the kernel refuses it (EINVAL) wherever the call itself gets through.
_SET_MEMPOLICY = """
import ctypes, errno, os
number = {"x86_64": 238, "aarch64": 237}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(number, ctypes.c_long(0x7fff), None, ctypes.c_ulong(0))
code = ctypes.get_errno()
print("permitted" if code == errno.EINVAL else errno.errorcode.get(code, code))
"""
_QUESTIONS = {"set_mempolicy": _SET_MEMPOLICY}
PROBE_TIMEOUT_S = 5.0


def probe(question: str, timeout_s: float) -> str | None:
    """Return ``permitted``, the error's name (``EPERM``) or how the child died; None when it could not be tried.

    ``page_size`` needs no child: it is the kernel's page size in bytes.
    """
    if question == "page_size":
        return str(os.sysconf("SC_PAGE_SIZE"))
    deadline = time.monotonic() + min(timeout_s, PROBE_TIMEOUT_S)
    completed = Running((sys.executable, "-I", "-S", "-c", _QUESTIONS[question]), deadline, os.environ).wait()
    if completed.reason is None:
        return completed.text.strip() or None
    return completed.reason if completed.reason.startswith("killed by") else None
