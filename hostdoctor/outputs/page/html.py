"""The report as one page of HTML: templates/report.html.j2 with what it shows.

Whatever comes from a machine is made printable and escaped on its way in; only what this package draws itself
passes as markup. The page's policy lets nothing be fetched and no script run but the one whose hash it names.
"""

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostdoctor.outputs.page.content import content_of
from hostdoctor.outputs.page.model import Page
from hostdoctor.outputs.page.prose import blocks, prose, unbroken, verbatim, visible

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(page: Page) -> str:
    """Return the whole page."""
    return _render("report.html.j2", content_of(page))


def _render(name: str, context: dict[str, Any]) -> str:
    made = environment()
    script = _source(made, "report/copy.js")
    style = _styles() + _source(made, "report/style.css")
    return made.get_template(name).render(script=script, script_hash=_hash(script), style=style, **context)


def render_changes_page(context: dict[str, Any]) -> str:
    """Return the page of what changed between two looks at a host."""
    return _render("changes.html.j2", context)


def environment() -> "Environment":
    """Return the environment of the report's templates: escaping, and no name that is not given."""
    import jinja2
    from markupsafe import Markup

    import hostdoctor

    folders = [Path(root, "templates") for root in hostdoctor.__path__]
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(markup=Markup, verbatim=verbatim, prose=prose, blocks=blocks, exact=repr, unbroken=unbroken)
    return made


def _source(made: "Environment", name: str) -> str:
    assert made.loader is not None
    return made.loader.get_source(made, name)[0].strip()


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _styles() -> str:
    from hostdoctor.outputs.map_style import MAP, PALETTE
    from hostdoctor.outputs.page.charts import STYLE

    return f"{PALETTE}{MAP}{STYLE}"
