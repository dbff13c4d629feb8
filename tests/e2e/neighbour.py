"""``neighbour.py ARM COMMAND… --port N``: becomes the command; in one arm with busy neighbours once it listens."""

import os
import socket
import sys
import time

BUSY = 3


def main() -> None:
    """Start the neighbours where they are planted, and become the command."""
    arm, *command = sys.argv[1:]
    port = int(command[command.index("--port") + 1])
    if os.environ["HOSTDOCTOR_ARM"] == arm:
        for _ in range(BUSY):
            if os.fork() == 0:
                _be_busy(port)
    os.execvp(command[0], command)


def _be_busy(port: int) -> None:
    while not _listens(port):
        time.sleep(0.5)
    while True:
        pass


def _listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    main()
