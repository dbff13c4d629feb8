"""How NVMe drives are: SMART logs, which only root may read, and the temperature that the kernel shows to everyone."""

import os
import re

import msgspec

from hostdoctor.errors import ParseError
from hostdoctor.facts import Gap, NvmeController, NvmeHealth
from hostdoctor.sources.base import Command, Output, Source, nvme_smart
from hostdoctor.survey.values import integer

FACT, TOOL = "source:nvme-smart", "nvme smart-log"
_MILLI = 1000


def with_health(
    source: Source, drives: tuple[NvmeController, ...]
) -> tuple[tuple[NvmeController, ...], tuple[Gap, ...]]:
    """Return the drives with what their SMART logs and sensors say, and why a log that was asked for is missing."""
    commands = _commands(source, drives)
    source.prefetch(commands)
    sensed = [_with_temperature(source, drive) for drive in drives]
    outputs = {output.source: output for command in commands for output in source.run(command)}
    if outputs and all(output.kind == "missing" and output.text is None for output in outputs.values()):
        reason = next(iter(outputs.values())).reason or "not found"
        return tuple(sensed), (Gap(fact=FACT, source=TOOL, reason=reason, kind="missing"),)
    gaps: list[Gap] = []
    logs: dict[str, NvmeHealth] = {}
    for label, output in outputs.items():
        name, log = re.search(r"[^a-z](nvme\d{1,5})(?:n\d{1,5})?(?:\.\w{3,4})?$", label), _log(output, gaps)
        if name and log:
            logs.setdefault(name.group(1), log)
    known = (msgspec.structs.replace(drive, health=logs.get(drive.name or "")) for drive in sensed)
    return tuple(known), tuple(gaps)


def _commands(source: Source, drives: tuple[NvmeController, ...]) -> tuple[Command, ...]:
    """Return what to run: nothing where it must fail, as in most containers, and no drive that may never answer."""
    if not source.is_live:
        return (nvme_smart(""),)
    asked = [drive.name for drive in drives if drive.name and _answers(drive)] if os.geteuid() == 0 else []
    nodes = source.listdir("/dev") if asked else ()
    return tuple(nvme_smart(name) for name in asked if name in nodes)


def _answers(drive: NvmeController) -> bool:
    return drive.transport == "pcie" and drive.state == "live"


def _log(output: Output, gaps: list[Gap]) -> NvmeHealth | None:
    if output.text is None:
        gaps.append(Gap(fact=FACT, source=output.source, reason=output.reason or "no output", kind=output.kind))
        return None
    from hostdoctor.parsers.nvme_smart import parse_nvme_smart

    try:
        return parse_nvme_smart(output.text, output.source)
    except ParseError as error:
        reason = f"line {error.line}: {error.reason}: {error.text!r}" if error.line else error.reason
        gaps.append(Gap(fact=FACT, source=output.source, reason=reason, kind="unreadable"))
        return None


def _with_temperature(source: Source, drive: NvmeController) -> NvmeController:
    """Return the drive with its hwmon sensor's word: millidegrees, and the alarm that is SMART's temperature bit."""
    folder = f"/sys/class/nvme/{drive.name}"
    names = source.listdir(folder) if drive.name and _answers(drive) else ()
    sensor = next((name for name in names if re.fullmatch(r"hwmon\d{1,5}", name)), None)
    if sensor is None:
        return drive
    value = source.read(f"{folder}/{sensor}/temp1_input")
    alarm = integer(source.read(f"{folder}/{sensor}/temp1_alarm"))
    return msgspec.structs.replace(
        drive, temperature_celsius=_degrees(value), temperature_alarm=None if alarm is None else alarm != 0
    )


def _degrees(text: str | None) -> float | None:
    match = re.fullmatch(r"\s*(-?\d{1,6})\s*", text or "")
    return int(match.group(1)) / _MILLI if match else None
