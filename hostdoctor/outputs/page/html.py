"""The report as one page of HTML: templates/report.html.j2 with what it shows.

Whatever comes from a machine is made printable and escaped on its way in; only what this package draws itself
passes as markup. The page's policy lets nothing be fetched and no script run but the one whose hash it names.
"""

import base64
import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from hostdoctor.facts import Fact
from hostdoctor.outputs.page.content import content_of
from hostdoctor.outputs.page.measured import Room, cut
from hostdoctor.outputs.page.model import Page
from hostdoctor.outputs.page.prose import (
    MOST_CHARACTERS,
    MOST_CODE_CHARACTERS,
    blocks,
    prose,
    unbroken,
    verbatim,
    visible,
)

if TYPE_CHECKING:
    from jinja2 import Environment


class Size(Fact, frozen=True, kw_only=True):
    """How much a page may say: characters of a text and of a piece of code, and of each document."""

    characters: int
    code: int
    room: Room = Room()


MOST_DOCUMENTS = 100
MOST_BYTES = 1_000_000  # what mail still carries
SIZES = (
    Size(characters=MOST_CHARACTERS, code=MOST_CODE_CHARACTERS),
    Size(characters=400, code=10_000, room=Room(charts=12, tables=24, rows=50)),
    Size(characters=150, code=4_000, room=Room(charts=3, tables=6, rows=20)),
    Size(characters=60, code=1_000, room=Room(charts=0, tables=1, rows=3)),
)


def render_page(page: Page) -> str:
    """Return the whole page, below a megabyte: where there is too much to say, all of it is said more briefly."""

    def content(size: Size) -> dict[str, Any]:
        shown = tuple(cut(told, size.room) for told in page.measurements[:MOST_DOCUMENTS])
        return content_of(structs.replace(page, measurements=shown))

    return _short_enough("report.html.j2", content)


def _short_enough(name: str, content: Callable[[Size], dict[str, Any]]) -> str:
    text = ""
    for size in SIZES:
        text = _render(name, content(size), size)
        if len(text.encode("utf-8", "replace")) < MOST_BYTES:
            break
    return text


def _render(name: str, context: dict[str, Any], size: Size) -> str:
    made = environment(size)
    script = _source(made, "report/copy.js")
    style = _styles() + _source(made, "report/style.css")
    return made.get_template(name).render(script=script, script_hash=_hash(script), style=style, **context)


def render_changes_page(context: dict[str, Any]) -> str:
    """Return the page of what changed between two looks at a host."""
    return _short_enough("changes.html.j2", lambda _: context)


def environment(size: Size = SIZES[0]) -> "Environment":
    """Return the environment of the report's templates: escaping, and no name that is not given."""
    import jinja2
    from markupsafe import Markup

    import hostdoctor

    folders = [Path(root, "templates") for root in hostdoctor.__path__]
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=partial(visible, most=size.characters),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    code = partial(verbatim, most=size.code)
    made.filters.update(markup=Markup, verbatim=code, prose=prose, blocks=blocks, exact=repr, unbroken=unbroken)
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
