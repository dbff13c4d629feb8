"""Starts the agent again and again and kills it at random moments; prints what each kill left, as JSON lines.

``python -m tests.agent.kill_many TIMES SEED ROOT STATE LOG LINK``: LINK is a file that holds a link's width, which
changes between the starts so that there is something to write.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import time
from pathlib import Path

import hostdoctor.agent.loop
import hostdoctor.agent.state
import hostdoctor.cli.agent  # noqa: F401  all that each start would import anew
from hostdoctor.cli import main

LONGEST_S, A_WRITE_S = 0.8, 0.03
PATIENCE_S = 10.0
WIDTHS = ("8\n", "4\n", "2\n")  # each narrower than the accepted 16: every start has something to write


def start(arguments: list[str], log: str) -> int:
    """Return the PID of an agent in a session of its own."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    sys.argv = ["hostdoctor", "agent", *arguments]
    try:
        main()
    finally:
        os._exit(99)


def left_of(session: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == session and words[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def sound(path: str) -> str:
    """Return SQLite's verdict on a file, ``none`` where there is no file yet."""
    if not Path(path).exists():
        return "none"
    connection = sqlite3.connect(path)
    try:
        verdict = str(connection.execute("PRAGMA integrity_check").fetchone()[0])
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        if "events" in tables:
            connection.execute("SELECT count(*) FROM events").fetchone()
        return verdict
    finally:
        connection.close()


def until_it_writes(path: str) -> None:
    """Wait for something in the state's log, which was not there before: the agent is at its work then."""
    log, deadline = Path(f"{path}-wal"), time.monotonic() + PATIENCE_S
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.001)


def kill_once(number: int, chance: random.Random, root: str, path: str, log: str, link: Path) -> dict[str, object]:
    """Start an agent, kill it at any time or while it writes, look at what is left."""
    sound(path)  # with the last one gone this empties its log
    link.write_text(WIDTHS[number % len(WIDTHS)])
    pid = start(["--from", root, "--state", path, "--interval", "1", "--signals", "0.5"], log)
    if number % 2:
        until_it_writes(path)
    time.sleep(chance.uniform(0.0, A_WRITE_S if number % 2 else LONGEST_S))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    deadline = time.monotonic() + PATIENCE_S
    while left_of(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None, "left": left_of(pid), "db": sound(path)}


def run() -> None:
    times, seed, root, path, log, link = sys.argv[1:]
    chance = random.Random(int(seed))
    os.waitpid(start(["accept-baseline", "--from", root, "--state", path], os.devnull), 0)
    for number in range(int(times)):
        sys.stdout.write(json.dumps(kill_once(number, chance, root, path, log, Path(link))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run()
