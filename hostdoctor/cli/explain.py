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
    from hostdoctor.diagnosis.registry import find, load_rules

    rule = find(load_rules(checks_dir or ()), id)
    emit(f"# {rule.id} {rule.name} ({rule.severity})\n\n{rule.documentation}\n")
