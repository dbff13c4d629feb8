"""Running the command line in this process: fast, and with the real entry point."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from hostdoctor.cli import main
from hostdoctor.facts import Fact


class Ran(Fact, frozen=True, kw_only=True):
    """What a run left: exit status and both streams."""

    status: int
    out: str
    err: str


def hostdoctor(*arguments: str) -> Ran:
    """Run ``hostdoctor ARGUMENTS`` and return its outcome."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["hostdoctor", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    return Ran(status=code if isinstance(code, int) else 0, out=out.getvalue(), err=err.getvalue())
