"""Reads NVML and prints what it finds as JSON lines. Runs as its own process: a driver that hangs costs a child.

Stands alone (it is started by file name): it imports the standard library and pynvml, nothing of hostdoctor.
One line for the driver, one for each GPU, one at the end; a field that NVML refuses is null and named in ``errors``.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

BITS = 64
LIBRARY = "libnvidia-ml.so.1"


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
    gpu["link"] = {
        "width_lanes": ask("width_lanes", lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "max_width_lanes": ask("max_width_lanes", lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "generation": ask("generation", lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        "max_generation": ask("max_generation", lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
    }
    gpu["memory_bytes"] = ask("memory_bytes", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total))
    gpu["mig"] = ask("mig", lambda: nvml.nvmlDeviceGetMigMode(handle)[0] == 1)
    gpu["pstate"] = ask("pstate", lambda: int(nvml.nvmlDeviceGetPerformanceState(handle)))
    gpu["persistence"] = ask("persistence", lambda: nvml.nvmlDeviceGetPersistenceMode(handle) == 1)
    gpu["c2c"] = ask("c2c", lambda: nvml.nvmlDeviceGetC2cModeInfoV1(handle).isC2cEnabled == 1)
    return gpu


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
