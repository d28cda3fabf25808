"""The connector's start."""

from pathlib import Path

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.vocabulary import make_vocabulary
from pet_fairseq.selfcp.connector import (
    CONNECTORS,
    make_connector,
    rarest_word,
    standardise,
)
from tests.selfcp.test_model import make_sample, make_selfcp
from tests.selfcp.test_model import task as task

WIDTH = 16


def make_states(seed=1, number=400):
    """States that are nearly one vector, each dimension with its own deviation."""
    torch.manual_seed(seed)
    common, deviations = 30 * torch.randn(WIDTH), torch.rand(WIDTH) + 0.05
    return common + deviations * torch.randn(number, WIDTH)


@pytest.mark.parametrize("kind", [kind for kind in CONNECTORS if kind != "none"])
def test_memory_differs_and_is_as_large_as_words(kind):
    states, words = make_states(), 0.3 * torch.randn(50, WIDTH)
    connector = make_connector(kind, WIDTH)
    standardise(connector, states, words)
    memory = connector(states)
    assert memory.square().mean().sqrt().item() == pytest.approx(
        words.square().mean().sqrt().item(), rel=1e-3
    )
    cosines = torch.cosine_similarity(memory[:200], memory[200:])
    assert cosines.mean().abs() < 0.1  # 1 to three digits before


def test_it_is_the_linear_map_of_standardised_states():
    states = make_states()
    connector = make_connector("linear", WIDTH)
    weight = connector.weight.detach().clone()
    standardise(connector, states, torch.randn(50, WIDTH))
    expected = (states - states.mean(0)) / states.std(0) @ weight.T
    found = connector(states)
    expected *= found.norm() / expected.norm()
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_the_tag_starts_as_no_spare_row_of_an_imported_model():
    pieces = ["<s>", "</s>", "<unk>", "a", "b", "made", "c", "<|im_end|>"]
    special = {"<s>": 0, "</s>": 1, "<unk>": 2, "<pad>": None}
    for spare in (0, 8):
        vocabulary = make_vocabulary(pieces, len(pieces) + spare, special, Path("tokenizer.json"))
        dictionary = vocabulary.dictionary()
        assert dictionary[rarest_word(dictionary)] == "c"


def test_a_reader_is_standardised_by_what_it_compresses(task, tmp_path):
    model = make_selfcp(task, tmp_path, standardise_on=5)
    net_input = make_sample(task, [(2, 15), (1, 14), (3, 23), (0, 20)])["net_input"]
    net_input.pop("prev_output_tokens")
    model.encoder.standardise([net_input])
    memory = model.encoder.read(**net_input).vectors
    words = model.decoder.inner.embed_scale * model.decoder.inner.embed_tokens.weight
    assert memory.mean(0).abs().max() < 1e-6
    torch.testing.assert_close(memory.square().mean(), words.square().mean())
    short = make_sample(task, [(2, 5), (1, 7)])["net_input"]
    short.pop("prev_output_tokens")
    one_token = make_sample(task, [(2, 8)], ratio=9.0)["net_input"]
    one_token.pop("prev_output_tokens")
    assert len(model.encoder.read(**one_token).vectors) == 1
    for prompts in (short, one_token):
        with pytest.raises(UserError, match="--standardise-on 5: fewer than two memory tokens"):
            model.encoder.standardise([prompts])
