"""How large a model's weights are: from a safetensors index or one safetensors file, never from the name."""

import os
from pathlib import Path

import msgspec

from hostdoctor.budget.model_files import QUANTIZATION
from hostdoctor.errors import SourceError, UsageError
from hostdoctor.facts import Fact
from hostdoctor.parsers.model_config import (
    MAX_CHARACTERS,
    ModelConfig,
    count,
    parse_model_config,
    parse_quantized_cache,
)

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
MAX_INDEX_BYTES = 256 << 20
_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit


class Model(Fact, frozen=True, kw_only=True):
    """A model's config and the size of its tensors; ``weights_source`` says where that is told, or why it is not."""

    config: ModelConfig
    weights_bytes: int | None = None
    weights_source: str


class _Metadata(msgspec.Struct):
    total_size: float | int | None = None


class _Index(msgspec.Struct):
    metadata: _Metadata | None = None


def read_model(path: Path) -> Model:
    """Return what a ``config.json``, or a model's folder that holds one, says.

    Raises UsageError for what does not exist, SourceError and ParseError for what cannot be read.
    """
    try:
        file = path / "config.json" if path.is_dir() else path
    except (OSError, ValueError):
        file = path
    config = parse_model_config(_text(file), _name(file))
    beside = file.parent / QUANTIZATION
    if config.kv_scheme is None and beside.is_file():
        scheme = parse_quantized_cache(_text(beside), _name(beside))
        config = msgspec.structs.replace(config, kv_scheme=scheme)
    size, source = _weights(file.parent)
    return Model(config=config, weights_bytes=size, weights_source=source)


def _name(file: Path) -> str:
    """Return a file's name as text that every output can hold."""
    return str(file).encode("utf-8", "replace").decode()


def _text(file: Path) -> str:
    try:
        if file.exists() and not file.is_file():
            raise UsageError(f"--config: not a regular file: {str(file)[:200]!r}")
        with file.open("rb") as stream:
            data = stream.read(MAX_CHARACTERS + 1)
    except (FileNotFoundError, ValueError):
        raise UsageError(f"--config: no such file: {str(file)[:200]!r}") from None
    except OSError as error:
        raise SourceError(f"{file}: {error.strerror}") from error
    if len(data) > MAX_CHARACTERS:
        raise SourceError(f"{file}: more than {MAX_CHARACTERS >> 20} MiB: not a model's config.json")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SourceError(f"{file}: not UTF-8 text") from None


def _weights(folder: Path) -> tuple[int | None, str]:
    for name, read in ((INDEX, _index_bytes), (SINGLE, safetensors_bytes)):
        file = folder / name
        try:
            if file.is_file():
                size = read(file)
                return size, _name(file) if size is not None else f"{_name(file)}: tells no size"
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            return None, f"{_name(file)}: cannot be read ({type(error).__name__})"
    return None, f"neither {INDEX} nor {SINGLE} beside the config"


def _index_bytes(file: Path) -> int | None:
    """Return ``metadata.total_size``: the bytes of all tensors, headers not counted."""
    with file.open("rb") as stream:
        data = stream.read(MAX_INDEX_BYTES + 1)
    if len(data) > MAX_INDEX_BYTES:
        return None
    metadata = msgspec.json.decode(data, type=_Index).metadata
    return (count(metadata.total_size) or None) if metadata else None


def safetensors_bytes(file: Path) -> int | None:
    """Return the bytes of one safetensors file's tensors: the file without its header; None for another file."""
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        header = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        start = stream.read(1)
    rest = size - _LENGTH_BYTES - header
    return rest if start == b"{" and header <= _MAX_HEADER_BYTES and rest > 0 else None
