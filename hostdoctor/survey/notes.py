"""What a survey could not establish and where its sources differ, collected while the records are joined."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from hostdoctor.facts import Disagreement, Gap, GapKind

Value = TypeVar("Value", int, float, str)


class Notes:
    """The gaps and disagreements of one survey."""

    def __init__(self) -> None:
        self.gaps: list[Gap] = []
        self.disagreements: list[Disagreement] = []

    def gap(self, fact: str, source: str, reason: str, kind: GapKind = "not-told") -> None:
        """Keep that a fact is not known."""
        self.gaps.append(Gap(fact=fact, source=source, reason=reason, kind=kind))

    def add(self, gaps: Iterable[Gap]) -> None:
        """Keep gaps that a reader or parser noted."""
        self.gaps.extend(gaps)

    def settled(self, fact: str, *, kind: GapKind | None = None) -> None:
        """Forget gaps about a fact (of one kind only, if given) that another source established after all."""
        self.gaps = [gap for gap in self.gaps if gap.fact != fact or kind not in (None, gap.kind)]

    def rename(self, subject: str, name: str) -> None:
        """Call the subject of disagreements by another name; where both are there, the first keeps its place."""
        facts = {d.fact for d in self.disagreements}
        renamed = []
        for d in self.disagreements:
            fact = d.fact.replace(subject, name, 1) if d.fact.startswith(subject + ".") else d.fact
            if fact == d.fact or fact not in facts:
                renamed.append(Disagreement(fact=fact, values=d.values))
        self.disagreements = renamed

    def pick(self, fact: str, told: Mapping[str, Value | None]) -> Value | None:
        """Return the value of the first source that tells one; differing values are kept as a disagreement."""
        known = {source: value for source, value in told.items() if value is not None}
        if len(set(known.values())) > 1:
            self.disagree(fact, known)
        return next(iter(known.values()), None)

    def disagree(self, fact: str, values: Mapping[str, int | float | str | None]) -> None:
        """Keep that sources differ on a fact, with every value."""
        self.disagreements.append(Disagreement(fact=fact, values=dict(values)))
