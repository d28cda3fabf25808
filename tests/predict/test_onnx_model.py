"""The search over ONNX graphs: its choice of words, against sorting."""

import numpy as np
import pytest

from pet_fairseq.predict.onnx_model import best, text_of
from tests.byte_pieces import PIECES, TEXT


def test_pieces_of_bytes_become_characters():
    assert text_of(PIECES.split()) == TEXT


@pytest.mark.parametrize("sentences, beams, words, count", [(1, 1, 9, 2), (3, 5, 7, 10)])
@pytest.mark.parametrize("times", [1, 40, 200])
def test_best(sentences, beams, words, count, times):
    """The greatest of all words of a sentence's beams, in vocabularies of any size."""
    draw = np.random.default_rng(1)
    for size in (words * times, words * times + 1):
        scores = draw.permutation(sentences * beams * size).astype(np.float32)
        scores = scores.reshape(sentences, beams, size)
        scores[:, :, 0] = -np.inf
        values, beam, word = best(scores.copy(), count)
        for row, chosen in enumerate(zip(beam, word)):
            ranked = sorted(np.ndindex(beams, size), key=lambda place: -scores[row][place])
            assert list(zip(*chosen)) == ranked[:count]
            assert values[row].tolist() == [scores[row][place] for place in ranked[:count]]
