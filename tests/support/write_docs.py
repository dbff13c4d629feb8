"""Writes ``docs/checks/``: a page for each check from its docstring, and a table of all: ``make docs``."""

from pathlib import Path

from hostdoctor.diagnosis.api import Rule
from hostdoctor.diagnosis.registry import MERGED, load_rules

FOLDER = Path(__file__).parents[2] / "docs" / "checks"
INTRODUCTION = """# The checks

Generated from the docstrings in `checks/` by `make docs`; `hostdoctor explain ID` prints the same. The severity is the
usual one: a finding can be milder or graver, as its page says.

| id | name | severity | finds |
|---|---|---|---|
"""


def pages() -> dict[str, str]:
    """Return every file of the folder by name."""
    rules = load_rules()
    table = "".join(_row(rule) for rule in rules)
    merged = "".join(f"{old} was merged into {new}. " for old, new in MERGED.items()).rstrip()
    return {"README.md": f"{INTRODUCTION}{table}\n{merged}\n"} | {page_name(rule): _page(rule) for rule in rules}


def page_name(rule: Rule) -> str:
    """Return the name of a check's page: ``HD201-gpu-link-narrow.md``."""
    return f"{rule.id}-{rule.name}.md"


def _page(rule: Rule) -> str:
    return f"# {rule.id} {rule.name}\n\nSeverity: {rule.severity}\n\n{rule.documentation.rstrip()}\n"


def _row(rule: Rule) -> str:
    summary = rule.documentation.partition("\n")[0].rstrip(".").replace("|", "\\|")
    return f"| [{rule.id}]({page_name(rule)}) | {rule.name} | {rule.severity} | {summary} |\n"


def main() -> None:
    """Write the pages; remove those of checks that are gone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
