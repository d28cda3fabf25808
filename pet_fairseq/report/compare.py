"""Rows against the teacher (sizes, speed) and against a baseline (BLEU)."""

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from pet_fairseq.report.outputs import read_output
from pet_fairseq.report.rows import Row

SAMPLES = 1000  # of the paired bootstrap


@dataclass
class Comparison:
    """All rows of a report."""

    rows: List[Row]
    teacher: Row
    baseline: Row
    p_values: Dict[str, float] = field(default_factory=dict)  # by row, of `bootstrap`

    @property
    def beams(self) -> List[int]:
        """Every beam size that was measured, in increasing order."""
        return sorted({beam for row in self.rows for beam in row.bleu})

    @property
    def main_beams(self) -> List[int]:
        """Greedy search and the usual beam 5, or else the smallest and the largest beam."""
        beams = self.beams
        if not beams:
            return []
        return sorted({1 if 1 in beams else beams[0], 5 if 5 in beams else beams[-1]})

    @property
    def beam(self) -> Optional[int]:
        """The beam to compare at: the largest that all translated rows have.

        If they have none in common, the baseline's largest.
        """
        translated = [set(row.bleu) for row in self.rows if row.bleu]
        common = set.intersection(*translated) if translated else set()
        return max(common or self.baseline.bleu, default=None)

    def rate(self, row: Row) -> Optional[float]:
        """Compression rate in percent (PET, section 4.1.3)."""
        ours, theirs = (r.sizes.layer_parameters for r in (row, self.teacher))
        return 100 * ours / theirs if ours is not None and theirs else None

    def difference(self, row: Row) -> Optional[float]:
        """BLEU over the baseline's, at `beam`."""
        ours, theirs = (r.bleu.get(self.beam) for r in (row, self.baseline))
        return None if ours is None or theirs is None else ours - theirs

    def speedup(self, row: Row, beam: int) -> Optional[float]:
        """Sentences per second over the teacher's."""
        ours, theirs = (r.sentences_per_second.get(beam) for r in (row, self.teacher))
        return ours / theirs if ours is not None and theirs else None


def bootstrap(comparison: Comparison, reference: List[str]) -> Dict[str, float]:
    """p-values of paired bootstrap tests between first seeds, each row's and the baseline's.

    At the comparison's beam; rows whose first seed lacks it are left out.
    """
    baseline, beam = comparison.baseline, comparison.beam
    others = [row for row in comparison.rows if row is not baseline and beam in row.runs[0].bleu]
    if not others or beam not in baseline.runs[0].bleu:
        return {}
    systems = [
        (row.name, read_output(row.runs[0].outputs[beam][0]).hypotheses)
        for row in [baseline, *others]
    ]
    test = PairedTest(systems, {"BLEU": BLEU()}, [reference], test_type="bs", n_samples=SAMPLES)
    _, results = test()
    return {row.name: result.p_value for row, result in zip(others, results["BLEU"][1:])}
