"""What a check is written with: the decorator, ``Ask``, the scope of GPUs, and the shared needs."""

from collections.abc import Callable, Iterable

import msgspec

from hostdoctor.diagnosis.report import Evidence, Finding, Remedy, Severity, Skip
from hostdoctor.errors import HostdoctorError
from hostdoctor.facts import Fact, Gpu, Host


class MemoryPlan(Fact, frozen=True, kw_only=True):
    """Host memory that the caller wants to pin: weights for each GPU, KV cache over all ranks of one engine."""

    weights_bytes: int = 0
    kv_bytes: int = 0


class Ask(Fact, frozen=True, kw_only=True):
    """What the caller wants judged. ``gpus`` are positions in ``host.gpus``; None means every GPU that may be used.

    ``tp`` is a planned tensor-parallel size: the GPUs in scope, in order, form sets of so many. ``bind``: the caller
    is about to bind a process to nodes. ``model_path`` and ``kv_path`` are where the model lies and where the KV cache
    spills to; ``host.places`` tells the disks below them. ``memory`` is what is to be pinned.
    """

    gpus: tuple[int, ...] | None = None
    tp: int | None = None
    bind: bool = False
    model_path: str | None = None
    kv_path: str | None = None
    memory: MemoryPlan | None = None


Check = Callable[[Host, Ask], Iterable[Finding | Skip]]
Need = Callable[[Host, Ask], Skip | None]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A registered check: its identity, what it needs, and the function whose docstring documents it."""

    id: str
    name: str
    severity: Severity
    needs: tuple[Need, ...]
    function: Check
    module: str

    @property
    def documentation(self) -> str:
        """The docstring, dedented: What it checks / Why it matters / Remedy / References."""
        import inspect

        return inspect.cleandoc(self.function.__doc__ or "")


class DuplicateCheckError(HostdoctorError):
    """Two modules registered the same id."""


def check(id: str, name: str, severity: Severity, *, needs: tuple[Need, ...] = ()) -> Callable[[Check], Check]:
    """Mark a function as the check ``id``: a stable id, the problem's name, the severity it fires at by default."""

    def mark(function: Check) -> Check:
        rule = Rule(id=id, name=name, severity=severity, needs=needs, function=function, module=function.__module__)
        function.rule = rule  # type: ignore[attr-defined]
        return function

    return mark


def finding(
    subject: str,
    message: str,
    severity: Severity,
    *,
    evidence: Iterable[tuple[str, object]],
    remedy: Remedy,
    effect: str = "effect unknown",
) -> Finding:
    """Build a finding; ``evidence`` is (path or command, value seen) pairs."""
    seen = tuple(Evidence(source=source, value=str(value)) for source, value in evidence)
    return Finding(subject=subject, message=message, severity=severity, evidence=seen, effect=effect, remedy=remedy)


def in_scope(host: Host, ask: Ask) -> tuple[Gpu, ...]:
    """Return the GPUs to judge: those asked for, else every one that the caller may use."""
    if ask.gpus is not None:
        return tuple(host.gpus[i] for i in ask.gpus)
    return tuple(gpu for gpu in host.gpus if gpu.visible is not False)


def gpu_label(host: Host, gpu: Gpu) -> str:
    """Return what a person calls a GPU: ``GPU0``, or its BDF when the driver gives it no index."""
    return f"GPU{gpu.index}" if gpu.index is not None else gpu.bdf or f"gpus[{host.gpus.index(gpu)}]"
