from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.facts import Host

NAMES = ("enabled", "defrag", "shmem_enabled")
ORDINARY = {  # what needs no word: processes ask for huge pages themselves and nobody stalls for them
    "enabled": ("madvise",),
    "defrag": ("madvise", "defer", "defer+madvise", "never"),
    "shmem_enabled": ("never", "advise"),
}
MEANINGS = {
    "enabled always": "every process gets them",
    "enabled never": "no process gets them",
    "defrag always": "page faults wait until memory is compacted",
}


@check("HD314", "transparent-hugepages", "info")
def transparent_hugepages(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Quote transparent huge page settings that are not the usual ones.

    ## What it checks
    `enabled` other than `madvise`, `defrag` `always`, `shmem_enabled` other than `never` or `advise`.

    ## Why it matters
    Huge pages spare page-table walks when large buffers are copied. `always` also gives them to processes that grow by
    it, and with `defrag` `always` a page fault waits for compaction. `shmem_enabled` decides for /dev/shm-like memory,
    which pinned buffers and KV offload are.

    ## Remedy
    `madvise` for both is the middle way. Values that somebody chose for a measured reason are fine.

    ## References
    - https://docs.kernel.org/admin-guide/mm/transhuge.html
    """
    known = {name: value for name in NAMES if (value := host.settings.get(f"transparent_hugepage.{name}"))}
    if not known:
        yield Skip(kind="no-evidence", reason="transparent huge page settings are not known")
    odd = [f"{name} {value}" for name, value in known.items() if value not in ORDINARY[name]]
    if odd:
        yield finding(
            "host",
            "Transparent huge pages: "
            + ", ".join(f"{text} ({MEANINGS[text]})" if text in MEANINGS else text for text in odd),
            "info",
            evidence=[(f"/sys/kernel/mm/transparent_hugepage/{name}", value) for name, value in known.items()],
            remedy=Remedy(
                text="If nobody chose it, set enabled and defrag to madvise for the host; measure before and after.",
                undo=f"Set {', '.join(odd)} again.",
                verify="The files in /sys/kernel/mm/transparent_hugepage show [madvise].",
            ),
        )
