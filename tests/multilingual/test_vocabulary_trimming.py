"""Models with some of their words: the whole model's distributions over these, renormalised."""

import random
from argparse import Namespace
from collections import Counter

import pytest
import torch
from fairseq.models import build_model
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from pet_fairseq.errors import UserError
from pet_fairseq.multilingual.subword_restriction import restrict_sentencepiece
from pet_fairseq.multilingual.vocabulary_trimming import (
    check_trimmable,
    choose_words,
    kept_rows,
    needed_words,
    restricted,
    trimmed_model,
)
from tests.helpers import batch, build, dictionary

ARCHS = {
    "transformer": {},
    "shared": {"arch": "transformer", "share_all_embeddings": True},
    "tied": {"arch": "transformer", "share_decoder_input_output_embed": True},
    "marian": {"arch": "marian", "encoder_layers": 2},
    "t5": {"arch": "t5", "gated_ffn": True},
    "bilingual": {
        **{"arch": "bilingual_transformer", "source_prefix": "w3"},
        "decoder_start": "</s> w5",
    },
    "bart": {"arch": "bart_large", "task": "translation", "encoder_layers": 2},
}


def rebuilt(options, words):
    """The same architecture with fewer words."""
    fewer = dictionary(0)
    for word in words:
        fewer.add_symbol(word)
    torch.manual_seed(3)
    return build_model(options, Namespace(source_dictionary=fewer, target_dictionary=fewer)).eval()


@pytest.mark.parametrize("kind", ARCHS)
def test_distributions_are_renormalised(kind):
    options = {"arch": "transformer", **ARCHS[kind]}
    whole = build(**options).double().eval()
    all_words = dictionary()
    words = {"w1", "w3", "w4", "w5", "w8", "w9"}
    rows = kept_rows(all_words, words | needed_words(Namespace(**options)))
    fewer = restricted(all_words, rows)
    small = {"dropout": 0.0}
    for stack in ("encoder", "decoder"):
        small |= {f"{stack}_embed_dim": 12, f"{stack}_ffn_embed_dim": 20, f"{stack}_layers": 4}
        small |= {f"{stack}_attention_heads": 3}
    trimmed = rebuilt(Namespace(**{**small, **options}), fewer.symbols[4:]).double()
    state = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
    trimmed.load_state_dict(trimmed_model(state, rows, rows), strict=True)
    sentences = batch()
    number = {row: i for i, row in enumerate(rows.tolist())}
    for name in ("src_tokens", "prev_output_tokens"):
        tokens = sentences[name]
        ordinary = tokens.ge(4)
        choices = torch.tensor([all_words.index(word) for word in sorted(words)])
        tokens[ordinary] = choices[torch.randint(len(choices), (int(ordinary.sum()),))]
    small_batch = {
        name: tokens.clone().apply_(number.__getitem__) if name != "src_lengths" else tokens
        for name, tokens in sentences.items()
    }
    expected = whole(**sentences)[0][..., rows].log_softmax(dim=-1)
    found = trimmed(**small_batch)[0].log_softmax(dim=-1)
    torch.testing.assert_close(found, expected)


def test_words_of_the_text_and_their_characters():
    known = dictionary(0)
    for word in ["▁the", "the", "t", "h", "e", "z", "▁", "▁cat", "c"]:
        known.add_symbol(word)
    counts = Counter({"▁the": 3, "▁cat": 1, "gone": 2})
    assert choose_words(counts, known) == {"▁the", "▁cat", "t", "h", "e", "c", "▁"}
    assert choose_words(counts, known, 6) == {"▁the", "t", "h", "e", "c", "▁"}
    for most in (5, 8):
        with pytest.raises(UserError, match=rf"--vocabulary {most}: the text has 7 different"):
            choose_words(counts, known, most)


def test_rows_are_in_the_order_of_the_dictionary():
    known = dictionary()
    rows = kept_rows(known, {"w7", "w2", "unknown"})
    assert rows.tolist() == [0, 1, 2, 3, known.index("w2"), known.index("w7")]
    assert restricted(known, rows).symbols == [*known.symbols[:4], "w2", "w7"]


def test_what_cannot_be_trimmed():
    with pytest.raises(UserError, match=r"TEACHER a\.pt is a lstm, whose dictionary"):
        check_trimmable(Namespace(arch="lstm"), "a.pt")
    options = Namespace(arch="transformer", adaptive_softmax_cutoff="10,20")
    with pytest.raises(UserError, match="adaptive softmax"):
        check_trimmable(options, "a.pt")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_restricted_model_knows_no_other_piece(kind, tmp_path):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 8))) for _ in range(2000)]
    lines = [" ".join(draw.choices(words, k=8)) for _ in range(3000)]
    (tmp_path / "text").write_text("\n".join(lines))
    SentencePieceTrainer.train(
        **{"input": str(tmp_path / "text"), "model_prefix": str(tmp_path / "spm")},
        **{"vocab_size": 400, "model_type": kind, "minloglevel": 2},
    )
    whole = SentencePieceProcessor(str(tmp_path / "spm.model"))
    known = dictionary(0)
    for i in range(whole.get_piece_size()):
        known.add_symbol(whole.id_to_piece(i))
    counts = Counter(piece for line in lines[:20] for piece in whole.encode(line, out_type=str))
    kept = choose_words(counts, known)
    assert len(kept) < 250
    restrict_sentencepiece(tmp_path / "spm.model", kept, tmp_path / "few.model")
    few = SentencePieceProcessor(str(tmp_path / "few.model"))
    for line in lines[:20]:
        assert few.encode(line) == whole.encode(line)
    for line in lines[20:]:
        pieces = few.encode(line, out_type=str)
        assert set(pieces) <= kept and few.decode(pieces) == line


def test_not_a_sentencepiece_model(tmp_path):
    (tmp_path / "spm.model").write_text("a b c")
    with pytest.raises(UserError, match=r"spm.model: not a SentencePiece model"):
        restrict_sentencepiece(tmp_path / "spm.model", set(), tmp_path / "out.model")
