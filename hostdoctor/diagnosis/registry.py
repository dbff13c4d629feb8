"""Finding the checks: every module below ``hostdoctor.checks`` that holds a function marked with ``@check``."""

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from hostdoctor.diagnosis.api import DuplicateCheckError, Rule
from hostdoctor.errors import UsageError

# Ids that were given out and are part of another check now; never given out again.
MERGED = {"HD108": "HD103", "HD205": "HD204", "HD304": "HD104"}


def load_rules(checks_dirs: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """Return every check, in order of id, with those of a site's own folders.

    Raises DuplicateCheckError when two share an id, UsageError for a site's folder or check that is refused.
    """
    package = importlib.import_module("hostdoctor.checks")
    rules: dict[str, Rule] = {}
    for folder in pkgutil.iter_modules(package.__path__, "hostdoctor.checks."):
        for module in pkgutil.iter_modules(importlib.import_module(folder.name).__path__, folder.name + "."):
            for rule in _rules_in(module.name):
                if rule.id in rules:
                    raise DuplicateCheckError(f"{rule.id} is in {rules[rule.id].module} and in {rule.module}")
                rules[rule.id] = rule
    if checks_dirs:
        from hostdoctor.diagnosis.site import site_rules

        rules = site_rules(checks_dirs, rules)
    return tuple(rules[key] for key in sorted(rules))


def _rules_in(module: str) -> Iterable[Rule]:
    members = vars(importlib.import_module(module)).values()
    return (member.rule for member in members if isinstance(getattr(member, "rule", None), Rule))


def choose(rules: tuple[Rule, ...], select: Iterable[str], ignore: Iterable[str]) -> tuple[Rule, ...]:
    """Return the rules that are selected (all when none is named) and not ignored, by id or name.

    Raises UsageError for an unknown id, with the nearest known ones.
    """
    wanted = [find(rules, name).id for name in select]
    unwanted = {find(rules, name).id for name in ignore}
    chosen = tuple(rule for rule in rules if (not wanted or rule.id in wanted) and rule.id not in unwanted)
    if not chosen:
        raise UsageError("--select and --ignore leave no check to run")
    return chosen


def find(rules: tuple[Rule, ...], name: str) -> Rule:
    """Return a rule by id (any case) or name; raise UsageError naming the nearest ones."""
    by_name = {rule.id.lower(): rule for rule in rules} | {rule.name: rule for rule in rules}
    rule = by_name.get(name.strip().lower())
    if rule is not None:
        return rule
    import difflib

    begun = [known for known in by_name if name and known.startswith(name.lower())]
    near = (begun + difflib.get_close_matches(name.lower(), list(by_name), n=3, cutoff=0.6))[:3]
    hint = f" (did you mean {', '.join(dict.fromkeys(by_name[n].id for n in near))}?)" if near else ""
    raise UsageError(f"unknown check id: {name[:60]!r}{hint}")
