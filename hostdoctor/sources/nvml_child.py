"""Reads NVML and prints what it finds as JSON lines. Runs as its own process: a driver that hangs costs a child.

Stands alone (it is started by file name): it imports the standard library and pynvml, nothing of hostdoctor.
One line for the driver, one for each GPU, one at the end; a field that NVML refuses is null and named in ``errors``.
``sample SECONDS`` prints one line instead: counters read twice, that far apart, by name (``nvml.0.pcie_replays``).
"""

import ctypes
import json
import sys
import time
from collections.abc import Callable
from typing import Any

BITS = 64
LIBRARY = "libnvidia-ml.so.1"
FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}  # nvmlGpuFabricState_t; 0 has no fabric
# Nanoseconds in which a reason held the clocks down: nvmlFieldValue ids, and the older nvmlPerfPolicyType_t.
THROTTLE_FIELDS = {"sw_power_cap": 74, "sw_thermal": 269, "hw_thermal": 270, "hw_power_brake": 271}
THROTTLE_POLICIES = {"sw_power_cap": 0, "thermal": 1}


def main() -> int:
    """Print the lines; return 0 when NVML answered at all, 1 when it could not be used."""
    try:
        ctypes.CDLL(LIBRARY)  # pynvml's import takes longer, and it would not say why the library does not load
        import pynvml  # noqa: TID251  this is the child process that may
    except (OSError, ImportError) as error:
        return _fail("absent", str(error))
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        if sys.argv[1:2] == ["sample"]:
            return _sample(pynvml, count, float(sys.argv[2]))
        _say({"driver_version": _driver(pynvml), "count": count})
        for index in range(count):
            _say({"gpu": _gpu(pynvml, index)})
        _say({"end": True})
    except pynvml.NVMLError as error:
        return _fail("error", _text(pynvml, error))
    return 0


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    """Return one GPU's facts; a GPU that was lost is its index and the error."""
    errors: dict[str, str] = {}
    gpu: dict[str, Any] = {"index": index, "errors": errors}
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        errors["handle"] = _text(nvml, error)
        return gpu

    def ask(name: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except nvml.NVMLError as error:
            errors[name] = _text(nvml, error)
        except (AttributeError, ValueError, OSError) as error:
            errors[name] = str(error)
        return None

    gpu["name"] = ask("name", lambda: _string(nvml.nvmlDeviceGetName(handle)))
    gpu["uuid"] = ask("uuid", lambda: _string(nvml.nvmlDeviceGetUUID(handle)))
    gpu["bdf"] = ask("bdf", lambda: _string(nvml.nvmlDeviceGetPciInfo(handle).busId))
    gpu["memory_node"] = ask("memory_node", lambda: _number(nvml.nvmlDeviceGetNumaNodeId(handle)))
    gpu["cpu_affinity"] = ask("cpu_affinity", lambda: _bits(nvml.nvmlDeviceGetCpuAffinity(handle, 256)))
    gpu["node_affinity"] = ask("node_affinity", lambda: _bits(nvml.nvmlDeviceGetMemoryAffinity(handle, 16, 0)))
    pstate = ask("pstate", lambda: int(nvml.nvmlDeviceGetPerformanceState(handle)))
    gpu["link"] = {
        "width_lanes": ask("width_lanes", lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "max_width_lanes": ask("max_width_lanes", lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "generation": ask("generation", lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        "max_generation": ask("max_generation", lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
    }
    gpu["memory_bytes"] = ask("memory_bytes", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total))
    gpu["mig"] = ask("mig", lambda: nvml.nvmlDeviceGetMigMode(handle)[0] == 1)
    # What the link does belongs to a P-state only when that was the same before and after.
    gpu["pstate"] = pstate if ask("pstate", lambda: int(nvml.nvmlDeviceGetPerformanceState(handle))) == pstate else None
    gpu["persistence"] = ask("persistence", lambda: nvml.nvmlDeviceGetPersistenceMode(handle) == 1)
    gpu["c2c"] = ask("c2c", lambda: nvml.nvmlDeviceGetC2cModeInfoV1(handle).isC2cEnabled == 1)
    gpu["bar1_bytes"] = ask("bar1_bytes", lambda: int(nvml.nvmlDeviceGetBAR1MemoryInfo(handle).bar1Total))
    gpu["nvlinks"] = ask("nvlinks", lambda: _nvlinks(nvml, handle))
    gpu["fabric"] = ask("fabric", lambda: _fabric(nvml, handle))
    gpu["processes"] = ask("processes", lambda: _processes(nvml, handle))
    return gpu


def _nvlinks(nvml: Any, handle: Any) -> int:
    """Return how many NVLinks are active; a GPU without any says that the first is not supported."""
    active = 0
    try:
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            active += nvml.nvmlDeviceGetNvLinkState(handle, link) == 1
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
        pass  # the one after the last
    return active


def _processes(nvml: Any, handle: Any) -> list[int]:
    """Return the PIDs of the processes that compute or draw on a GPU; not every GPU can draw."""
    computing = _running(nvml, handle, "Compute")
    try:
        drawing = _running(nvml, handle, "Graphics")
    except nvml.NVMLError:
        drawing = []
    return sorted({int(process.pid) for process in (*computing, *drawing)})


def _running(nvml: Any, handle: Any, kind: str) -> Any:
    """Ask in the current way; drivers before the 510s know only the one before."""
    try:
        return getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses")(handle)
    except nvml.NVMLError_FunctionNotFound:
        return getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v2")(handle)


def _fabric(nvml: Any, handle: Any) -> dict[str, Any] | None:
    """Return how far the GPU's registration with its fabric is; None for a GPU that has none."""
    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    if info.state == 0:
        return None
    digits = bytes(info.clusterUuid).hex()
    return {
        "state": FABRIC_STATES.get(info.state, f"state {info.state}"),
        "status": _string(nvml.nvmlErrorString(info.status)),
        "clique_id": int(info.cliqueId),
        "cluster_uuid": "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])),
    }


def _sample(nvml: Any, count: int, seconds: float) -> int:
    before, began = _counters(nvml, count), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    _say({"seconds": elapsed, "before": before, "after": _counters(nvml, count)})
    return 0


def _counters(nvml: Any, count: int) -> dict[str, int]:
    """Return the counters that the GPUs give, by name; one that is refused is left out."""
    found: dict[str, int] = {}
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError:
            continue
        for name, value in {**_throttled(nvml, handle), **_replays(nvml, handle)}.items():
            found[f"nvml.{index}.{name}"] = value
    return found


def _replays(nvml: Any, handle: Any) -> dict[str, int]:
    try:
        return {"pcie_replays": int(nvml.nvmlDeviceGetPcieReplayCounter(handle))}
    except nvml.NVMLError:
        return {}


def _throttled(nvml: Any, handle: Any) -> dict[str, int]:
    """Return nanoseconds by reason, ``throttle_<reason>_ns``; drivers before the 570s know two reasons."""
    try:
        values = nvml.nvmlDeviceGetFieldValues(handle, list(THROTTLE_FIELDS.values()))
        told = {name: v.value.ullVal for name, v in zip(THROTTLE_FIELDS, values) if v.nvmlReturn == 0}  # noqa: B905
    except nvml.NVMLError:
        told = {}
    if not told.keys() - {"sw_power_cap"}:
        for name, policy in THROTTLE_POLICIES.items():
            told.update(_violated(nvml, handle, name, policy))
    return {f"throttle_{name}_ns": int(ns) for name, ns in told.items()}


def _violated(nvml: Any, handle: Any, name: str, policy: int) -> dict[str, int]:
    try:
        return {name: nvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime}
    except nvml.NVMLError:
        return {}


def _driver(nvml: Any) -> str | None:
    try:
        return _string(nvml.nvmlSystemGetDriverVersion())
    except (nvml.NVMLError, ValueError):
        return None


def _bits(words: Any) -> list[int]:
    """Return the set bits of NVML's array of 64-bit words."""
    return [word * BITS + bit for word, value in enumerate(words) for bit in range(BITS) if int(value) >> bit & 1]


def _number(value: Any) -> int | None:
    """Return NVML's node id; its -1 (as unsigned) means none."""
    number = int(value)
    return None if number < 0 or number >= 0xFFFF else number


def _string(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _text(nvml: Any, error: Any) -> str:
    """Return the library's own words, which nvidia-smi prints too and people search for; else pynvml's."""
    try:
        return _string(nvml.nvmlErrorString(error.value)) or type(error).__name__
    except (nvml.NVMLError, AttributeError):
        return str(error) or type(error).__name__


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _fail(state: str, reason: str) -> int:
    _say({"state": state, "reason": reason})
    return 1


if __name__ == "__main__":
    sys.exit(main())
