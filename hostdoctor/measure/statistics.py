"""The statistics of measurements, in one place to import from; all pure Python, no numpy needed.

``estimate_quantile`` for one stream, ``compare_pairs`` for pairs of runs, ``compare_runs`` for whole results.
docs/measuring.md tells the formulas and how they were tried.
"""

from hostdoctor.measure.compare import WorkloadError, compare_runs
from hostdoctor.measure.paired import Paired, compare_pairs, detectable_ratio, holm, pairs_needed, sign_flip_p
from hostdoctor.measure.quantiles import Quantile, estimate_quantile, sample_quantile, samples_needed
from hostdoctor.measure.student import t_cdf, t_quantile
from hostdoctor.measure.verdicts import guard, judge, share, words

__all__ = [
    "Paired",
    "Quantile",
    "WorkloadError",
    "compare_pairs",
    "compare_runs",
    "detectable_ratio",
    "estimate_quantile",
    "guard",
    "holm",
    "judge",
    "pairs_needed",
    "sample_quantile",
    "samples_needed",
    "share",
    "sign_flip_p",
    "t_cdf",
    "t_quantile",
    "words",
]
