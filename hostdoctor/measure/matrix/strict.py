"""TOML that is told what it may say: a misspelt key is refused with the nearest one that there is."""

from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from hostdoctor.errors import UsageError

MAX_BYTES = 1 << 20
T = TypeVar("T", bound=msgspec.Struct)


def read_toml(path: Path, kind: type[T]) -> T:
    """Return a file's content as a record; raise UsageError for no file, an unknown key, a value of another kind."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a regular file")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (FileNotFoundError, ValueError):
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path}: more than {MAX_BYTES >> 20} MiB")
    return decode_toml(data, kind, str(path))


def decode_toml(data: bytes, kind: type[T], name: str) -> T:
    """Return TOML as a record; raise UsageError, naming the file and the place."""
    try:
        raw = msgspec.toml.decode(data)
        refuse_unknown(raw, kind, name)
        return msgspec.convert(raw, kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}: {error}") from error


def refuse_unknown(raw: Any, kind: Any, name: str, place: str = "") -> None:
    """Raise UsageError for the first key that the record has no field for."""
    if isinstance(raw, list):
        for index, one in enumerate(raw):
            refuse_unknown(one, kind, name, f"{place}[{index}]")
    if not isinstance(raw, dict) or not _is_record(kind):
        return
    hints = get_type_hints(kind)
    for key, value in raw.items():
        where = f"{place}.{key}" if place else key
        if key not in hints:
            raise UsageError(f"{name}: no such key: {where}{_nearest(key, list(hints))}")
        refuse_unknown(value, _record_in(hints[key]), name, where)


def _nearest(key: str, known: list[str]) -> str:
    import difflib

    found = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f" (nearest: {found[0]})" if found else f" (known: {', '.join(known)})"


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _record_in(hint: Any) -> Any:
    """Return the record that a field's type holds, alone, optional or in a tuple; None where it holds none."""
    if _is_record(hint):
        return hint
    return next((found for part in get_args(hint) if (found := _record_in(part)) is not None), None)
