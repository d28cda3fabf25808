"""A few sentences of the test set beside their translations by the first rows of a report."""

from pet_fairseq.markdown import table
from pet_fairseq.results.report.compare import Comparison
from pet_fairseq.results.report.outputs import read_output

SENTENCES = 3
MOST_ROWS = 6  # of the report whose translations are shown


def sample_tables(comparison: Comparison, reference: list[str]) -> str:
    """A table for each of a few sentences; "" without translations at the comparison's beam."""
    beam = comparison.beam
    groups = [g for g in comparison.groups if beam in g.runs[0].outputs][:MOST_ROWS]
    if beam is None or not groups:
        return ""
    outputs = [read_output(group.runs[0].outputs[beam][0]) for group in groups]
    texts = [("source", outputs[0].sources), ("reference", reference)]
    texts += [(group.title, output.hypotheses) for group, output in zip(groups, outputs)]
    texts = [(name, lines) for name, lines in texts if lines]  # no sources with --quiet
    return "\n".join(
        table([f"sentence {i + 1}", ""], [[name, lines[i]] for name, lines in texts], text=(0, 1))
        for i in spread(len(reference), SENTENCES)
    )


def spread(number: int, most: int) -> list[int]:
    """Indices of up to `most` of `number` lines, evenly spread."""
    indices = {(2 * i + 1) * number // (2 * most) for i in range(most)}
    return sorted(index for index in indices if index < number)
