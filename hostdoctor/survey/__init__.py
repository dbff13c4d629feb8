"""Source in, Host out: read everything, rank the sources, join their records, keep gaps and disagreements."""

from hostdoctor.survey.survey import survey

__all__ = ["survey"]
