"""What fairseq takes from older releases of numpy is there, and its code that takes it works."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset, TokenBlockDataset

from pet_fairseq import numpy_compatibility

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]


def test_a_missing_name_is_added():
    module = SimpleNamespace()
    numpy_compatibility.add_missing(module)
    assert module.compat.long is int


def test_what_is_there_stays():
    compat = SimpleNamespace(long="numpy's own")
    module = SimpleNamespace(compat=compat)
    numpy_compatibility.add_missing(module)
    assert module.compat is compat and compat.long == "numpy's own"


def test_applied_again_it_changes_nothing():
    before = np.compat  # applied when the package was registered
    numpy_compatibility.apply()
    assert np.compat is before and before.long is int


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_buckets_are_the_lengths_at_equal_steps(count):
    """Step i of `count` ends at the sentence that i/count of the others are not longer than."""
    ordered = sorted(LENGTHS)
    expected = {ordered[i * (len(ordered) - 1) // count] for i in range(1, count + 1)}
    buckets = numpy_compatibility.length_buckets(np.array(LENGTHS), count)
    assert buckets.tolist() == sorted(expected)


@pytest.fixture
def sentences():
    return [torch.randint(4, 20, (length,)) for length in LENGTHS]


@pytest.fixture
def dictionary():
    words = Dictionary()
    for number in range(20):
        words.add_symbol(f"w{number}")
    return words


def test_samples_that_end_at_eos(sentences):
    """Each sample is a sentence, as without blocks."""
    blocks = TokenBlockDataset(
        sentences, np.array(LENGTHS), block_size=None, pad=1, eos=2, break_mode="eos"
    )
    assert blocks.sizes.tolist() == LENGTHS
    for block, sentence in zip(blocks, sentences, strict=True):
        assert torch.equal(block, sentence)


def test_pairs_in_length_buckets(sentences, dictionary):
    """Sentences are padded to the length of their bucket, and batches count what that takes."""
    sizes = np.array(LENGTHS)
    side = (sentences, sizes, dictionary)
    pairs = LanguagePairDataset(*side, *side, num_buckets=3)
    buckets = numpy_compatibility.length_buckets(sizes, 3)
    padded = [min(bucket for bucket in buckets if bucket >= length) for length in LENGTHS]
    assert [len(pairs[i]["source"]) for i in range(len(LENGTHS))] == padded
    assert pairs.bucketed_num_tokens.tolist() == padded
    assert [tokens for _, tokens in pairs.get_batch_shapes()] == buckets.tolist()
