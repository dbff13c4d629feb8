"""What stands before the program of a command line, such as ``env A=B``, ``nice -n 5``, ``sudo -E``."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hostdoctor.facts import Fact
from hostdoctor.placement.words import basename, skip_options


class _Form(NamedTuple):
    """A program that starts the words after it: its options that take a value, and its operands before them."""

    with_value: str = ""
    operands: int = 0


_FORMS = {
    "env": _Form("-u --unset -C --chdir -S --split-string"),
    "nice": _Form("-n --adjustment"),
    "ionice": _Form("-c -n --class --classdata"),
    "nohup": _Form(),
    "setsid": _Form(),
    "exec": _Form("-a"),
    "time": _Form("-f -o --format --output"),
    "timeout": _Form("-k -s --kill-after --signal", 1),
    "stdbuf": _Form("-i -o -e --input --output --error"),
    "chrt": _Form("-T -P -D --sched-runtime --sched-period --sched-deadline", 1),
    "sudo": _Form(
        "-C -D -g -h -p -R -r -T -t -U -u --close-from --chdir --group --host --prompt --chroot --role"
        " --command-timeout --type --other-user --user"
    ),
    "doas": _Form("-a -C -u"),
    "numactl": _Form(
        "-N -C -m -p -P -i -w --cpunodebind --physcpubind --membind --preferred --preferred-many --interleave"
        " --weighted-interleave"
    ),
    "taskset": _Form("", 1),
}
BINDERS = ("numactl", "taskset")
RAISERS = ("sudo", "doas")


class Binder(Fact, frozen=True, kw_only=True):
    """A ``numactl`` or ``taskset`` in front of the program, with its options."""

    name: str
    options: tuple[tuple[str, str], ...]


class Prefix(Fact, frozen=True, kw_only=True):
    """The words before a program. ``program`` is its position, the number of words where none follows.

    ``environment`` holds the variables that the words set. ``carry_at`` is where variables must be written so that they
    reach the program, None where all pass; ``dropper`` is the program that drops them, ``unset`` the names that
    ``env -u`` drops (empty where it drops all). ``split`` tells that ``env -S`` hides the rest in one string.
    """

    program: int = 0
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    carry_at: int | None = None
    dropper: str | None = None
    unset: tuple[str, ...] = ()
    binders: tuple[Binder, ...] = ()
    names: tuple[str, ...] = ()
    split: bool = False


class _Reading:
    """A prefix while it is read."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv = argv
        self.at = 0
        self.environment: dict[str, str] = {}
        self.carry_at: int | None = None
        self.dropper: str | None = None
        self.unset: tuple[str, ...] = ()
        self.binders: list[Binder] = []
        self.names: list[str] = []
        self.split = False


def read_prefix(argv: Sequence[str]) -> Prefix:
    """Return what stands before the program of a command line."""
    reading = _Reading(argv)
    _assignments(reading)
    while reading.at < len(argv) and not reading.split and basename(argv[reading.at]) in _FORMS:
        _step(reading, basename(argv[reading.at]))
    return Prefix(
        program=reading.at,
        environment=reading.environment,
        carry_at=reading.carry_at,
        dropper=reading.dropper,
        unset=reading.unset,
        binders=tuple(reading.binders),
        names=tuple(reading.names),
        split=reading.split,
    )


def is_assignment(word: str) -> bool:
    """Tell whether a word sets a variable: ``NAME=value``."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isascii() and name.isidentifier()


def _assignments(reading: _Reading, *, any_name: bool = False) -> None:
    """Read ``NAME=value``; env(1) takes any name."""
    while reading.at < len(reading.argv) and _assigns(reading.argv[reading.at], any_name=any_name):
        name, _, value = reading.argv[reading.at].partition("=")
        reading.environment[name] = value
        reading.at += 1


def _assigns(word: str, *, any_name: bool) -> bool:
    return "=" in word[1:] if any_name else is_assignment(word)


def _step(reading: _Reading, name: str) -> None:
    form = _FORMS[name]
    at, options = skip_options(reading.argv, reading.at + 1, form.with_value)
    reading.at = min(len(reading.argv), at + form.operands)
    reading.names.append(name)
    if name in BINDERS:
        reading.binders.append(Binder(name=name, options=tuple(options)))
    elif name == "env":
        _env(reading, options)
    elif name == "sudo":
        _sudo(reading, options)
    elif name == "doas":
        reading.environment.clear()
        _drops(reading, "doas", ())


def _env(reading: _Reading, options: list[tuple[str, str]]) -> None:
    names = [option for option, _ in options]
    lone_dash = reading.at < len(reading.argv) and reading.argv[reading.at] == "-"
    reading.at += lone_dash
    cleared = lone_dash or any(name == "-i" or (name[2:] and "--ignore-environment".startswith(name)) for name in names)
    unset = tuple(value for option, value in options if option in ("-u", "--unset"))
    reading.split = "-S" in names or "--split-string" in names
    if cleared:
        reading.environment.clear()
    for name in unset:
        reading.environment.pop(name, None)
    _assignments(reading, any_name=True)
    if cleared or unset:
        _drops(reading, "env", () if cleared else unset)
    elif reading.dropper in RAISERS:
        reading.carry_at, reading.dropper = reading.at, "env"  # words of this env reach the program past sudo


def _sudo(reading: _Reading, options: list[tuple[str, str]]) -> None:
    keeps = any(option in ("-E", "--preserve-env") and not value for option, value in options)
    if not keeps:
        reading.environment.clear()
    _assignments(reading)
    if not keeps:
        _drops(reading, "sudo", ())


def _drops(reading: _Reading, dropper: str, unset: tuple[str, ...]) -> None:
    all_dropped_before = reading.dropper is not None and not reading.unset
    reading.carry_at, reading.dropper = reading.at, dropper
    reading.unset = () if all_dropped_before else (*reading.unset, *unset) if unset else ()
