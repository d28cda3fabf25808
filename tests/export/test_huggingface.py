"""Exported folders in the library transformers: the same numbers of words, logits, translations."""

import json
from functools import partial

import pytest
import torch

from pet_fairseq.export.export import export
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.huggingface.tokenizer_file import MARK
from pet_fairseq.predict.hub import from_pretrained
from tests.export import translators
from tests.export.translators import PRE_NORM, SHARED, TEXTS, TIED, make
from tests.huggingface.test_translators import ending_at

transformers = pytest.importorskip("transformers")
PET = dict(encoder_pairs="pet", decoder_pairs="pet")
MARIAN = dict(swish=True, pieces=translators.marian_pieces)
CASES = {
    "fsmt": ("FSMT", partial(make, arch="transformer", separate=True, **TIED)),
    "fsmt, joined": ("FSMT", partial(make, arch="transformer", no_scale_embedding=True, **SHARED)),
    "fsmt, SentencePiece": (
        "FSMT",
        partial(
            make, arch="transformer", pieces=translators.sentence_pieces, separate=True, **TIED
        ),
    ),
    "m2m_100": ("M2M100", partial(make, arch="transformer", **SHARED, **PRE_NORM)),
    "m2m_100, SentencePiece": (
        "M2M100",
        partial(
            make,
            arch="transformer",
            pieces=translators.sentence_pieces,
            activation_fn="gelu_accurate",
            encoder_attention_heads=2,
            decoder_ffn_embed_dim=20,
            **SHARED,
            **PRE_NORM,
        ),
    ),
    "fsmt, tokenizer.json": (
        "FSMT",
        partial(make, arch="transformer", pieces=translators.json_pieces, **SHARED),
    ),
    "m2m_100, tokenizer.json": (
        "M2M100",
        partial(make, arch="transformer", pieces=translators.json_pieces, **SHARED, **PRE_NORM),
    ),
    "marian, tokenizer.json": (
        "Marian",
        partial(
            make, arch="marian", pieces=partial(translators.json_pieces, kind="unigram"), **SHARED
        ),
    ),
    "pet": (
        "M2M100",
        partial(make, arch="pet_transformer", **PET, **SHARED, **PRE_NORM),
    ),
    "marian": ("Marian", partial(make, arch="marian", **MARIAN, **SHARED)),
    "marian, separate": (
        "Marian",
        partial(make, arch="marian", separate=True, no_scale_embedding=True, **MARIAN, **TIED),
    ),
    "marian, not tied": (
        "Marian",
        partial(make, arch="marian", pieces=translators.marian_pieces, activation_fn="gelu"),
    ),
    "marian, language token": (
        "Marian",
        partial(make, arch="bilingual_marian", source_prefix=[">>fra<<"], **MARIAN, **SHARED),
    ),
}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    """A model's name in transformers, our translator, and the folder that was exported."""
    name, make_case = CASES[request.param]
    folder = tmp_path_factory.mktemp("export")
    made = make_case(folder / "data")
    export(made.checkpoint, made.data, "huggingface", folder / "out")
    return name, from_pretrained(made.checkpoint, made.data), folder / "out"


