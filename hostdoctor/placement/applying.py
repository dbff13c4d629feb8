"""Binding this process to CPUs and memory nodes, so that what it becomes by exec is bound: no numactl needed.

The affinity and the memory policy of a task survive execve(2): sched_setaffinity(2), set_mempolicy(2).
"""

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Iterable
from typing import Literal

from hostdoctor.errors import PlacementError
from hostdoctor.facts import Fact
from hostdoctor.parsers.cpulist import parse_cpulist
from hostdoctor.placement.model import Binding, MemoryPolicy

Tier = Literal["bind", "preferred", "interleave", "cpus-only", "unbound"]

_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_MODES = {"preferred": 1, "bind": 2, "interleave": 3}  # linux/mempolicy.h
_PREFERRED_MANY = 5  # since Linux 5.15
_MAX_NODES = 1024
_LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)


class Step(Fact, frozen=True, kw_only=True):
    """One way to bind, the best first: CPUs to run on (None: as they are) and a memory policy (None: as it is)."""

    tier: Tier
    cpus: str | None = None
    policy: MemoryPolicy | None = None
    mems: tuple[int, ...] = ()


class Applied(Fact, frozen=True, kw_only=True):
    """The way that was taken, and why each better one was not (tier, reason)."""

    step: Step
    refused: tuple[tuple[Tier, str], ...] = ()


def steps(binding: Binding) -> tuple[Step, ...]:
    """Return the ways to apply a binding, as asked first, then what is left when the kernel refuses that."""
    cpus = binding.cpus if binding.limits_cpus else None
    ways = [Step(tier=binding.policy, cpus=cpus, policy=binding.policy, mems=binding.mems)]
    if binding.policy == "bind":
        ways.append(Step(tier="preferred", cpus=cpus, policy="preferred", mems=binding.mems))
    if cpus is not None:
        ways.append(Step(tier="cpus-only", cpus=cpus))
    return (*ways, Step(tier="unbound"))


def apply_best(ways: Iterable[Step], *, strict: bool) -> Applied:
    """Bind this process the first way that the kernel permits; each is tried in a child first.

    Raises PlacementError when ``strict`` and the first way is refused.
    """
    refused: list[tuple[Tier, str]] = []
    for way in ways:
        reason = _try_in_child(way) or _applied(way)
        if reason is None:
            return Applied(step=way, refused=tuple(refused))
        if strict:
            raise PlacementError(f"cannot bind as asked ({describe(way)}): {reason}")
        refused.append((way.tier, reason))
    raise PlacementError("cannot bind: even leaving everything as it is was refused")


def describe(step: Step) -> str:
    """Return a step in words: ``CPUs 0-3, memory bound to node 0``."""
    nodes = f"node{'s' if len(step.mems) > 1 else ''} {','.join(map(str, step.mems))}"
    memory = {"bind": "memory bound to", "preferred": "memory preferably on", "interleave": "memory interleaved over"}
    words = [] if step.cpus is None else [f"CPUs {step.cpus}"]
    words += [] if step.policy is None else [f"{memory[step.policy]} {nodes}"]
    return ", ".join(words) or "unbound"


def _try_in_child(step: Step) -> str | None:
    """Return None when a child could bind so, else why not: a system call filter may kill who asks."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover  the child
        _answer(step, writing)
    os.close(writing)
    with os.fdopen(reading, "r", encoding="utf-8", errors="replace") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return answer or None


def _answer(step: Step, writing: int) -> None:  # pragma: no cover  the child
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a filter that kills would have it dumped
    try:
        _apply(step)
        reason = _why_narrower(step)
    except OSError as error:
        reason = _refusal(error)
    os.write(writing, reason.encode())
    os._exit(0)


def _why_narrower(step: Step) -> str:
    """Say when the kernel took the CPUs but gave fewer: it silently cuts them down to the cpuset."""
    if step.cpus is None:
        return ""
    missing = parse_cpulist(step.cpus) - os.sched_getaffinity(0)
    return "the kernel gave fewer CPUs than asked for (cpuset)" if missing else ""


def _applied(step: Step) -> str | None:
    """Bind this process; return why not where the cpuset was narrowed since the trial, with nothing bound."""
    before = os.sched_getaffinity(0)
    try:
        _apply(step)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)
        return _refusal(error)
    return None


def _refusal(error: OSError) -> str:
    return f"{error.filename or 'the kernel'}: {error.strerror}"


def _apply(step: Step) -> None:
    """Bind this process, its memory last; raise OSError with the call's name as its file name."""
    if step.cpus is not None:
        try:
            os.sched_setaffinity(0, parse_cpulist(step.cpus))
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), "sched_setaffinity") from error
    if step.policy is not None:
        _set_mempolicy(step.policy, step.mems)


def _set_mempolicy(policy: MemoryPolicy, mems: tuple[int, ...]) -> None:
    machine = os.uname().machine
    if machine not in _SET_MEMPOLICY:
        raise OSError(0, f"its number is not known on {machine}", "set_mempolicy")
    mode = _PREFERRED_MANY if policy == "preferred" and len(mems) > 1 else _MODES[policy]
    mask = (ctypes.c_ulong * (_MAX_NODES // _LONG_BITS))()
    for node in mems:
        mask[node // _LONG_BITS] |= 1 << (node % _LONG_BITS)
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(_SET_MEMPOLICY[machine])
    if libc.syscall(number, ctypes.c_int(mode), mask, ctypes.c_ulong(_MAX_NODES + 1)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "set_mempolicy")
