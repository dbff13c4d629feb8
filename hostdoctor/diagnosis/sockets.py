"""Signs that a guest's hardware has two sockets: its GPUs, or more CPUs than one socket of its model has threads."""

import re

from hostdoctor.diagnosis.subjects import online_cpus
from hostdoctor.facts import Host

X86 = frozenset({"x86_64", "amd64", "i386", "i486", "i586", "i686"})

# Boards with eight GPUs in one guest come with two sockets.
MANY_GPUS = 8

# The most hardware threads that one socket of a generation has; by the digit that vendors number generations with.
_XEON = re.compile(r"Xeon\(?R?\)? (?:Platinum|Gold|Silver|Bronze) [3-9]([1-5])\d\d")
_XEON_THREADS = {"1": 56, "2": 56, "3": 80, "4": 120, "5": 128}
_EPYC = re.compile(r"EPYC ([79])[0-9A-Z]{2}([1-5])")
_EPYC_THREADS = {"71": 64, "72": 128, "73": 128, "94": 256, "95": 384}


def threads_per_socket(cpu_model: str | None) -> int | None:
    """Return the most hardware threads one socket of this CPU model can have, None for models not known here."""
    xeon = _XEON.search(cpu_model or "")
    if xeon:
        return 112 if re.search(r" 92\d\d", cpu_model or "") else _XEON_THREADS[xeon.group(1)]
    epyc = _EPYC.search(cpu_model or "")
    return _EPYC_THREADS.get(epyc.group(1) + epyc.group(2)) if epyc else None


def signs_of_two_sockets(host: Host) -> list[str]:
    """Return what speaks for two sockets below this guest."""
    signs = []
    if len(host.gpus) >= MANY_GPUS:
        signs.append(f"it has {len(host.gpus)} GPUs")
    most = threads_per_socket(host.system.cpu_model)
    cpus = online_cpus(host)
    if most and cpus and len(cpus) > most:
        signs.append(f"it has {len(cpus)} CPUs, more than one socket of {host.system.cpu_model} ({most})")
    return signs
