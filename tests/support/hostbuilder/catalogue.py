"""Reading descriptions and parts from ``tests/hosts``."""

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from tests.support.hostbuilder.description import Part

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HOSTS = Path(__file__).parents[2] / "hosts"


def host_names() -> list[str]:
    """Return the names of the described hosts."""
    return sorted(path.parent.name for path in HOSTS.glob("*/host.toml"))


def load_host(name: str) -> dict[str, Any]:
    """Return a host's description; ``base`` names one that it changes (tables merge, other values replace)."""
    description = tomllib.loads((HOSTS / name / "host.toml").read_text(encoding="utf-8"))
    base = description.pop("base", None)
    return merged(load_host(base), description) if base else description


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes``; neither is altered."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


@lru_cache(maxsize=1)
def parts() -> dict[str, Part]:
    """Return the parts that every host may use."""
    return msgspec.convert(tomllib.loads((HOSTS / "parts.toml").read_text(encoding="utf-8")), dict[str, Part])
