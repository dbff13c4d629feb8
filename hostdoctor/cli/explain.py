"""``hostdoctor explain ID``: one check's documentation, from its docstring."""

from typing import Annotated

import typer

from hostdoctor.cli.common import ChecksDirOption, emit

app = typer.Typer(add_completion=False)


@app.command(help="Print one check's documentation.")
def explain(
    id: Annotated[str, typer.Argument(metavar="ID", help="A check's id or name: HD101, gpu-numa-unknown.")],
    checks_dir: ChecksDirOption = None,
) -> None:
    """Print what a check looks at, why it matters, what to do and where that is written. Exits 64 for an unknown id."""
    from hostdoctor.diagnosis.registry import MERGED, find, load_rules

    merged = MERGED.get(id.strip().upper())
    rule = find(load_rules(checks_dir or ()), merged or id)
    before = f"{id.strip().upper()} was merged into {merged}.\n\n" if merged else ""
    emit(f"{before}# {rule.id} {rule.name} ({rule.severity})\n\n{rule.documentation}\n")
