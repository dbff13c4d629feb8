"""The command line: one module a command, imported when that command runs."""

from hostdoctor.cli.app import main

__all__ = ["main"]
