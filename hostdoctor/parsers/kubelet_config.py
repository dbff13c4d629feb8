"""The memory that kubelet keeps free, from its configuration (``KubeletConfiguration``, YAML or JSON).

Only ``evictionHard`` is looked for, in block form (``evictionHard:`` and an indented ``memory.available: 500Mi``) or
in braces. Without it kubelet's own default holds: 100Mi.
"""

import json
import re

from hostdoctor.errors import ParseError

DEFAULT_BYTES = 100 << 20
_SECTION = re.compile(r"^[ \t]*[\"']?evictionHard[\"']?[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#.*$", re.MULTILINE)
_VALUE = re.compile(r"[\"']?memory\.available[\"']?[ \t]*:[ \t]*[\"']?([^\"'\s,}#]{1,40})")
_QUANTITY = re.compile(r"(\d{1,15})(?:\.(\d{1,9}))?(%|[KMGTP]i|[kKMGTP])?")
_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_UNITS |= {f"{unit}i": 1 << (10 * power) for power, unit in enumerate("KMGTP", 1)}


def parse_eviction_bytes(text: str, total_bytes: int | None, source: str = "kubelet config") -> int | None:
    """Return the bytes of ``memory.available`` in evictionHard, the default where it is not set.

    A percentage is of ``total_bytes``, None while that is unknown. Raises ParseError for a text that is no kubelet
    configuration and for a quantity of another shape.
    """
    if "KubeletConfiguration" not in text:
        raise ParseError(source, 0, text[:120], "no KubeletConfiguration")
    value = _of_json(text, source) if text.lstrip("\ufeff \t\r\n").startswith("{") else _of_yaml(text)
    if value is None:
        return DEFAULT_BYTES
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise ParseError(source, 0, value[:60], "no quantity")
    thousandths = int(match[1]) * 1000 + int(((match[2] or "") + "000")[:3])
    if match[3] == "%":
        return None if total_bytes is None else total_bytes * thousandths // 100_000
    return thousandths * _UNITS[match[3] or ""] // 1000


def _of_json(text: str, source: str) -> str | None:
    try:
        found = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        raise ParseError(source, 0, text[:60], "not JSON") from None
    section = found.get("evictionHard")
    value = section.get("memory.available") if isinstance(section, dict) else None
    return None if value is None else str(value)


def _of_yaml(text: str) -> str | None:
    text = _COMMENT.sub("", text)
    section = _SECTION.search(text)
    value = _VALUE.search(_body(text, section)) if section else None
    return value[1] if value else None


def _body(text: str, section: re.Match[str]) -> str:
    """Return what belongs to the section: up to its brace, or the rows indented deeper than its own."""
    rest = text[section.start(1) :]
    if section[1].startswith("{"):
        return rest.partition("}")[0]
    row = section[0]
    indent = len(row) - len(row.lstrip())
    rows = []
    for line in text[section.end() :].split("\n")[1:200]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        rows.append(line)
    return "\n".join(rows)
