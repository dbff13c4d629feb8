"""``neighbour.py ARM COMMAND…``: becomes the command; in one arm of an experiment with busy neighbours beside it."""

import os
import sys

BUSY = 3


def main() -> None:
    """Start the neighbours where they are planted, and become the command."""
    arm, *command = sys.argv[1:]
    if os.environ["HOSTDOCTOR_ARM"] == arm:
        for _ in range(BUSY):
            if os.fork() == 0:
                while True:
                    pass
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
