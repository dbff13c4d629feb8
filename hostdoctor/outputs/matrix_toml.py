"""An experiment as the commented TOML that a person goes on with."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostdoctor.measure.matrix.experiment import Experiment
from hostdoctor.outputs.words import printable


def render_experiment_file(
    experiment: Experiment, *, version: str, notes: Sequence[str], placement: Sequence[str]
) -> str:
    """Return the file; ``placement`` and ``notes`` become comments."""
    import jinja2

    import hostdoctor

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(root, "templates", "matrix") for root in hostdoctor.__path__]),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  TOML: every value goes through toml_value
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(toml=toml_value, comment=lambda text: printable(text, 1000))
    template = made.get_template("experiment.toml.j2")
    return template.render(x=experiment, version=version, notes=notes, placement=placement)


def toml_value(value: Any) -> str:
    """Return a text, number, truth value or list as TOML; a key too is a quoted text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's basic strings are JSON's
    return repr(value)
