"""System calls for placing memory, through libc: no libnuma needed (mbind(2), set_mempolicy(2), move_pages(2))."""

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from hostdoctor.errors import MeasureError

NUMBERS = {
    "x86_64": {"mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239, "move_pages": 279},
    "aarch64": {"mbind": 235, "get_mempolicy": 236, "set_mempolicy": 237, "move_pages": 239},
}
MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND = 0, 1, 2
PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC = 0, 1, 2, 4
MADV_HUGEPAGE, MADV_NOHUGEPAGE = 14, 15
_MAP_PRIVATE_ANONYMOUS = 0x22
_MAP_NORESERVE = 0x4000
_MASK_WORDS = 16
_MASK_BITS = _MASK_WORDS * 64
_MAP_FAILED = ctypes.c_void_p(-1).value

NodeMask = ctypes.Array[ctypes.c_uint64]


@cache
def libc() -> ctypes.CDLL:
    """Return the C library, with the types of what is called in it; a call lets other threads run meanwhile."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for name, result, arguments in (
        ("mmap", pointer, (pointer, size, number, number, number, ctypes.c_long)),
        ("munmap", number, (pointer, size)),
        ("mprotect", number, (pointer, size, number)),
        ("madvise", number, (pointer, size, number)),
        ("memset", pointer, (pointer, number, size)),
        ("memcpy", pointer, (pointer, pointer, size)),
        ("memchr", pointer, (pointer, number, size)),
        ("sched_getcpu", number, ()),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.syscall.restype = ctypes.c_long
    return library


def node_mask(*nodes: int) -> NodeMask:
    """Return a node set as the kernel reads it; raise MeasureError for a node that it cannot hold."""
    mask = (ctypes.c_uint64 * _MASK_WORDS)()
    for node in nodes:
        if not 0 <= node < _MASK_BITS:
            raise MeasureError(f"node {node}: no such NUMA node")
        mask[node // 64] |= 1 << node % 64
    return mask


def mbind(address: int, size_bytes: int, node: int) -> None:
    """Bind the pages of a mapping, before they are touched, to one node; raise MeasureError when refused."""
    mask = node_mask(node)
    _call(f"bind memory to node {node}", "mbind", _at(address), _long(size_bytes), *_policy(MPOL_BIND, mask), _long(0))


def set_mempolicy(mode: int, mask: NodeMask) -> None:
    """Set the calling thread's policy for memory that it touches first; raise MeasureError when refused."""
    _call("set the thread's memory policy", "set_mempolicy", *_policy(mode, mask))


def get_mempolicy() -> tuple[int, NodeMask]:
    """Return the calling thread's policy and its nodes; raise MeasureError when refused."""
    mode, mask = ctypes.c_int(), node_mask()
    where = (ctypes.byref(mode), mask, _long(_MASK_BITS + 1), None, _long(0))
    _call("read the thread's memory policy", "get_mempolicy", *where)
    return mode.value, mask


def page_nodes(addresses: "ctypes.Array[ctypes.c_uint64]") -> list[int]:
    """Return for each page its node, or minus an errno (-2: not there yet), by move_pages(2), which moves nothing.

    Raises MeasureError when the call is refused.
    """
    status = (ctypes.c_int * len(addresses))()
    _call("ask where pages are", "move_pages", _long(0), _long(len(addresses)), addresses, None, status, _long(0))
    return list(status)


def map_memory(size_bytes: int) -> int:
    """Return the address of new private memory that nothing may touch yet; raise MeasureError when there is none."""
    address = libc().mmap(None, size_bytes, PROT_NONE, _MAP_PRIVATE_ANONYMOUS | _MAP_NORESERVE, -1, 0)
    if address in (None, _MAP_FAILED):
        raise MeasureError(f"map {size_bytes >> 20} MiB: {_reason(ctypes.get_errno())}")
    return int(address)


def protect(address: int, size_bytes: int, protection: int) -> None:
    """Set what may be done with pages; raise MeasureError when refused (SELinux execmem, hardened kernels)."""
    if libc().mprotect(address, size_bytes, protection):
        raise MeasureError(f"mprotect: {_reason(ctypes.get_errno())}")


def running_cpu() -> int | None:
    """Return the CPU that the calling thread runs on, None when the C library cannot tell."""
    cpu = int(libc().sched_getcpu())
    return cpu if cpu >= 0 else None


def _policy(mode: int, mask: NodeMask) -> tuple[Any, Any, Any]:
    return _long(mode), mask, _long(_MASK_BITS + 1)  # the kernel takes one off


def _call(aim: str, name: str, *arguments: Any) -> None:
    numbers = NUMBERS.get(os.uname().machine)
    if numbers is None:
        raise MeasureError(f"cannot {aim}: not known how on {os.uname().machine}")
    syscall: Callable[..., int] = libc().syscall
    if syscall(_long(numbers[name]), *arguments) < 0:
        raise MeasureError(f"cannot {aim}: {name}: {_reason(ctypes.get_errno())}")


def _reason(code: int) -> str:
    """Return an error's words, with what usually stands behind it."""
    hint = {
        errno.EPERM: "; a container's seccomp profile forbids it, docker run --cap-add SYS_NICE allows it",
        errno.ENOSYS: "; a kernel without NUMA, or a seccomp profile",
        errno.EINVAL: "; no such node, no memory on it, or outside this process's cpuset",
        errno.EACCES: "; a security policy (SELinux execmem) forbids it",
    }.get(code, "")
    return os.strerror(code).lower() + hint


def _long(value: int) -> ctypes.c_long:
    return ctypes.c_long(value)


def _at(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)
