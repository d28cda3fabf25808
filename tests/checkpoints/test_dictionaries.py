"""Sizes of vocabularies in a state, and where two dictionaries part."""

import pytest

from pet_fairseq.checkpoints.dictionaries import first_difference, vocabulary_sizes
from tests.helpers import build, dictionary


@pytest.mark.parametrize("tied", [False, True])
def test_vocabulary_sizes(tied):
    """Also where the decoder's embeddings are stored under the encoder's name only."""
    state = build(share_all_embeddings=tied).state_dict()
    assert vocabulary_sizes(state) == {"source_lang": 20, "target_lang": 20}


def test_first_difference():
    ours = dictionary(5)
    assert first_difference(dictionary(5), ours) == ""
    assert first_difference(dictionary(6), ours) == "10 words against 9"
    assert first_difference(dictionary(2), ours) == "6 words against 9"
    theirs = dictionary(2)
    theirs.add_symbol("other")
    assert first_difference(theirs, ours) == "entry 6 is 'other' against 'w2'"
