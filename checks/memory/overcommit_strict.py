from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import memory_plan
from hostdoctor.diagnosis.planned import planned_wish
from hostdoctor.facts import Host
from hostdoctor.outputs.words import gib


@check("HD311", "overcommit-strict", "warning", needs=(memory_plan,))
def overcommit_strict(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that strict overcommit leaves less than a plan pins.

    ## What it checks
    `vm.overcommit_memory` is 2, and CommitLimit less Committed_AS is below the plan (`--cpu-offload-gib`,
    `--kv-offload-gib`).

    ## Why it matters
    Under strict overcommit the kernel refuses mappings beyond CommitLimit, by default half of the memory and swap,
    however much is free. `cudaHostAlloc` and `mmap` then fail with "out of memory".

    ## Remedy
    Raise `vm.overcommit_ratio` (or `vm.overcommit_kbytes`). Setting `vm.overcommit_memory` to 0 changes the rule for
    everybody.

    ## References
    - https://docs.kernel.org/mm/overcommit-accounting.html
    """
    mode = host.settings.get("vm.overcommit_memory")
    limit, committed = host.memory.commit_limit_bytes, host.memory.committed_bytes
    if mode is None:
        yield Skip(kind="no-evidence", reason="vm.overcommit_memory is not known")
    elif mode != "2":
        return
    elif limit is None or committed is None:
        yield Skip(kind="no-evidence", reason="CommitLimit and Committed_AS are not known")
    elif (planned := planned_wish(host, ask).total_bytes) > limit - committed:
        yield finding(
            "host",
            f"Strict overcommit leaves {gib(max(0, limit - committed))}, the plan pins {gib(planned)}",
            "warning",
            evidence=[
                ("/proc/sys/vm/overcommit_memory", mode),
                ("/proc/meminfo CommitLimit, Committed_AS", f"{limit}, {committed} bytes"),
            ],
            effect="allocations fail with out of memory although memory is free",
            remedy=Remedy(
                text="Raise vm.overcommit_ratio in the sysctl configuration so that the plan fits below CommitLimit.",
                risk="oom",
                undo="Set vm.overcommit_ratio back.",
                verify="CommitLimit in /proc/meminfo exceeds Committed_AS by more than the plan.",
            ),
        )
