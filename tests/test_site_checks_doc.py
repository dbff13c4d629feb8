"""The check that docs/site-checks.md shows runs as it stands there."""

import json
import re
from pathlib import Path
from typing import Any, get_args

from hostdoctor.diagnosis.report import SkipKind
from tests.cli.support import hostdoctor

TEXT = (Path(__file__).parents[1] / "docs/site-checks.md").read_text(encoding="utf-8")
CODE = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[0]
TWO_GPUS = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n"


def result(folder: Path, *arguments: str) -> dict[str, Any]:
    ran = hostdoctor("check", "--checks-dir", str(folder), "--select", "SITE1", "--format", "json", *arguments)
    found: dict[str, Any] = json.loads(ran.out)["results"][0]
    return found


def test_it_runs_and_explains_itself(tmp_path: Path) -> None:
    folder = tmp_path / "checks"
    folder.mkdir(mode=0o755)
    (folder / "gpus_as_bought.py").write_text(CODE)
    (folder / "gpus_as_bought.py").chmod(0o644)
    (tmp_path / "topo.txt").write_text(TWO_GPUS)
    assert result(folder, "--demo")["status"] == "pass"
    (finding,) = result(folder, "--from", str(tmp_path / "topo.txt"))["findings"]
    assert (finding["severity"], finding["message"]) == ("critical", "2 of 8 GPUs are there")
    assert hostdoctor("explain", "SITE1", "--checks-dir", str(folder)).out.startswith("# SITE1 gpus-not-as-bought")


def test_the_skip_kinds_listed_are_the_ones_there_are() -> None:
    (row,) = re.findall(r"kinds are (.*?) \|", TEXT)
    assert set(re.findall(r"`([a-z-]+)`", row)) == set(get_args(SkipKind))
