"""Whole hosts for tests, described as data and built as fake roots.

A description is a dict (``tests/hosts/<name>/host.toml``; its fields are :mod:`.description`); devices are made of the
parts in ``tests/hosts/parts.toml``. ``build_files`` turns it into files, links, command outputs and an NVML answer,
``write_tree`` puts them into a directory, ``pack`` into an archive, ``rooted_files`` into a dict for a tree in memory.
"""

from tests.support.hostbuilder.big import big_description
from tests.support.hostbuilder.build import build_files
from tests.support.hostbuilder.catalogue import host_names, load_host
from tests.support.hostbuilder.files import HostFiles
from tests.support.hostbuilder.output import pack, rooted_files, write_tree

__all__ = [
    "HostFiles",
    "big_description",
    "build_files",
    "host_names",
    "load_host",
    "pack",
    "rooted_files",
    "write_tree",
]
