"""What counters did between two readings (``Host.samples``)."""

from hostdoctor.facts import Fact, Host, Sample


class Rise(Fact, frozen=True, kw_only=True):
    """By how much a counter rose, and in how long."""

    name: str
    by: int
    seconds: float

    @property
    def per_minute(self) -> float:
        """The mean rate."""
        return self.by * 60 / self.seconds

    @property
    def evidence(self) -> tuple[str, str]:
        """The counter and its rise, as a finding quotes them."""
        return self.name, f"+{self.by} in {self.seconds:.1f} s"


def rise(host: Host, name: str) -> Rise | None:
    """Return how a counter rose in its last sample; None when it was not read twice, or fell (reset or wrapped)."""
    sample = next((s for s in reversed(host.samples) if name in s.before and name in s.after), None)
    return None if sample is None else _rise(sample, name)


def rises(host: Host, prefix: str, suffix: str = "") -> tuple[Rise, ...]:
    """Return how every counter rose whose name begins and ends so; those that stood still are left out."""
    found = (
        _rise(sample, name)
        for sample in host.samples
        for name in sample.before
        if name.startswith(prefix) and name.endswith(suffix) and name in sample.after
    )
    return tuple(r for r in found if r is not None and r.by > 0)


def _rise(sample: Sample, name: str) -> Rise | None:
    by = sample.after[name] - sample.before[name]
    return Rise(name=name, by=by, seconds=sample.seconds) if by >= 0 and sample.seconds > 0 else None
