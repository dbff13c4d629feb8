"""``hostdoctor topo``: the map alone."""

from typing import Annotated, Literal

import typer

from hostdoctor.cli.common import (
    DemoOption,
    FromOption,
    QuickOption,
    TimeoutOption,
    emit,
    open_evidence,
    survey_host,
    terminal_style,
    timeout_of,
)

app = typer.Typer(add_completion=False)


@app.command(help="Print the map: NUMA nodes, root complexes, GPUs, NICs and NVMe drives.")
def topo(
    from_: FromOption = None,
    format_: Annotated[Literal["text", "json", "svg"], typer.Option("--format", help="How to print.")] = "text",
    timeout: TimeoutOption = None,
    quick: QuickOption = False,
    demo: DemoOption = False,
) -> None:
    """Print the host as a tree, as JSON or as a picture. Exits 0 when anything could be read."""
    source = open_evidence(from_, demo=demo, timeout_s=timeout_of(timeout, quick=quick))
    host = survey_host(source, map_only=format_ != "json")
    if format_ == "json":
        from hostdoctor.outputs.report_json import render_json

        emit(render_json(host))
    elif format_ == "svg":
        from hostdoctor.outputs.topo_svg import render_topo_svg

        emit(render_topo_svg(host) + "\n")
    else:
        from hostdoctor.outputs.topo_text import render_topo

        emit(render_topo(host, terminal_style()))
