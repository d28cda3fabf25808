"""Imported multilingual translators against transformers: they read plain sentences and texts."""

from functools import partial

import pytest
import torch

from pet_fairseq.decoding.transformer import is_plain
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.multilingual.language_tokens import put_around
from pet_fairseq.predict.hub import from_pretrained
from tests.huggingface import translators
from tests.huggingface.translators import TEXTS

TOLERANCE = dict(rtol=1e-5, atol=1e-5)
CASES = {
    "nllb": translators.nllb,
    "nllb, not scaled": partial(translators.nllb, scale_embedding=False),
    "nllb, old tokenizer": partial(translators.nllb, legacy=True),
    "m2m_100": translators.m2m_100,
    "mbart-50": translators.mbart,
    "mbart-50, not scaled": partial(translators.mbart, scale_embedding=False),
    "mbart-50, SentencePiece": translators.mbart_of_pieces,
    "mbart": partial(translators.mbart, kind="MBartTokenizer"),
    "marian": translators.marian,
}


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """A translator of transformers, and the imported one as users open it."""
    torch.manual_seed(1)
    made = CASES[request.param](tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out", *made.pair)
    return made, from_pretrained(str(tmp_path / "out"))


def inputs_of(made, texts):
    """As transformers has them."""
    texts = [f">>fra<< {text}" for text in texts] if "Marian" in str(type(made.model)) else texts
    return made.tokenizer(texts, padding=True, return_tensors="pt")


def numbers(dictionary, made):
    """For every word of the dictionary its number in transformers, -1 for none."""
    known = made.tokenizer.get_vocab()
    known |= dict(getattr(made.tokenizer, "lang_token_to_id", {}))
    rows = made.model.config.vocab_size
    names = {number: piece for piece, number in known.items()}
    names = {names.get(row, f"madeupword{row:04d}"): row for row in range(rows)}
    assert len(names) == rows
    return torch.tensor([names.get(word, -1) for word in dictionary.symbols])


def test_texts(case):
    """From raw text to the numbers of transformers, language tokens among them."""
    made, translator = case
    number = numbers(translator.src_dict, made)
    encoder = translator.models[0].encoder
    for text in (*TEXTS, "", "  The  cat", "catnip \u00e9 cat"):
        around = put_around(translator.encode(text)[None], encoder.prefix, encoder.end, 1)
        assert number[around[0]].tolist() == inputs_of(made, [text])["input_ids"][0].tolist()


def test_log_probabilities(case):
    """Of plain sentences in a batch with padding on either side."""
    made, translator = case
    ours = translator.models[0]
    number = numbers(translator.tgt_dict, made)
    rows = [translator.encode(text) for text in TEXTS]
    lengths = torch.tensor([len(row) for row in rows])
    targets = [translator.encode(text)[:n] for text, n in zip(reversed(TEXTS), (7, 2, 4))]
    padded = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True, padding_value=1)
    target = padded([torch.cat([torch.tensor([2]), row]) for row in targets])
    start = torch.tensor(made.start).expand(len(rows), -1)
    given = torch.cat([start, number[target[:, 1:]]], dim=1)
    with torch.no_grad():
        expected = made.model(**inputs_of(made, TEXTS), decoder_input_ids=given).logits
        for side in ("left", "right"):
            source = padded(rows, padding_side=side)
            logits, extra = ours(source, lengths, target)
            found = ours.get_normalized_probs((logits, extra), log_probs=True)
            real, own = target.ne(1), number >= 0
            wanted = expected[:, len(made.start) - 1 :].log_softmax(-1)
            wanted = wanted[real][:, number[own]]
            torch.testing.assert_close(found[real][:, own], wanted, **TOLERANCE)
    assert wanted.std() > 0.1
    assert not is_plain(ours)


def ending_at(length, end):
    """Lets only `end` follow that many tokens, with its probability, as fairseq's search does."""

    def process(tokens, scores):
        if tokens.size(1) < length:
            return scores
        others = torch.arange(scores.size(1)).ne(end)
        return scores.masked_fill(others, -torch.inf)

    return process


@pytest.mark.parametrize("beam", [1, 4])
def test_translations(case, beam):
    """Scores are not divided by lengths: transformers counts the token that it forces."""
    made, translator = case
    number = numbers(translator.tgt_dict, made)
    config, (first, *forced) = made.model.config, made.start
    sources = [translator.encode(text) for text in TEXTS]
    search = dict(beam=beam, lenpen=0.0, max_len_a=0, max_len_b=11, min_len=3)
    lengths = set()
    for text, (best, *_) in zip(TEXTS, translator.generate(sources, **search)):
        (found,) = made.model.generate(
            **inputs_of(made, [text]),
            num_beams=beam,
            length_penalty=0.0,
            early_stopping=beam > 1,
            min_new_tokens=3 + len(forced),
            max_new_tokens=12 + len(forced),
            bad_words_ids=[[config.pad_token_id]],
            decoder_start_token_id=first,
            forced_bos_token_id=forced[0] if forced else None,
            forced_eos_token_id=None,
            logits_processor=[ending_at(11 + len(made.start), config.eos_token_id)],
        )
        assert number[best["tokens"]].tolist() == found[len(made.start) :].tolist()
        lengths.add(len(best["tokens"]))
    assert max(lengths) > 4
