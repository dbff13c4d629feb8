"""Records whose every free text is hostile: what a page or a picture of them must survive."""

from typing import Any, TypeVar

import msgspec

MARKUP = "<script>alert(1)</script>"
HOSTILE = (
    MARKUP,
    "\"'><img src=x onerror=alert(1)>",
    "</title></style></svg></script><script>alert(1)</script>",
    "]]><!--",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u2066\u200b",
    "a\x00b\x1b[31mc\x7f\ufffe",
    "&lt;b&gt;&amp;&#60;i&#62;",
    "long" * 25_000,
    "漢字😀",
)
Record = TypeVar("Record", bound=msgspec.Struct)


def poisoned(record: Record, text: str) -> Record:
    """Return the record with ``text`` before every string that is no fixed word, keys of maps included."""
    fields = {field.name: field for field in msgspec.inspect.type_info(type(record)).fields}  # type: ignore[attr-defined]
    changed = {
        name: _value(getattr(record, name), field.type, text)
        for name, field in fields.items()
        if name != "schema_version"
    }
    return msgspec.structs.replace(record, **changed)


def _value(value: Any, kind: Any, text: str) -> Any:
    if isinstance(value, str) or value is None:
        return value if not _takes_text(kind) else text + (value or "")
    if isinstance(value, msgspec.Struct):
        return poisoned(value, text)
    if isinstance(value, tuple):
        return tuple(_value(item, getattr(kind, "item_type", kind), text) for item in value)
    if isinstance(value, dict):
        return {text + key: _value(item, getattr(kind, "value_type", kind), text) for key, item in value.items()}
    return value


def _takes_text(kind: Any) -> bool:
    kinds = getattr(kind, "types", (kind,))
    return any(isinstance(one, msgspec.inspect.StrType) for one in kinds)
