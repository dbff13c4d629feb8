"""What an agent knows of a two-socket host with two GPUs, a drive and one engine: in order, and in trouble."""

from typing import Any

import msgspec

from hostdoctor.agent.model import (
    CheckState,
    Counters,
    DriveRates,
    ErrorTotals,
    LinkState,
    NodeShare,
    NodeState,
    OpenFinding,
    Placement,
    Pressure,
    Problem,
    Snapshot,
    SurveyState,
)

GIB = 1 << 30
GPU0, GPU1, NVME0 = "0000:19:00.0", "0000:9b:00.0", "0000:4d:00.0"


def link(device: str, kind: Any, bdf: str, width_lanes: int | None, most: int, **more: Any) -> LinkState:
    return LinkState(
        bdf=bdf,
        device=device,
        kind=kind,
        width_lanes=width_lanes,
        max_width_lanes=most,
        speed_gts=None if width_lanes is None else 32.0,
        max_speed_gts=32.0,
        **more,
    )


def engine(near_gib: int, far_gib: int) -> Placement:
    """Return an engine on GPU 0, which is near node 0: its shared memory on that and on the other node."""
    return Placement(
        cgroup="/system.slice/vllm.service",
        unit="vllm.service",
        pids=(4242, 4243),
        names=("VLLM::EngineCor", "python3"),
        gpus=(0,),
        gpu_nodes=(0,),
        nodes=(
            NodeShare(node=0, anon_bytes=2 * GIB, shared_bytes=near_gib * GIB),
            NodeShare(node=1, anon_bytes=2 * GIB, shared_bytes=far_gib * GIB),
        ),
    )


def finding(id: str, name: str, subject: str, severity: Any, **more: Any) -> OpenFinding:
    return OpenFinding(id=id, name=name, subject=subject, severity=severity, message="as it says", **more)


def check_state(*findings: OpenFinding) -> CheckState:
    first = findings[0]
    return CheckState(
        id=first.id, name=first.name, status="fail", severity=first.severity, findings=findings, accepted=1
    )


def healthy(now: float = 1_800_000_000.0) -> Snapshot:
    """Return what an agent tells of a host in order."""
    passed = CheckState(id="HD201", name="gpu-link-narrow", status="pass")
    skipped = CheckState(id="HD103", name="tp-set-spans-nodes", status="skip", skip_kind="no-plan", reason="no plan")
    sizes = {"total_bytes": 512 * GIB, "free_bytes": 100 * GIB, "available_bytes": 300 * GIB, "shmem_bytes": 64 * GIB}
    return Snapshot(
        taken_at=now,
        started_at=now - 86_400,
        version="0.1.0",
        hostname="gpu7",
        survey=SurveyState(ended_at=now - 10, age_s=10.0, duration_s=1.5, reason="interval", status="ok"),
        checks=(passed, skipped),
        links=(
            link("GPU0", "gpu", GPU0, 16, 16),
            link("GPU1", "gpu", GPU1, 16, 16),
            link("nvme0", "nvme", NVME0, 4, 4),
        ),
        errors=(ErrorTotals(bdf=GPU0, device="GPU0", kind="gpu", correctable=7, nonfatal=0, fatal=0),),
        drives=(
            DriveRates(
                name="nvme0n1",
                drive="nvme0",
                seconds=15.0,
                read_iops=2000.0,
                write_iops=10.0,
                read_bytes_per_second=2.5e8,
                write_bytes_per_second=4096.0,
                r_await_ms=0.25,
                w_await_ms=0.05,
                queue_depth=0.5,
                usual_r_await_ms=0.125,
                usual_queue_depth=0.25,
            ),
        ),
        nodes=tuple(
            NodeState(id=node, pinnable_bytes=250 * GIB, pinned_bytes=GIB, unevictable_bytes=1 << 20, **sizes)
            for node in (0, 1)
        ),
        placements=(engine(near_gib=10, far_gib=0),),
        pressure=(Pressure(resource="memory", some_total_us=1_500_000, full_total_us=500_000),),
        pinned_bytes=3 * GIB,
        baseline_accepted_at=now - 80_000,
        counters=Counters(surveys=288, signal_readings=5760, transitions={"appeared": 2, "cleared": 2}),
    )


def sick(now: float = 1_800_000_000.0) -> Snapshot:
    """Return what an agent tells of the same host in every trouble that there is an alert for."""
    told = healthy(now)
    narrow = check_state(
        finding("HD201", "gpu-link-narrow", "GPU0, GPU1", "critical"),
    )
    far = check_state(
        finding("HD105", "gpu-process-memory-far", "python3 4242, VLLM::EngineCor 4243", "warning", is_flapping=True),
    )
    lost = LinkState(bdf=NVME0, device="nvme0", kind="nvme", is_present=False)
    return msgspec.structs.replace(
        told,
        taken_at=now - 3600,
        survey=SurveyState(ended_at=now - 7200, age_s=3600.0, duration_s=60.0, reason="event", status="unknown"),
        checks=(narrow, far),
        links=(link("GPU0", "gpu", GPU0, 8, 16), link("GPU1", "gpu", GPU1, 16, 16), lost),
        errors=(ErrorTotals(bdf=GPU0, device="GPU0", kind="gpu", correctable=7, nonfatal=3, fatal=0),),
        placements=(engine(near_gib=2, far_gib=8),),
        problems=(Problem(name="state", message="No space left on device", since_at=now),),
    )
