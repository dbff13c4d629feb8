"""Runs in a child of :mod:`hostdoctor.sources.keeper`: binds itself as asked or not at all, then becomes the command.

Descriptor 3 closes by itself when the command is under way; before, it tells why it is not.
"""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from hostdoctor.placement.applying import Step, apply_best
from hostdoctor.sources.keeper import READY

NOT_BOUND, NOT_FOUND = 126, 127
_ROOT = Path(__file__).parents[2]
_CODE = "import sys; sys.path[0] = sys.argv.pop(1); from hostdoctor.placement.becoming import main; main()"


def bound_argv(step: Step, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that become ``argv`` under the binding."""
    import msgspec

    return (sys.executable, "-c", _CODE, str(_ROOT), msgspec.json.encode(step).decode(), *argv)


def main() -> NoReturn:
    """Bind this process and become the words after the step."""
    import msgspec

    os.set_inheritable(READY, False)
    argv = sys.argv[2:]
    try:
        step = msgspec.json.decode(sys.argv[1], type=Step)
        if step.tier != "unbound":
            apply_best((step,), strict=True)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them, and exec would hand that on
        os.execvp(argv[0], argv)
    except OSError as error:
        _refuse(f"{argv[0]}: {(error.strerror or 'cannot be started').lower()}", NOT_FOUND)
    except Exception as error:  # noqa: BLE001  whatever it was, the parent is told
        _refuse(str(error), NOT_BOUND)


def _refuse(reason: str, status: int) -> NoReturn:
    os.write(READY, reason.encode("utf-8", "replace"))
    os._exit(status)
