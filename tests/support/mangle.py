"""What happens to a text on its way into an issue, a mail or a log."""

import re
import textwrap
from collections.abc import Callable


def _before_each_line(prefix: Callable[[int], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(prefix(i) + line for i, line in enumerate(text.split("\n")))


def _cut_at(columns: int) -> Callable[[str], str]:
    """Break lines as a terminal does: at a column, also inside a word."""

    def cut(text: str) -> str:
        pieces = ([line[i : i + columns] for i in range(0, len(line), columns)] or [""] for line in text.split("\n"))
        return "\n".join(piece for line in pieces for piece in line)

    return cut


def _wrapped_at(columns: int) -> Callable[[str], str]:
    """Break lines as a mailer does: between words."""

    def wrap(text: str) -> str:
        wrapped = (
            textwrap.wrap(line, columns, break_long_words=False, break_on_hyphens=False) for line in text.split("\n")
        )
        return "\n".join(piece for line in wrapped for piece in (line or [""]))

    return wrap


_quoted = _before_each_line(lambda i: "> ")
_logged = _before_each_line(lambda i: f"2024-01-02 03:{i % 60:02}:05.678[{4000 + i}][DEBUG] job stdout ")

MANGLINGS: dict[str, Callable[[str], str]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "byte-order mark": lambda text: "\ufeff" + text,
    "escapes": lambda text: "\n".join(f"\x1b[0m{line}\x1b[K" for line in text.split("\n")),
    "escapes without ESC": lambda text: "\n".join(f"[1m{line}[0m" for line in text.split("\n")),
    "quoted": _quoted,
    "quoted twice": _before_each_line(lambda i: ">> "),
    "table bar": _before_each_line(lambda i: "| "),
    "indented": _before_each_line(lambda i: " " * 8),
    "tabs": _before_each_line(lambda i: "\t"),
    "blanks collapsed": lambda text: re.sub(r"[ \t]+", " ", text),
    "no-break spaces": lambda text: text.replace("  ", " \u00a0"),
    "log": _logged,
    "ray": _before_each_line(lambda i: f"(Worker pid={100 + i}, ip=10.0.0.{i % 9}) "),
    "rank": _before_each_line(lambda i: "[rank0]: "),
    "fenced": lambda text: f"```text\n{text}\n```\n",
    "in a session": lambda text: f"me@host:~$ cat topology\n{text}\nme@host:~$ nproc\n64\n",
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "twice": lambda text: text + "\n" + text,
    "trailing blanks": lambda text: "\n".join(line + "   " for line in text.split("\n")),
    "on one line": lambda text: text.replace("\n", " ") + "\n",
    "terminal of 80": _cut_at(80),
    "terminal of 132": _cut_at(132),
    "mail of 72": _wrapped_at(72),
    "mail of 100": _wrapped_at(100),
    "quoted, then mail": lambda text: _wrapped_at(74)(_quoted(text)),
    "terminal, then log": lambda text: _logged(_cut_at(120)(text)),
}
