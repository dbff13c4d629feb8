"""Asking NVML through a child process, and putting its lines together."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hostdoctor.facts import Sample
from hostdoctor.sources.base import NvmlOutput
from hostdoctor.sources.commands import Completed, Running

CHILD = Path(__file__).with_name("nvml_child.py")


def start_nvml(timeout_s: float) -> Running:
    """Start the reader; :func:`nvml_output` takes what it returns."""
    return Running((sys.executable, str(CHILD)), time.monotonic() + timeout_s, os.environ)


def start_nvml_sample(seconds: float, timeout_s: float) -> Running:
    """Start a reader that reads the counters twice; :func:`nvml_sample` takes what it returns."""
    deadline = time.monotonic() + timeout_s + seconds
    return Running((sys.executable, str(CHILD), "sample", str(seconds)), deadline, os.environ)


def nvml_sample(completed: Completed) -> Sample | None:
    """Return the two readings, or None when there were not two."""
    readings = next((part for part in _parts(completed.text) if "after" in part), None)
    try:
        return msgspec.convert(readings, Sample)
    except msgspec.ValidationError:
        return None


def nvml_output(completed: Completed) -> NvmlOutput:
    """Return the document that the child's lines make, or why there is none.

    Lines that came before a timeout are kept: the GPUs that did answer stay known.
    """
    gpus: list[Any] = []
    document: dict[str, Any] = {}
    failure: NvmlOutput | None = None
    for part in _parts(completed.text):
        if "gpu" in part:
            gpus.append(part["gpu"])
        elif "state" in part:
            with contextlib.suppress(msgspec.ValidationError):
                failure = msgspec.convert(part, NvmlOutput)
        else:
            document.update(part)
    answered = document | {"gpus": gpus} if "count" in document else None
    if failure is not None:
        return NvmlOutput(document=answered, state=failure.state, reason=failure.reason)
    if "end" in document:
        return NvmlOutput(document=answered, state="ok")
    if completed.kind == "timeout":
        return NvmlOutput(document=answered, state="timeout", reason=completed.reason)
    if completed.kind in ("missing", "denied"):
        return NvmlOutput(reason=f"could not be asked: {completed.reason}")
    return NvmlOutput(document=answered, state="error", reason=completed.reason)


def _parts(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects, line by line; a line that was cut short is dropped."""
    for line in text.splitlines():
        try:
            part = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(part, dict):
            yield part
