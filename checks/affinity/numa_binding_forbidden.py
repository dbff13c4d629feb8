from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, needs
from hostdoctor.facts import Host

POLICY = "probe.set_mempolicy"


@check("HD113", "numa-binding-forbidden", "info", needs=(needs.gpus, needs.several_cpu_nodes, needs.live))
def numa_binding_forbidden(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Find out whether this caller could bind memory to a node at all.

    ## What it checks
    On the running host: whether the kernel lets the caller set a memory policy (a container's system call filter can
    refuse it), and whether `numactl` is installed. A warning when a binding was asked for.

    ## Why it matters
    Engines and wrappers that bind memory fail at start, or go on unbound with one line in the log.

    ## Remedy
    Start the container with `--cap-add SYS_NICE` (Kubernetes: `securityContext.capabilities.add: [SYS_NICE]`), and
    install numactl in its image. Without either, a CPU binding alone still makes new memory local (first touch).

    ## References
    - https://docs.docker.com/engine/security/seccomp/
    - https://github.com/vllm-project/vllm/issues/45438, https://github.com/sgl-project/sglang/issues/27368
    """
    answer = host.settings.get(POLICY)
    without = next((g for g in host.gaps if g.fact == "source:numactl" and g.kind == "missing"), None)
    refused = answer not in (None, "permitted")
    if refused or without:
        what = [f"the kernel refuses set_mempolicy ({answer})"] * refused
        what += ["numactl is not installed"] * (without is not None)
        yield finding(
            "host",
            f"memory cannot be bound to a node here: {' and '.join(what)}",
            "warning" if ask.bind else "info",
            evidence=[("set_mempolicy with an invalid policy", answer)] * refused
            + ([(without.source, without.reason)] if without else []),
            effect="bindings fail at start, or silently do nothing",
            remedy=Remedy(
                text="Add the capability SYS_NICE to the container and numactl to its image; until then bind CPUs.",
                risk="restart",
                scope="process",
                undo="Start the container as before.",
                verify="numactl --membind=0 true ends with status 0.",
            ),
        )
    elif answer is None:
        yield Skip(kind="no-evidence", reason="whether a memory policy may be set could not be tried")
