"""The plot of lengths, against numbers counted record by record."""

import json
from itertools import pairwise

import pytest

from pet_fairseq.selfcp.binarise import make_prompts
from pet_fairseq.selfcp.length_plot import MOST_BARS, bar_edges, plot_lengths
from pet_fairseq.selfcp.template import Template
from pet_fairseq.selfcp.vocabulary import SentencePieces

TEXTS = {
    "train": ["ba", "ba ko", "ri sen tul mo fi gar", "", "gar ba ri", "ba " * 200],
    "test": ["ko ko", "ri"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """BIN, and the texts of prompt and response of each record by subset."""
    folder = tmp_path_factory.mktemp("lengths")
    records = {
        split: [{"query": "a", "prompt": text, "response": text[:9] or "mo"} for text in texts]
        for split, texts in TEXTS.items()
    }
    files = {}
    for split, rows in records.items():
        files[split] = folder / f"{split}.jsonl"
        files[split].write_text("".join(json.dumps(row) + "\n" for row in rows))
    make_prompts(files, [], folder / "bin", vocab_size=125, template=Template("", "", "", ""))
    return folder / "bin", records


def test_heights_are_shares_of_the_records(made):
    folder, records = made
    pieces = SentencePieces((folder / "spm.model").read_bytes(), "x")
    figure = plot_lengths(folder, records)
    assert [axes.get_xlabel() for axes in figure.axes] == [
        *("tokens of a prompt", "tokens of a response")
    ]
    for axes, part in zip(figure.axes, ("prompt", "response")):
        lines = dict(zip([t.get_text() for t in axes.get_legend().texts], axes.patches))
        for split, rows in records.items():
            lengths = [len(pieces.encode(row[part])) for row in rows]
            mean, most = sum(lengths) / len(lengths), max(lengths)
            corners = lines[f"{split}: mean {mean:.1f}, most {most}"].get_xy()
            edges, heights = corners[1::2, 0], corners[1:-1:2, 1]
            for (left, right), height in zip(pairwise(edges), heights):
                inside = sum(left < length < right for length in lengths)
                assert height == pytest.approx(100 * inside / len(lengths))
            assert sum(heights) == pytest.approx(100)


@pytest.mark.parametrize("longest", [0, 1, 39, 40, 41, 3737])
def test_bars_hold_the_same_number_of_lengths(longest):
    edges = bar_edges(longest)
    bars = [[n for n in range(longest + 1) if a < n < b] for a, b in pairwise(edges)]
    assert [n for bar in bars for n in bar] == list(range(longest + 1))
    assert len({len(bar) for bar in bars[:-1]}) <= 1 and len(bars) <= MOST_BARS
