"""What every check has to be, whoever wrote it: id, name, folder, documentation, a firing and a quiet case."""

import re
from functools import cache
from pathlib import Path

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.api import Rule
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.report import SEVERITIES
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.facts import Host
from tests.support import write_docs

RULES = load_rules()
FOLDERS = {"1": "affinity", "2": "pcie", "3": "memory", "4": "nvme", "5": "gpu", "9": "doctor"}
HEADINGS = ["## What it checks", "## Why it matters", "## Remedy", "## References"]
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# A name states the problem, never what to do about it.
ADVICE = re.compile(r"^(set|use|enable|disable|avoid|check|fix|install|load|turn)-")

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@cache
def sources_of_tests() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py")))


def function_name(rule: Rule) -> str:
    return rule.module.rpartition(".")[2]


@every_rule
def test_the_identity_follows_the_rules(rule: Rule) -> None:
    assert re.fullmatch(r"HD[1-9]\d\d", rule.id)
    assert NAME.fullmatch(rule.name)
    assert not ADVICE.search(rule.name)
    assert rule.severity in SEVERITIES
    folder, name = rule.module.split(".")[-2:]
    assert folder == FOLDERS[rule.id[2]]
    assert name == rule.name.replace("-", "_") == getattr(rule.function, "__name__", None)


@every_rule
def test_the_documentation_is_whole(rule: Rule) -> None:
    lines = rule.documentation.splitlines()
    assert lines[0].endswith(".")
    assert [line for line in lines if line.startswith("#")] == HEADINGS
    parts = re.split(r"^## .*$", rule.documentation, flags=re.MULTILINE)
    assert all(part.strip() for part in parts)
    assert parts[-1].strip().startswith("- ")


@every_rule
def test_nothing_known_gives_no_error(rule: Rule) -> None:
    for host in (Host(), Host(is_live=True)):
        for ask in (Ask(), Ask(gpus=()), Ask(tp=8, bind=True)):
            (result,) = diagnose(host, ask, (rule,)).results
            assert result.status in ("pass", "skip"), result
            assert result.status == "pass" or (result.skip_kind and result.reason)


@every_rule
@pytest.mark.parametrize("case", ["fires", "quiet"])
def test_a_case_proves_it(rule: Rule, case: str) -> None:
    assert re.search(rf"^[^#\n]*\b{case}\(\s*{function_name(rule)}\b", sources_of_tests(), re.MULTILINE), (
        f"no {case}({function_name(rule)}, …)"
    )


def test_names_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_the_shipped_pages_are_current() -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in write_docs.FOLDER.glob("*.md")}
    assert shipped == write_docs.pages(), "run `make docs`"
