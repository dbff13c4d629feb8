"""Source in, Host out: read everything, rank the sources, join their records, keep gaps and disagreements."""

from hostdoctor.survey.survey import survey, survey_map

__all__ = ["survey", "survey_map"]
