"""Comparing groups of runs with the teacher (sizes, speed) and with a baseline (scores)."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Optional

from pet_fairseq.results.bleu import bleu_p_values, tokenised_bleu
from pet_fairseq.results.fairseq_output import read_output
from pet_fairseq.results.report.measure import Run
from pet_fairseq.results.report.scoring import Scorer
from pet_fairseq.results.report.seed_groups import RunGroup
from pet_fairseq.runs import seed_of
from pet_fairseq.statistics import Sample


@dataclass
class Comparison:
    """All groups of runs in a report, and the two with which they are compared."""

    groups: list[RunGroup]
    teacher: RunGroup
    baseline: RunGroup
    scorer: Scorer
    p_values: dict[str, float] = field(default_factory=dict)  # of `p_values`, by the group's name
    tokenised: dict[str, float] = field(default_factory=dict)  # of `tokenised_scores`, the same

    @property
    def beams(self) -> list[int]:
        """The beam sizes that were measured, in increasing order."""
        return sorted({beam for group in self.groups for beam in group.score})

    @property
    def main_beams(self) -> list[int]:
        """Greedy search and the usual beam 5, or else the smallest and the largest beam."""
        beams = self.beams
        if not beams:
            return []
        return sorted({1 if 1 in beams else beams[0], 5 if 5 in beams else beams[-1]})

    @property
    def beam(self) -> Optional[int]:
        """The beam size to compare at: the largest that all groups with translations have.

        If they have none in common, it is the baseline's largest; None if it has none either.
        """
        translated = [set(group.score) for group in self.groups if group.score]
        common = set.intersection(*translated) if translated else set()
        return max(common or self.baseline.score, default=None)

    def rate(self, group: RunGroup) -> Optional[float]:
        """The compression rate in percent (PET, section 4.1.3)."""
        ours, theirs = (g.sizes.layer_parameters for g in (group, self.teacher))
        return 100 * ours / theirs if ours is not None and theirs else None

    def scores(self, group: RunGroup) -> Optional[Sample]:
        """Its scores at `beam`, one for each seed."""
        return None if self.beam is None else group.score.get(self.beam)

    def score(self, group: RunGroup) -> Optional[float]:
        """Its mean score at `beam`."""
        scores = self.scores(group)
        return None if scores is None else scores.mean

    def difference(self, group: RunGroup) -> Optional[float]:
        """The score minus the baseline's, at `beam`."""
        ours, theirs = self.score(group), self.score(self.baseline)
        return None if ours is None or theirs is None else ours - theirs

    def speedup(self, group: RunGroup, beam: Optional[int]) -> Optional[float]:
        """Sentences per second over the teacher's."""
        if beam is None:
            return None
        ours, theirs = (g.sentences_per_second.get(beam) for g in (group, self.teacher))
        return ours / theirs if ours is not None and theirs else None


# --- BLEU -----------------------------------------------------------------------------------------


def tokenised_scores(comparison: Comparison) -> dict[str, float]:
    """The mean BLEU of each group's tokenised translations at the comparison's beam, by name.

    Groups without translations there are left out, and runs of which only the text was printed.
    """
    beam, means = comparison.beam, {}
    for group in comparison.groups:
        found = [run.outputs[beam][0] for run in group.runs if beam in run.outputs]
        scores = [
            tokenised_bleu(output.tokenised, output.targets)
            for output in map(read_output, found)
            if output.tokenised and len(output.tokenised) == len(output.targets)
        ]
        if scores:
            means[group.name] = statistics.fmean(scores)
    return means


def p_values(comparison: Comparison, reference: list[str]) -> dict[str, float]:
    """P-values of paired bootstrap tests, each group's first seed against the baseline's, by name.

    The tests compare BLEU at the comparison's beam; groups whose first seed lacks it are left out.
    """
    beam, baseline = comparison.beam, comparison.baseline.name
    hypotheses = {
        group.name: read_output(group.runs[0].outputs[beam][0]).hypotheses
        for group in comparison.groups
        if beam in group.runs[0].outputs
    }
    if baseline not in hypotheses or len(hypotheses) == 1:
        return {}
    return bleu_p_values(hypotheses.pop(baseline), hypotheses, reference)


# --- seed by seed ---------------------------------------------------------------------------------


class PairedScore(NamedTuple):
    """What runs of the same seed are compared by.

    Attributes:
        of: a run's score, None if it has none. digits: decimals to show.
    """

    name: str
    of: Callable[[Run], Optional[float]]
    digits: int


def paired_scores(scorer: Scorer, beam: Optional[int]) -> list[PairedScore]:
    """The scores to compare, the one that shows the smallest differences first."""
    at = beam or 0  # no run has a beam of 0
    return [
        PairedScore("validation KL, bits", lambda run: run.validation.kl, 3),
        PairedScore("validation NLL, bits", lambda run: run.validation.nll, 3),
        PairedScore(f"{scorer.name} beam {beam}", lambda run: run.score.get(at), 2),
        PairedScore(f"{scorer.finer_name} beam {beam}", lambda run: run.finer_score.get(at), 2),
    ]


def paired_differences(group: RunGroup, baseline: RunGroup, score: PairedScore) -> Optional[Sample]:
    """A group's score minus the baseline's for each common seed; None for fewer than two.

    Two trainings with the same seed see the same batches in the same order, so their difference
    varies less than their scores do.
    """
    ours, theirs = _by_seed(group, score), _by_seed(baseline, score)
    differences = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    return Sample(differences) if len(differences) > 1 else None


def _by_seed(group: RunGroup, score: PairedScore) -> dict[int, float]:
    scores = {seed_of(run.name): score.of(run) for run in group.runs}
    return {seed: x for seed, x in scores.items() if seed is not None and x is not None}
