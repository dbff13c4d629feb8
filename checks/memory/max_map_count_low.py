from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import plan_paths
from hostdoctor.facts import Host

KERNEL_DEFAULT = 65530


@check("HD310", "max-map-count-low", "info", needs=(plan_paths,))
def max_map_count_low(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Say that a process with many pinned buffers can run out of mappings before it runs out of memory.

    ## What it checks
    `vm.max_map_count` is no more than the kernel's default (65,530) while a plan offloads: `--model-path` or
    `--kv-path` is stated.

    ## Why it matters
    Each separately pinned buffer is a mapping of its own. At the limit `cudaHostAlloc` and `mmap` fail with "out of
    memory" although memory is free. One large pool, as vLLM's KV offload makes it, takes few mappings.

    ## Remedy
    Raise the limit if the service keeps many small pinned buffers; 1,048,576 is what some distributions set.

    ## References
    - https://docs.kernel.org/admin-guide/sysctl/vm.html#max-map-count
    - https://github.com/vllm-project/llm-compressor/issues/2790
    """
    value = host.settings.get("vm.max_map_count", "unknown").strip()
    if not value.isdecimal():
        yield Skip(kind="no-evidence", reason=f"vm.max_map_count is {value}")
    elif int(value) <= KERNEL_DEFAULT:
        yield finding(
            "host",
            f"A process may have {value} mappings: many small pinned buffers reach that before memory is full",
            "info",
            evidence=[("/proc/sys/vm/max_map_count", value)],
            effect="cudaHostAlloc fails with out of memory at the limit (llm-compressor#2790)",
            remedy=Remedy(
                text="If the service pins many buffers, raise vm.max_map_count to 1048576 in the sysctl configuration.",
                undo=f"Set it back to {value}.",
                verify="wc -l /proc/PID/maps of the service stays far below the limit.",
            ),
        )
