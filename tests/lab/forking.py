"""Starts hostdoctor in the guest from a process that has its modules already: emulated, reading them takes seconds.

What runs is the command line's own ``main``, in a process of its own, with streams, environment, user and control group
as a shell would start it.
"""

import importlib
import os
import pkgutil
import runpy
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import hostdoctor
from hostdoctor.diagnosis.registry import load_rules

ELSEWHERE = ("hostdoctor.__main__", "hostdoctor.sources.nvml_child", "hostdoctor.sources.cpu_child")  # not its own


def read_modules() -> None:
    """Import what the commands import, before the first start."""
    importlib.import_module("jinja2")
    for module in pkgutil.walk_packages(hostdoctor.__path__, "hostdoctor."):
        if module.name not in ELSEWHERE:
            importlib.import_module(module.name)
    load_rules()


def start(
    words: tuple[str, ...], environment: Mapping[str, str], *, folder: Path, user: int | None, group: str | None
) -> dict[str, Any]:
    """Return the exit status and both streams of hostdoctor with these arguments."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            _become(words, environment, folder, user, group, out.fileno(), err.fileno())
        _, ended = os.waitpid(pid, 0)
        texts = [(stream.seek(0), stream.read().decode())[1] for stream in (out, err)]
    return {"status": os.waitstatus_to_exitcode(ended), "out": texts[0], "err": texts[1]}


def _become(
    words: tuple[str, ...],
    environment: Mapping[str, str],
    folder: Path,
    user: int | None,
    group: str | None,
    out: int,
    err: int,
) -> NoReturn:
    status = 255
    try:
        for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (open(n, m, closefd=False) for n, m in enumerate("rww"))  # noqa: SIM115
        if group is not None:
            Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv[1:] = words
        runpy.run_module("hostdoctor", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
