from collections.abc import Iterable

from hostdoctor.budget.limits import SHM, shm_limit
from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.needs import no_plan
from hostdoctor.diagnosis.planned import planned_wish
from hostdoctor.facts import Host
from hostdoctor.outputs.words import gib

QUEUE_BYTES = 160 << 20  # vLLM: ten chunks of 16 MiB


def planned_use(host: Host, ask: Ask) -> Skip | None:
    """Want a plan that uses /dev/shm: several ranks, or a KV pool."""
    if (ask.tp or 1) > 1 or (ask.memory is not None and ask.memory.kv_bytes):
        return None
    return no_plan("--tp N, --kv-offload-gib")


@check("HD308", "shm-too-small", "warning", needs=(planned_use,))
def shm_too_small(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Warn that /dev/shm is smaller than a plan needs.

    ## What it checks
    The room of `/dev/shm` against the KV pool of `--kv-offload-gib`, which vLLM keeps there since 0.27, and the message
    queues of engines with several ranks (`--tp`): one to all workers and one from each, 160 MiB each.

    ## Why it matters
    Containers get 64 MiB unless told otherwise. A pool that does not fit is refused at start, or its pages fault later
    (SIGBUS); a queue that does not fit ends the workers.

    ## Remedy
    Give the container more: `--shm-size` or `--ipc=host`; in Kubernetes an `emptyDir` with `medium: Memory`. Pages in
    /dev/shm are memory and count against the container's limit.

    ## References
    - https://docs.vllm.ai/en/latest/deployment/docker.html
    - https://github.com/vllm-project/vllm/issues/50358
    """
    limit = shm_limit(host)
    if limit.bytes is None:
        yield Skip(kind="no-evidence", reason=limit.reason or "the room of /dev/shm is not known")
        return
    wish = planned_wish(host, ask)
    queues = (1 + wish.tp) * wish.dp if (ask.tp or 1) > 1 else 0
    needed = wish.kv_bytes * wish.dp + queues * QUEUE_BYTES
    if needed > limit.bytes:
        yield finding(
            SHM,
            f"{SHM} has room for {gib(limit.bytes)}, the plan needs {gib(needed)} (KV pool, {queues} message queues)",
            "warning",
            evidence=[(limit.source, limit.value)],
            effect="vLLM refuses to start, or its workers end with SIGBUS",
            remedy=Remedy(
                text="docker --shm-size=… or --ipc=host; in Kubernetes an emptyDir with medium: Memory at /dev/shm.",
                risk="restart",
                scope="process",
                undo="Take the option out again.",
                verify=f"df {SHM} in the container shows the size.",
            ),
        )
