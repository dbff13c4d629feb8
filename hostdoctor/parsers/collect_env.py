"""The report that vLLM, PyTorch (``collect_env``) and SGLang (``check_env``) users paste: GPUs, driver, system.

What it holds of ``lscpu`` and ``nvidia-smi topo -m`` those formats' own parsers read.
"""

import re
from collections.abc import Iterator, Sequence

from hostdoctor.errors import ParseError
from hostdoctor.facts import Fact
from hostdoctor.parsers.text import clean_lines

_GPU = re.compile(r"GPU (\d{1,3}(?:,\s?\d{1,3}){0,200})")
_NAME = re.compile(r"[ \t>]*(?:GPU \d|MIG )")
_MODELS = "GPU models and configuration"
_NAMES_FOLLOW = frozenset({_MODELS, "CUDA available", "ROCM available"})
_TOPOLOGY = frozenset({"GPU Topology", "NVIDIA Topology"})
_DRIVER = frozenset({"nvidia driver version", "cuda driver version", "cuda driver versions"})
_KNOWN = frozenset({"PyTorch version", "Is CUDA available", "Python platform", "OS", *_NAMES_FOLLOW, *_TOPOLOGY})
_READ = _KNOWN | {"Hypervisor vendor"}
_VERSION = re.compile(r"\d{2,4}(?:\.\d{1,4}){1,3}")
_KERNEL = re.compile(r"Linux-(\S{1,200}?)-(?:x86_64|aarch64|ppc64le|s390x|riscv64)(?:-with-\S{1,100})?")
_NOT_COLLECTED = "Could not collect"
_UNTOLD = frozenset({"", _NOT_COLLECTED, "N/A", "None", "Not Available"})

Pair = tuple[int, str, str]


class CollectEnv(Fact, frozen=True, kw_only=True):
    """What one report tells besides lscpu and the matrix. ``gpu_names`` is (driver's index, product name) pairs.

    ``mig``: a GPU is partitioned. ``wsl2`` is None where the report shows no kernel. ``topology_not_collected``:
    the report says that it has no matrix. ``nvidia_driver`` is None also where GPUs' drivers differ.
    """

    gpu_names: tuple[tuple[int, str], ...] = ()
    mig: bool = False
    nvidia_driver: str | None = None
    os: str | None = None
    kernel: str | None = None
    wsl2: bool | None = None
    hypervisor_vendor: str | None = None
    topology_not_collected: bool = False
    gpu_models: str | None = None


def parse_collect_env(text: str, source: str = "collect_env") -> CollectEnv:
    """Return what a report tells; raise ParseError when none of its own lines is there.

    Reads the flat form (``OS: Ubuntu``), the one with banners (``OS    : Ubuntu``) and SGLang's (``GPU 0,1: name``).
    """
    lines = clean_lines(text)
    pairs = list(_pairs(lines))
    if not any(key != "Hypervisor vendor" for _, key, _ in pairs):
        number, line = next(((i, line) for i, line in enumerate(lines, 1) if line), (0, ""))
        raise ParseError(source, number, line, "no environment report")
    platform = _value(pairs, "Python platform")
    kernel = _KERNEL.fullmatch(platform) if platform else None
    return CollectEnv(
        gpu_names=_gpu_names(lines, pairs),
        mig=any(line.lstrip().startswith("MIG ") and " Device " in line for line in lines),
        nvidia_driver=_driver(pairs),
        os=_value(pairs, "OS"),
        kernel=kernel[1] if kernel else None,
        wsl2=None if platform is None else "microsoft-standard-WSL2" in platform,
        hypervisor_vendor=_value(pairs, "Hypervisor vendor"),
        topology_not_collected=_topology_not_collected(lines, pairs),
        gpu_models=_models(pairs),
    )


def _models(pairs: Sequence[Pair]) -> str | None:
    """Return models that are told without numbers, as ROCm's reports tell them."""
    models = _value(pairs, _MODELS)
    return None if models is None or models == "No CUDA" or models.startswith(("GPU ", "MIG ")) else models


def _pairs(lines: Sequence[str]) -> Iterator[Pair]:
    for index, line in enumerate(lines):
        key, colon, value = line.partition(":")
        key = key.strip(" \t>")
        if colon and (key in _READ or key.lower() in _DRIVER):
            yield index, key, value.strip()


def _value(pairs: Sequence[Pair], key: str) -> str | None:
    """Return the one value that stands behind a key; None when there is none, it is not told, or values differ."""
    values = {value for _, name, value in pairs if name == key and value not in _UNTOLD}
    return values.pop() if len(values) == 1 else None


def _driver(pairs: Sequence[Pair]) -> str | None:
    told = {version for _, key, value in pairs if key.lower() in _DRIVER for version in _VERSION.findall(value)}
    return told.pop() if len(told) == 1 else None


def _gpu_names(lines: Sequence[str], pairs: Sequence[Pair]) -> tuple[tuple[int, str], ...]:
    """Return the names that follow the line that announces them, up to the first line that is something else."""
    names: dict[int, set[str]] = {}
    for index, key, value in pairs:
        if key in _NAMES_FOLLOW:
            block = ([value] if key == _MODELS and value else []) + _following(lines, index + 1)
            for line in block:
                _take_name(line, names)
    return tuple((index, found.pop()) for index, found in sorted(names.items()) if len(found) == 1)


def _following(lines: Sequence[str], start: int) -> list[str]:
    end = start
    while end < len(lines) and _NAME.match(lines[end]):
        end += 1
    return [line.lstrip(" \t>") for line in lines[start:end]]


def _take_name(line: str, names: dict[int, set[str]]) -> None:
    key, colon, name = line.partition(":")
    match = _GPU.fullmatch(key.rstrip())
    name = name.partition("(UUID:")[0].strip()
    if not (match and colon and name):
        return
    for index in match[1].split(","):
        names.setdefault(int(index), set()).add(name)


def _topology_not_collected(lines: Sequence[str], pairs: Sequence[Pair]) -> bool:
    for index, key, value in pairs:
        if key in _TOPOLOGY:
            said = value or next((line for line in lines[index + 1 : index + 4] if line), "")
            if said.endswith(_NOT_COLLECTED):
                return True
    return False
