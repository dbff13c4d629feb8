"""The base of every record."""

import msgspec


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every record: immutable, built by keyword."""
