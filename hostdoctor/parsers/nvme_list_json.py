"""``nvme list --output-format=json``, the flat form and both nested ones, also amid messages and cut off.

Flat: ``Devices[]`` with ``DevicePath``. Nested: ``Devices[].Subsystems[]`` (nvme-cli 1.x: ``Devices[]``) with
``Controllers[]`` that list their ``Namespaces`` and ``Paths``, or with ``Namespaces[].Paths[]`` that name controllers.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from hostdoctor.parsers.nvme_list_rows import (
    Row,
    controller_name,
    namespace_and_controller,
    told,
    transport_and_bdf,
)
from hostdoctor.parsers.prefix import strip_common_prefix

_TEXT_CHARS = 1 << 23
_FAILURES = 8  # a nested list that is cut fails once a level
_DOCUMENTS = 64
_KEY = re.compile(r'"[A-Za-z]{3,20}"\s*:')
_MARKS = ('"Devices"', '"DevicePath"', '"Controller"')
_INT_DIGITS = 20

Object = dict[str, Any]


class Found(NamedTuple):
    """The rows of all lists in a text; ``is_list`` when one is whole, even if empty; ``is_cut`` when none is."""

    rows: list[Row]
    is_list: bool
    is_cut: bool


def find_json(text: str) -> Found:
    """Return what the JSON in a text lists; nothing where there is none."""
    start = text.find("{")
    if start < 0 or not any(mark in text for mark in _MARKS):
        return Found([], is_list=False, is_cut=False)
    text = text[: start + _TEXT_CHARS]
    found = _find(text)
    return found if found.is_list or found.rows else _find(_without_prefix(text))


def _find(text: str) -> Found:
    rows: list[Row] = []
    is_list, failures, documents, position = False, 0, 0, text.find("{")
    while position >= 0 and failures <= _FAILURES and documents < _DOCUMENTS:
        documents += 1
        document, end = _decode(text, position)
        failures += document is None
        is_list = is_list or (document is not None and isinstance(document.get("Devices"), list))
        rows += _rows(document or {})
        position = text.find("{", end)
    return Found(rows, is_list, is_cut=bool(rows) and not is_list)


def _decode(text: str, position: int) -> tuple[Object | None, int]:
    decoder = json.JSONDecoder(parse_int=_int, parse_float=_ignore, parse_constant=_ignore, strict=False)
    try:
        document, end = decoder.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None, position + 1
    return document, end


def _int(digits: str) -> int | None:
    return int(digits) if len(digits) <= _INT_DIGITS else None


def _ignore(_: str) -> None:
    return None


def _without_prefix(text: str) -> str:
    lines = text.split("\n")
    keys = ((index, _KEY.search(line, 0, 512)) for index, line in enumerate(lines[:2000]))
    return "\n".join(strip_common_prefix(lines, {index: match.start() for index, match in keys if match}))


def _objects(parent: Object, key: str) -> list[Object]:
    value = parent.get(key)
    return [x for x in value if isinstance(x, dict)] if isinstance(value, list) else []


def _rows(document: Object) -> Iterator[Row]:
    for device in _objects(document, "Devices") or [document]:
        for item in _objects(device, "Subsystems") or [device]:
            if "DevicePath" in item:
                yield from _flat(item)
            elif "Controller" in item:
                yield from _controller(item, {}, ())
            else:
                yield from _subsystem(item)


def _flat(item: Object) -> Iterator[Row]:
    namespace, controller = namespace_and_controller(str(item["DevicePath"])[:64])
    if namespace is not None:
        row = _described(item, controller, (namespace,), _sizes([{**item, "NameSpace": namespace}]))
        yield row._replace(is_derived=True, is_flat=True)


def _subsystem(item: Object) -> Iterator[Row]:
    controllers, shared = _objects(item, "Controllers"), _objects(item, "Namespaces")
    sizes = _sizes(shared)
    alone = tuple(_names(shared, "NameSpace")) if len(controllers) == 1 else ()
    for controller in controllers:
        yield from _controller(controller, sizes, alone)
    for namespace in shared:
        for path in _objects(namespace, "Paths"):
            yield from _controller(path, sizes, tuple(_names([namespace], "NameSpace")))


def _controller(item: Object, sizes: dict[str, int], namespaces: tuple[str, ...]) -> Iterator[Row]:
    name = controller_name(str(item.get("Controller"))[:64])
    if name is None:
        return
    own = _objects(item, "Namespaces")
    names = [*_names(own, "NameSpace"), *_names(_objects(item, "Paths"), "Path")] or namespaces
    yield _described(item, name, tuple(dict.fromkeys(names)), sizes | _sizes(own))


def _described(item: Object, controller: str | None, namespaces: tuple[str, ...], sizes: dict[str, int]) -> Row:
    transport, bdf = transport_and_bdf(item.get("Transport"), item.get("Address"))
    return Row(
        controller=controller,
        namespaces=namespaces,
        model=told(item.get("ModelNumber")),
        firmware=told(item.get("Firmware")),
        bdf=bdf,
        transport=transport,
        serial=told(item.get("SerialNumber")),
        sizes=sizes,
    )


def _names(items: list[Object], key: str) -> Iterator[str]:
    for item in items:
        name, _ = namespace_and_controller(str(item.get(key, item.get("Namespace")))[:64])
        if name is not None:
            yield name


def _sizes(namespaces: list[Object]) -> dict[str, int]:
    """Return the bytes of each namespace; old versions overflowed a signed 32-bit number, which tells nothing."""
    sizes = {}
    for item in namespaces:
        size = item.get("PhysicalSize")
        for name in _names([item], "NameSpace"):
            if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 64:
                sizes[name] = size
    return sizes
