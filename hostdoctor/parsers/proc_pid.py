"""``/proc/PID/stat`` and ``/proc/PID/status`` (man 5 proc_pid_stat, proc_pid_status)."""

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact

MAX_DIGITS = 20
MAX_STATUS = 1 << 16
# Positions after the command's closing parenthesis; the manual counts from the PID as 1.
_PARENT, _THREADS, _START, _STACK, _CPU = 1, 17, 19, 25, 36


class ProcessStat(Fact, frozen=True, kw_only=True):
    """One process or thread. ``start_ticks`` since boot; ``stack_start`` changes when it runs another program."""

    pid: int
    name: str
    state: str
    parent_pid: int
    threads: int
    start_ticks: int
    stack_start: int
    last_cpu: int


def parse_stat(text: str, source: str = "stat") -> ProcessStat:
    """Return the fields; a command's name may hold blanks, line ends and parentheses. Raises ParseError."""
    pid, opened, rest = text.strip().partition(" (")
    name, closed, tail = rest.rpartition(")")
    fields = tail.split(None, _CPU + 1)
    if not opened or not closed or len(fields) <= _CPU or len(name) > 64:
        raise ParseError(source, 1, text, "not a process' stat")
    wanted = (pid, *(fields[i] for i in (_PARENT, _THREADS, _START, _STACK, _CPU)))
    if not all(word.isascii() and word.isdecimal() and len(word) <= MAX_DIGITS for word in wanted):
        raise ParseError(source, 1, text, "not a process' stat")
    numbers = [int(word) for word in wanted]
    return ProcessStat(
        pid=numbers[0],
        name=name,
        state=fields[0][:1],
        parent_pid=numbers[1],
        threads=numbers[2],
        start_ticks=numbers[3],
        stack_start=numbers[4],
        last_cpu=numbers[5],
    )


def parse_status(text: str) -> dict[str, str]:
    """Return the fields by name (``VmRSS``: ``1024 kB``); a line that is none is left out."""
    pairs = (line.partition(":") for line in text[:MAX_STATUS].splitlines())
    return {key: value.strip() for key, colon, value in pairs if colon and key.isidentifier()}
