"""The NVML reader's lines, put together whatever a library printed between them."""

import pytest

from hostdoctor.sources.base import NvmlOutput
from hostdoctor.sources.commands import Completed
from hostdoctor.sources.nvml import nvml_output

LINES = ['{"count": 1}', '{"gpu": {"index": 0}}', '{"end": true}']


@pytest.mark.parametrize("stray", ["", "warning", '{"gpus": 5}', '{"state": 5}', "[" * 100_000, '"a"', "[1]"])
def test_stray_lines_change_nothing(stray: str) -> None:
    told = nvml_output(Completed(text="\n".join([LINES[0], stray, *LINES[1:]])))
    assert told == NvmlOutput(document={"count": 1, "gpus": [{"index": 0}], "end": True}, state="ok")
