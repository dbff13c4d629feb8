"""What a drive's SMART log and sensor say against it, in words."""

from hostdoctor.facts import NvmeController, NvmeHealth

# NVM Express Base Specification, SMART / Health Information log, byte 0.
WARNINGS = (
    "spare capacity below its threshold",
    "temperature beyond its threshold",
    "reliability degraded",
    "read-only",
    "backup of the volatile memory failed",
    "persistent memory region read-only",
)
TEMPERATURE = 1


def alarms(drive: NvmeController) -> list[tuple[str, str, object]]:
    """Return what the drive itself calls critical: in words, where it was read, the value."""
    value = drive.health.critical_warning if drive.health else None
    found: list[tuple[str, str, object]] = []
    if value:
        bits = [name for bit, name in enumerate(WARNINGS) if value >> bit & 1] or ["a reserved bit"]
        found.append((", ".join(bits), f"nvme smart-log /dev/{drive.name}, critical_warning", f"0x{value:02x}"))
    if drive.temperature_alarm and not (value or 0) >> TEMPERATURE & 1:
        degrees = "" if drive.temperature_celsius is None else f" ({drive.temperature_celsius:.0f} °C)"
        source = f"/sys/class/nvme/{drive.name}/hwmon*/temp1_alarm"
        found.append((f"{WARNINGS[TEMPERATURE]}{degrees}", source, 1))
    return found


def wear(drive: NvmeController) -> list[tuple[str, str, object]]:
    """Return what speaks for replacing the drive some time: in words, where it was read, the value."""
    health = drive.health or NvmeHealth()
    source = f"nvme smart-log /dev/{drive.name}"
    found: list[tuple[str, str, object]] = []
    if health.media_errors:
        words = f"{health.media_errors} media error{'s' * (health.media_errors > 1)}"
        found.append((words, f"{source}, media_errors", health.media_errors))
    spare, threshold = health.spare_percent, health.spare_threshold_percent
    below = (health.critical_warning or 0) & 1  # the drive says it already
    if spare is not None and threshold is not None and spare <= threshold and not below:
        found.append((f"{spare} % spare left", f"{source}, avail_spare (threshold {threshold} %)", f"{spare} %"))
    return found
