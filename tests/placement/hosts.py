"""Whole test hosts, surveyed once, and GPUs chosen and bound on them in one word."""

from functools import cache
from typing import Any

from hostdoctor.facts import Host
from hostdoctor.placement.binding import bind
from hostdoctor.placement.model import Binding
from hostdoctor.placement.selection import select
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey
from tests.support.hostbuilder import build_files, load_host, rooted_files


@cache
def surveyed(name: str) -> Host:
    """Return a host of ``tests/hosts`` as a survey of it finds it."""
    files = build_files(load_host(name))
    return survey(RootSource(MemoryTree(rooted_files(files), files.links), name))


def bound(host: Host | str, gpus: str = "all", policy: Any = "bind", **more: Any) -> Binding:
    """Return the binding of some GPUs of a host."""
    host = surveyed(host) if isinstance(host, str) else host
    selection = select(host, gpus, environ_devices=None, environ_order="PCI_BUS_ID")
    return bind(host, selection, policy=policy, **more)
