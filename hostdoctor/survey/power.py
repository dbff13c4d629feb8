"""How the CPUs save power (Documentation/admin-guide/pm/cpufreq.rst, cpuidle.rst)."""

import re
from collections import Counter

from hostdoctor.facts import CpuPower, IdleState
from hostdoctor.sources.base import Source
from hostdoctor.survey.values import integer, line

CPUS = "/sys/devices/system/cpu"
GOVERNORS = frozenset(("performance", "powersave", "userspace", "ondemand", "conservative", "schedutil"))


def read_cpu_power(source: Source) -> CpuPower:
    """Return governors of every policy, the first one's driver, EPP of one policy a governor, one CPU's idle states.

    Words that no governor of the kernel has are left out.
    """
    policies = _numbered(source, f"{CPUS}/cpufreq", "policy") or (f"{CPUS}/cpu0/cpufreq",)
    governors: Counter[str] = Counter()
    preferences: dict[str, None] = {}
    for policy in policies:
        governor = line(source, f"{policy}/scaling_governor")
        if governor not in GOVERNORS:
            continue
        governors[governor] += 1
        preference = line(source, f"{policy}/energy_performance_preference") if governors[governor] == 1 else None
        if preference is not None:
            preferences[preference] = None
    return CpuPower(
        driver=line(source, f"{policies[0]}/scaling_driver") if governors else None,
        governors=dict(governors),
        energy_preferences=tuple(preferences),
        idle_states=_idle_states(source),
    )


def _idle_states(source: Source) -> tuple[IdleState, ...]:
    """Return the idle states of CPU 0, which cannot be taken offline on most machines, from shallow to deep."""
    states = []
    for folder in _numbered(source, f"{CPUS}/cpu0/cpuidle", "state"):
        name = line(source, f"{folder}/name")
        if name is not None:
            disabled = integer(source.read(f"{folder}/disable"))
            latency_us = integer(source.read(f"{folder}/latency"))
            known = None if disabled is None else disabled != 0
            states.append(IdleState(name=name, exit_latency_us=latency_us, disabled=known))
    return tuple(states)


def _numbered(source: Source, folder: str, prefix: str) -> tuple[str, ...]:
    """Return a folder's children of this name and a number, in order of number."""
    names = (re.fullmatch(rf"{prefix}(\d{{1,6}})", name) for name in source.listdir(folder))
    return tuple(f"{folder}/{m.group()}" for m in sorted((m for m in names if m), key=lambda m: int(m.group(1))))