def opened(folder):
    """As users of transformers open it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def prefix(translator):
    """The language token that users put in front of a text in transformers."""
    encoder = translator.models[0].encoder
    words = [translator.src_dict[i] for i in getattr(encoder, "prefix", ())]
    return "".join(f"{word} " for word in words)


def numbers(folder, side):
    """The number of each word, in the words of our dictionaries."""
    if (folder / "tokenizer.json").is_file():
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return {word.removeprefix(MARK): n for word, n in tokenizer.get_vocab().items()}
    names = {"source": ("vocab.json", "vocab-src.json"), "target": ("target_vocab.json",)}
    names["target"] += ("vocab.json", "vocab-tgt.json")
    file = next(folder / name for name in names[side] if (folder / name).is_file())
    numbers = json.loads(file.read_text())
    if "vocab-" in file.name:
        special = ("<s>", "<pad>", "</s>", "<unk>")
        ours = {w: w if w in special else f"{w}@@" for w in numbers if not w.endswith("</w>")}
        numbers = {ours.get(w, w.removesuffix("</w>")): n for w, n in numbers.items()}
    return numbers


def rows_of(dictionary, numbers):
    """For each word of the dictionary its number in the folder."""
    assert len(numbers) == len(dictionary)
    return torch.tensor([numbers[word] for word in dictionary.symbols])


def test_classes(case):
    """transformers takes the form that was meant, and every tensor of the file, and no other."""
    name, _, folder = case
    kind = getattr(transformers, f"{name}MTModel", None)
    kind = kind or getattr(transformers, f"{name}ForConditionalGeneration")
    _, report = kind.from_pretrained(folder, output_loading_info=True)
    assert type(opened(folder)[1]) is kind
    unexpected = [*report["missing_keys"], *report["unexpected_keys"]]
    assert not [name for name in unexpected if "tied" not in name]


def test_numbers_of_words(case):
    """From raw text; letters that no word has are unknown in both."""
    _, translator, folder = case
    tokenizer, model = opened(folder)
    row = rows_of(translator.src_dict, numbers(folder, "source"))
    for text in TEXTS:
        found = tokenizer(prefix(translator) + text)["input_ids"]
        expected = row[translator.encode(text)].tolist()
        assert found[len(found) - len(expected) :] == expected, text
        assert len(found) - len(expected) == len(prefix(translator).split())
    assert tokenizer.pad_token_id == model.config.pad_token_id


@torch.no_grad()
def test_logits(case):
    """Of random sentences of up to 40 words, in a batch with padding."""
    _, translator, folder = case
    _, model = opened(folder)
    ours = translator.models[0]
    sides = ((translator.src_dict, "source"), (translator.tgt_dict, "target"))
    source_rows, target_rows = (rows_of(words, numbers(folder, side)) for words, side in sides)
    lengths = [40, 1, 17, 33]
    sources = [sentence(translator.src_dict, length) for length in lengths]
    targets = [sentence(translator.tgt_dict, length).roll(1) for length in (25, 40, 3, 11)]
    padded = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True, padding_value=1)
    source, target = padded(sources), padded(targets)
    expected, _ = ours(source, torch.tensor(lengths) + 1, target)
    given = source_rows[source]
    mask = source.ne(1).long()
    count = len(prefix(translator).split())
    if count:
        front = source_rows[ours.encoder.prefix].expand(len(given), count)
        given, mask = (
            torch.cat([front, given], 1),
            torch.cat([torch.ones(len(mask), count), mask], 1),
        )
    starts = target_rows[target]
    starts[:, 0] = model.config.decoder_start_token_id
    found = model(
        input_ids=given, attention_mask=mask.long(), decoder_input_ids=starts, use_cache=False
    ).logits
    real = target.ne(1)
    torch.testing.assert_close(found[real][:, target_rows], expected[real], rtol=1e-5, atol=1e-5)
    assert expected[real].std() > 0.3


def sentence(dictionary, length):
    """Random words, and `</s>`."""
    words = torch.randint(dictionary.nspecial, len(dictionary), (length,))
    return torch.cat([words, torch.tensor([dictionary.eos()])])


@pytest.mark.parametrize("beam", [1, 5])
def test_translations(case, beam):
    """From text to text, in a batch, with the search that the folder itself asks for.

    No pair of words may come twice, as untrained models repeat themselves. Where translations are
    cut, transformers would not count the probability of the end.
    """
    _, translator, folder = case
    tokenizer, model = opened(folder)
    texts = [prefix(translator) + text for text in TEXTS]
    found = model.generate(
        **tokenizer(texts, padding=True, return_tensors="pt"),
        no_repeat_ngram_size=2,
        max_new_tokens=20,
        forced_eos_token_id=None,
        logits_processor=[ending_at(20, model.config.eos_token_id)],
        **({} if beam == 5 else dict(num_beams=1, early_stopping=False)),
    )
    rows = [translator.encode(text) for text in TEXTS]
    search = dict(beam=beam, no_repeat_ngram_size=2, max_len_a=0, max_len_b=19)
    best = [translations[0]["tokens"] for translations in translator.generate(rows, **search)]
    row = rows_of(translator.tgt_dict, numbers(folder, "target"))
    for tokens, expected in zip(found, best):
        assert tokens[1 : len(expected) + 1].tolist() == row[expected].tolist()
        assert set(tokens[len(expected) + 1 :].tolist()) <= {model.config.pad_token_id}
    assert len({tuple(tokens.tolist()) for tokens in best}) > 1
    assert len({word for tokens in best for word in tokens.tolist()}) > 3
    texts = tokenizer.batch_decode(found, skip_special_tokens=True)
    for text, tokens in zip(texts, best):
        words = translator.tgt_dict.string(tokens[tokens.ne(translator.tgt_dict.unk())])
        assert text.split() == translator.detokenize(translator.remove_bpe(words)).split()


def test_no_empty_translations(case):
    """fairseq's search gives a word before `</s>`, however likely that is, and never padding."""
    _, translator, folder = case
    tokenizer, model = opened(folder)
    end, pad = model.config.eos_token_id, model.config.pad_token_id

    def prefer(tokens, scores):
        scores[:, end] += 200
        scores[:, pad] += 100
        return scores

    inputs = tokenizer(prefix(translator) + "cat", return_tensors="pt")
    options = dict(num_beams=1, early_stopping=False, logits_processor=[prefer])
    _, word, *rest = model.generate(**inputs, **options)[0].tolist()
    assert word not in (end, pad) and rest == [end]


@pytest.mark.slow
@torch.no_grad()
def test_it_can_be_imported_again(case, tmp_path):
    """With the same logits and, from text, the same numbers of words."""
    _, translator, folder = case
    count = len(prefix(translator).split())
    import_model(folder, tmp_path / "again", *(("de", "fra") if count else ()))
    again = from_pretrained(str(tmp_path / "again"))
    assert again.src_dict.symbols == translator.src_dict.symbols
    assert again.tgt_dict.symbols == translator.tgt_dict.symbols
    for text in TEXTS:
        assert again.encode(text).equal(translator.encode(text))
    source = sentence(translator.src_dict, 30)[None]
    target = sentence(translator.tgt_dict, 20).roll(1)[None]
    lengths = torch.tensor([31])
    (expected, _), (found, _) = (t.models[0](source, lengths, target) for t in (translator, again))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_card(case):
    _, _, folder = case
    card = (folder / "README.md").read_text()
    assert card.startswith('---\nlanguage:\n- "de"\n- "en"\n')
