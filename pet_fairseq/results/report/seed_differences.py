"""Differences between two groups of runs, seed by seed.

Two trainings with the same seed see the same batches in the same order, so their difference varies
less than their scores do.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from typing import NamedTuple, Optional

from pet_fairseq.results.report.measure import Run
from pet_fairseq.results.report.scoring import Scoring
from pet_fairseq.results.report.seed_groups import RunGroup, seed_of

# Student's t with 1, 2, ... degrees of freedom, two-sided 95%
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
NORMAL_95 = 1.960  # of the normal distribution


class Difference(NamedTuple):
    """The mean over `seeds`, and half the width of its 95% confidence interval."""

    mean: float
    half_width: float
    seeds: int


class Score(NamedTuple):
    """A figure by which runs are compared.

    Attributes:
        of: a run's figure, None if it has none. digits: decimals to show.
    """

    name: str
    of: Callable[[Run], Optional[float]]
    digits: int


def _at(beam: Optional[int], scores: dict[int, float]) -> Optional[float]:
    return None if beam is None else scores.get(beam)


def paired_scores(scoring: Scoring, beam: Optional[int]) -> list[Score]:
    """The scores to compare, the one that shows the smallest differences first."""
    return [
        Score("validation KL, bits", lambda run: run.validation.kl, 3),
        Score("validation NLL, bits", lambda run: run.validation.nll, 3),
        Score(f"{scoring.name} beam {beam}", lambda run: _at(beam, run.score), 2),
        Score(f"{scoring.finer_name} beam {beam}", lambda run: _at(beam, run.finer_score), 2),
    ]


def paired_difference(group: RunGroup, baseline: RunGroup, score: Score) -> Optional[Difference]:
    """A group's score minus the baseline's, over their common seeds; None for fewer than two."""
    ours, theirs = _by_seed(group, score), _by_seed(baseline, score)
    differences = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    if len(differences) < 2:
        return None
    return Difference(statistics.fmean(differences), half_width(differences), len(differences))


def half_width(values: list[float]) -> float:
    """Half the width of the 95% confidence interval of the mean of two values or more."""
    return student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def student_t(freedom: int) -> float:
    """Student's t, two-sided 95%, for a number of degrees of freedom.

    For ten or more it is the expansion around the quantile of the normal distribution.
    """
    if freedom <= len(T_95):
        return T_95[freedom - 1]
    return NORMAL_95 + (NORMAL_95**3 + NORMAL_95) / (4 * freedom) + 2.8 / freedom**2


def _by_seed(group: RunGroup, score: Score) -> Mapping[int, float]:
    scores = {seed_of(run.name): score.of(run) for run in group.runs}
    return {seed: value for seed, value in scores.items() if seed is not None and value is not None}
