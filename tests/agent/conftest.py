"""What the tests of the agent take from others."""

from tests.cli.conftest import root_of

__all__ = ["root_of"]
