"""Prometheus' own tool, which reads metrics, rules and configurations."""

import subprocess  # noqa: TID251  runs promtool
from pathlib import Path

from tests.placement.tools import needs


def promtool(*arguments: str, text: str = "", folder: Path | None = None) -> str:
    """Run promtool, which has to be content and silent about the metrics; return what it printed."""
    done = subprocess.run(
        [needs("promtool"), *arguments], input=text, cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if arguments[:2] == ("check", "metrics"):
        assert done.stdout + done.stderr == ""
    return done.stdout
