from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.facts import Host

LIMIT = "rlimit.memlock.soft"


@check("HD309", "memlock-limited", "info")
def memlock_limited(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Say that the caller may lock only so much memory.

    ## What it checks
    The soft limit RLIMIT_MEMLOCK in `/proc/self/limits`, on hosts with GPUs or RDMA adapters. It is the limit of the
    shell that runs hostdoctor: a service has its own (`LimitMEMLOCK=`), a container too (`--ulimit`).

    ## Why it matters
    The limit binds `mlock` and RDMA registration: NCCL over InfiniBand, GPUDirect RDMA and `--mlock` fail with "cannot
    allocate memory". It does not bind pinned CUDA memory: NVIDIA's driver does not ask for it.

    ## Remedy
    Raise it for the service that needs it. Nothing to do where neither RDMA nor mlock is used.

    ## References
    - https://man7.org/linux/man-pages/man2/getrlimit.2.html
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    """
    if not in_scope(host, ask) and not any(nic.rdma for nic in host.nics):
        yield needs.none_known(host, "neither a GPU nor an RDMA adapter", "gpus", "nics")
        return
    soft = host.settings.get(LIMIT)
    if soft is None:
        yield Skip(kind="no-evidence", reason="the limit of locked memory is not known")
    elif soft != "unlimited":
        hard = host.settings.get("rlimit.memlock.hard", "unknown")
        yield finding(
            "host",
            f"Locked memory is limited to {int(soft) / (1 << 20):.1f} MiB for this caller (not pinned CUDA memory)",
            "info",
            evidence=[("/proc/self/limits, Max locked memory", f"soft {soft}, hard {hard}")],
            effect="RDMA registration and mlock beyond it fail; pinned CUDA memory is not bound by it",
            remedy=Remedy(
                text="For RDMA or mlock: LimitMEMLOCK=infinity for the service, for docker --ulimit memlock=-1.",
                risk="restart",
                scope="process",
                undo="Take the setting out again.",
                verify="/proc/PID/limits of the service shows unlimited.",
            ),
        )
