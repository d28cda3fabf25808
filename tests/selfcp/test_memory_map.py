"""Cosines between memory tokens and prompt tokens."""

import math

import pytest
import torch

from pet_fairseq.selfcp.memory_map import SegmentMap, cosines, plot, similarities
from tests.selfcp.test_model import make_selfcp, prefix_slowly
from tests.selfcp.test_model import task as language_modeling  # noqa: F401  fixture


def test_cosines():
    memory, tokens = torch.randn(3, 5).double(), torch.randn(4, 5).double()
    found = cosines(memory, tokens)
    for i, a in enumerate(memory.tolist()):
        for j, b in enumerate(tokens.tolist()):
            lengths = math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))
            assert found[i, j].item() == pytest.approx(sum(map(float.__mul__, a, b)) / lengths)


@pytest.mark.parametrize("strategy", ["concat", "recursive"])
def test_of_every_segment(strategy, language_modeling, tmp_path):  # noqa: F811
    model = make_selfcp(language_modeling, tmp_path, prompt_strategy=strategy).eval()
    query, prompt = torch.tensor([5, 6]), torch.randint(4, 18, (16,))
    found = similarities(model, query, prompt)
    with torch.no_grad():
        vectors, _ = prefix_slowly(model, [2, 5, 6], prompt.tolist(), 3)
        words = model.decoder.inner.embed_tokens.weight
    assert [len(segment.words) for segment in found] == [4, 5]  # 16 tokens, a window of 7
    start = 0
    for segment, first in zip(found, (3, 5)):  # behind </s> and query, two memory tokens each
        length = len(segment.words)
        text = prompt[start : start + length]
        expected = cosines(torch.stack(vectors[first : first + 2]), words[text])
        torch.testing.assert_close(segment.cosines, expected)
        assert segment.words == [language_modeling.dictionary[i] for i in text.tolist()]
        start += length
    assert len(plot(found).axes) == 3  # two panels and the colour bar


def test_words_are_no_formulas(tmp_path):
    plot([SegmentMap(["$", "a$_$", "$"], torch.rand(2, 3))]).savefig(tmp_path / "map.png")


def test_nothing_is_compressed_within_the_window(language_modeling, tmp_path):  # noqa: F811
    model = make_selfcp(language_modeling, tmp_path).eval()
    assert similarities(model, torch.tensor([5]), torch.randint(4, 18, (7,))) == []
