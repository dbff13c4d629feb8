"""Runs a command with the memory policy calls refused by seccomp, as a container's filter does: EPERM, or killed."""

import ctypes
import os
import struct
import sys

SET_MEMPOLICY, MBIND = 238, 237  # x86-64
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
EPERM = 1


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main() -> None:
    """``without_mempolicy.py eperm|kill COMMAND…``."""
    refused = KILL if sys.argv[1] == "kill" else ERRNO | EPERM
    rows = (
        (LOAD, 0, 0, 0),
        (JUMP_EQUAL, 1, 0, SET_MEMPOLICY),
        (JUMP_EQUAL, 0, 1, MBIND),
        (RETURN, 0, 0, refused),
        (RETURN, 0, 0, ALLOW),
    )
    code = b"".join(struct.pack("=HBBI", *row) for row in rows)
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(rows), code)
    _must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _must(libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program), 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])


def _must(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    main()
