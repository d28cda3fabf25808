"""Which rows of an embedding matrix fairseq's words stand for."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.language_model import lm_vocabulary
from pet_fairseq.huggingface.source import Config, Source, Weights
from pet_fairseq.huggingface.tokenizer_file import TokenizerFile
from pet_fairseq.huggingface.vocabulary import check_sizes
from pet_fairseq.nn.output_bias import REPEATED

PIECES = ["<unk>", "<s>", "</s>", "a", "<|im_end|>", "<|eot|>"]
CHATML = {"bos_token_id": 1, "eos_token_id": 4}


def rows_of(pieces, options=None, **config):
    """The row of each word, and what is added to its logit."""
    numbers = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=pieces[0]))
    path = Path("tokenizer.json")
    file = TokenizerFile(tokenizer, path, {"unk_token": pieces[0]} | (options or {}))
    source = Source(path.parent, Config(config, path), Weights({}, path), lambda: file)
    vocabulary = lm_vocabulary(source, len(pieces))
    words = vocabulary.dictionary().symbols
    return {
        word: (row, bias)
        for word, row, bias in zip(words, vocabulary.rows.tolist(), vocabulary.bias.tolist())
    }


def test_the_configured_end_wins_over_the_name():
    """As in fine-tuned models of chats, whose texts no longer end in </s>."""
    found = rows_of(PIECES, **CHATML)
    assert found["</s>"] == (4, 0.0) and found["<|im_end|>"] == (4, REPEATED)
    assert found["madeupword0002"] == (2, 0.0)
    assert found["<s>"] == (1, 0.0) and found["<unk>"] == (0, 0.0)
    assert rows_of(PIECES, **CHATML | {"eos_token_id": 2})["</s>"] == (2, 0.0)


@pytest.mark.parametrize("token", ["<|eot|>", {"content": "<|eot|>"}])
def test_of_several_ends_the_tokenizers_own(token):
    config = CHATML | {"eos_token_id": [4, 2, 5]}
    assert rows_of(PIECES, {"eos_token": token}, **config)["</s>"] == (5, 0.0)
    assert rows_of(PIECES, {"eos_token": "a"}, **config)["</s>"] == (4, 0.0)
    assert rows_of(PIECES, **config)["</s>"] == (4, 0.0)


def test_names_stand_in_for_what_is_not_configured():
    found = rows_of(PIECES, eos_token_id=None)
    assert [found[word][0] for word in ("<s>", "</s>")] == [1, 2]
    found = rows_of(PIECES, eos_token_id=4)
    assert [found[word][0] for word in ("<s>", "</s>")] == [1, 4]
    found = rows_of(["a", "b", "<|end|>"], eos_token_id=2)
    assert [found[word][0] for word in ("<s>", "</s>")] == [2, 2]


def test_rows_beyond_the_pieces():
    """As many as deepseek-llm-7b has, but not those of another model."""
    check_sizes(range(100_015), 102_400, Path("x"))
    for pieces, rows in ((100_015, 110_000), (100, 700), (100, 99)):
        with pytest.raises(UserError, match=r"x: has .* pieces, but the embedding matrix has"):
            check_sizes(range(pieces), rows, Path("x"))
