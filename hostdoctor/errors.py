"""The errors that hostdoctor raises on purpose; anything else is a defect (exit status 70)."""


class HostdoctorError(Exception):
    """Base of all: its text is one line fit for a terminal; ``exit_status`` is the process status it maps to."""

    exit_status = 3


class Terminated(SystemExit):
    """The process was told to end by a signal; its code is the exit status. Nothing but the command line catches it."""


class UsageError(HostdoctorError):
    """The command line named something that does not exist: a file, a check id, a GPU."""

    exit_status = 64


class OutputError(HostdoctorError):
    """The output could not be written."""


class SourceError(HostdoctorError):
    """Nothing could be read from a source, or nothing in it was recognised."""


class ParseError(HostdoctorError):
    """A text is not what its parser reads.

    ``source`` names where the text came from, ``line`` is 1-based (0 when no single line is to blame),
    ``text`` is that line, shortened to 120 characters.
    """

    def __init__(self, source: str, line: int, text: str, reason: str = "not understood") -> None:
        self.source = source
        self.line = line
        self.text = text if len(text) <= 120 else text[:119] + "…"
        self.reason = reason
        where = f"{source}, line {line}" if line else source
        super().__init__(f"{where}: {reason}: {self.text!r}")


class PlacementError(HostdoctorError):
    """The command cannot be bound as asked."""

    exit_status = 2


class UnknownNodeError(PlacementError):
    """The NUMA node of a GPU is not known, so that nothing can be bound honestly."""

    exit_status = 3


class LayoutError(HostdoctorError):
    """A model's KV cache is laid out in a way that is not known for certain, so that no number is given."""


class MeasureError(HostdoctorError):
    """An experiment cannot be made here: not permitted, no room, no second node, not this machine."""


def described(error: BaseException) -> str:
    """Return an exception of somebody else's code as ``ValueError: why``, also one that cannot be put in words."""
    try:
        return f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001  its own __str__ may raise anything
        return type(error).__name__
