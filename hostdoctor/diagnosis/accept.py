"""Findings that a site has decided to live with, until a date."""

import datetime

from hostdoctor.facts import Fact


class Accept(Fact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[accept]]`` of the configuration: which finding, why, and until when (inclusive)."""

    id: str
    reason: str
    until: datetime.date
    subject: str = "*"


def by_date(accepts: tuple[Accept, ...], today: datetime.date) -> tuple[tuple[Accept, ...], tuple[Accept, ...]]:
    """Return the acceptances that are in force, and those whose date has passed."""
    return (
        tuple(accept for accept in accepts if accept.until >= today),
        tuple(accept for accept in accepts if accept.until < today),
    )
