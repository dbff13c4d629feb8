"""The size of weights, from an index or one file beside the config."""

import json
from pathlib import Path

import pytest

from hostdoctor.budget.weights import MAX_INDEX_BYTES, read_model
from hostdoctor.errors import HostdoctorError, SourceError, UsageError
from tests.budget.models import LLAMA_8B, write


def index(folder: Path, text: str) -> None:
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def test_an_index_tells_the_bytes_of_all_tensors(tmp_path: Path) -> None:
    write(tmp_path, LLAMA_8B)
    index(tmp_path, json.dumps({"metadata": {"total_size": 16_060_522_496}, "weight_map": {"a": "b.safetensors"}}))
    model = read_model(tmp_path)
    assert (model.weights_bytes, model.config.model_type) == (16_060_522_496, "llama")
    assert model == read_model(tmp_path / "config.json")


@pytest.mark.parametrize(
    "text", ["{}", '{"metadata": {}}', '{"metadata": {"total_size": -5}}', '{"metadata": {"total_size": 0}}',
             '{"metadata": {"total_size": "16"}}', "not json", "[" * 5000, '{"metadata": {"total_size": NaN}}'],
)  # fmt: skip
def test_an_index_that_tells_none_leaves_it_unknown(tmp_path: Path, text: str) -> None:
    write(tmp_path, LLAMA_8B)
    index(tmp_path, text)
    model = read_model(tmp_path)
    assert model.weights_bytes is None
    assert "index.json: " in model.weights_source


def test_an_index_beyond_all_measure_is_not_read_to_its_end(tmp_path: Path) -> None:
    write(tmp_path, LLAMA_8B)
    with (tmp_path / "model.safetensors.index.json").open("wb") as stream:
        stream.truncate(MAX_INDEX_BYTES + 1)
    assert read_model(tmp_path).weights_bytes is None


def test_a_single_file_is_its_size_without_its_header(tmp_path: Path) -> None:
    write(tmp_path, LLAMA_8B)
    header = b'{"w": {"dtype": "BF16", "shape": [50], "data_offsets": [0, 100]}}'
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(100))
    assert read_model(tmp_path).weights_bytes == 100


@pytest.mark.parametrize("data", [b"", b"short", b"\xff" * 100, (5).to_bytes(8, "little") + b"{}   "])
def test_a_file_that_is_no_safetensors_tells_nothing(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, LLAMA_8B)
    (tmp_path / "model.safetensors").write_bytes(data)
    assert read_model(tmp_path).weights_bytes is None


def test_without_either_it_is_said(tmp_path: Path) -> None:
    write(tmp_path, LLAMA_8B)
    assert "neither" in read_model(tmp_path).weights_source


def test_what_does_not_exist_is_usage_and_what_cannot_be_read_is_not(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "nul\0byte", tmp_path / ("n" * 300)):
        with pytest.raises(HostdoctorError) as caught:
            read_model(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="not a regular file"):
        read_model(Path("/dev/zero"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceError, match="not UTF-8"):
        read_model(tmp_path / "binary")
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(SourceError, match="more than 16 MiB"):
        read_model(tmp_path / "huge")
