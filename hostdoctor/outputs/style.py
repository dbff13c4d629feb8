"""Colour for terminals, off for pipes and ``NO_COLOR``."""

from hostdoctor.facts import Fact

_CODES = {"critical": "1;31", "warning": "33", "ok": "32", "unknown": "35", "info": "36", "dim": "2", "bold": "1"}


class Style(Fact, frozen=True, kw_only=True):
    """Whether to colour, and how wide a line may be (None: as long as it is)."""

    colour: bool = False
    width: int | None = None

    def paint(self, text: str, name: str) -> str:
        """Return the text in a named colour, or as it is."""
        return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if self.colour else text

    def wrap(self, text: str, first: str, rest: str) -> str:
        """Return the text after ``first``, further lines after ``rest``, no wider than the terminal."""
        if self.width is None:
            return first + text
        import textwrap

        width = max(self.width, 40)
        return textwrap.fill(text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False)
