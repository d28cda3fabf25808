"""Imported multilingual translators against transformers: they read plain sentences and texts."""

import json
from functools import partial

import pytest
import torch

from pet_fairseq.decoding.transformer import is_plain
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.multilingual.language_tokens import wrap_source
from pet_fairseq.predict.ctranslate2 import load_engine
from pet_fairseq.predict.hub import from_pretrained
from tests.huggingface import transformers_models as theirs
from tests.huggingface import translators
from tests.huggingface.llama import change_json
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


@pytest.fixture(params=CASES, scope="module")
def case(request, tmp_path_factory):
    """A translator of transformers, and the imported one as users open it."""
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("case")
    made = CASES[request.param](folder / "hf")
    import_model(folder / "hf", folder / "out", *made.pair)
    return made, from_pretrained(str(folder / "out"))


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
        around = wrap_source(translator.encode(text)[None], encoder.prefix, encoder.end, 1)
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


# --- without language tokens ----------------------------------------------------------------------


def test_texts_of_fsmt(tmp_path):
    merges = ["a t", "c at</w>", "t h", "th e</w>", "z \u2028 3"]
    letters = sorted(set("".join(TEXTS).lower()) - {" "})
    pieces = [*letters, *(f"{letter}@@" for letter in letters), "at@@", "th@@", "the", "cat"]
    words = [*translators.FIRST, *pieces]
    translators.fsmt(tmp_path / "hf", source=words, merges=merges)
    import_model(tmp_path / "hf", tmp_path / "out")
    reader = theirs.transformers.FSMTTokenizer.from_pretrained(tmp_path / "hf")
    translator = from_pretrained(str(tmp_path / "out"))
    for text in (*map(str.lower, TEXTS), "it's a cat-nap & so on", "hath \u00e9 cat", ""):
        assert translator.encode(text).tolist() == reader(text)["input_ids"], text
    assert "c@@ at" not in translator.src_dict.string(translator.encode("cat"))
    found = translator.decode(torch.tensor([translator.tgt_dict.index(w) for w in ("w1@@", "w2")]))
    assert found == "w1w2"


def test_a_language_token_in_the_text(tmp_path):
    """Without --target-lang, OPUS-MT's token is given with the text, as in transformers."""
    made = translators.marian(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    translator = from_pretrained(str(tmp_path / "out"))
    number = numbers(translator.src_dict, made)
    for text in (">>zlm_Latn<< The cat", ">>fra<<Rats", ">>fra<<", "cat >>fra<<", "a >> b << c"):
        expected = made.tokenizer(text)["input_ids"]
        assert number[translator.encode(text)].tolist() == expected
    assert is_plain(translator.models[0])


def test_an_mbart_without_languages(tmp_path):
    """It is imported as a plain bart, with the languages among its words."""
    made = translators.mbart_of_pieces(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    translator = from_pretrained(str(tmp_path / "out"))
    number = numbers(translator.src_dict, made)
    assert {"ro_RO", "de_DE"} <= set(translator.src_dict.symbols)
    expected = made.tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"]
    assert number[translator.encode(TEXTS[0])].tolist() == [*expected, 2]


# --- files ----------------------------------------------------------------------------------------


def arch_of(folder):
    return (folder / "model_options").read_text()


def test_options_for_other_commands(tmp_path):
    """model_options has the words without quotes, as a shell passes them on."""
    made = translators.nllb(tmp_path / "hf", legacy=True)
    import_model(tmp_path / "hf", tmp_path / "out", *made.pair)
    assert "--source-end </s> deu_Latn --decoder-start </s> fra_Latn --max" in arch_of(
        tmp_path / "out"
    )


@pytest.mark.slow
@pytest.mark.parametrize("named", ["its own", "PreTrainedTokenizerFast", None])
def test_where_an_mbart_has_its_tokens(named, tmp_path):
    """Where no class of mBART's is named, the word from which the decoder starts tells."""
    for kind, tokens in (
        ("MBart50Tokenizer", "--source-prefix de_DE --decoder-start </s> ro_RO"),
        ("MBartTokenizer", "--source-end </s> de_DE --decoder-start ro_RO"),
    ):
        made = translators.mbart(tmp_path / kind, kind)
        if named != "its own":
            change_json(tmp_path / kind / "tokenizer_config.json", tokenizer_class=named)
        import_model(tmp_path / kind, tmp_path / f"{kind}_out", *made.pair)
        assert tokens in arch_of(tmp_path / f"{kind}_out")


def test_numbers_of_language_tokens_in_files(tmp_path):
    """As older versions of transformers save M2M-100's; another set of languages."""
    folder = tmp_path / "hf"
    translators.m2m_100(folder)
    change_json(folder / "tokenizer_config.json", language_codes="wmt21")
    size = len(json.loads((folder / "vocab.json").read_text()))
    (folder / "added_tokens.json").write_text(json.dumps({"__xx__": size + 9}))
    listed = {"additional_special_tokens": [{"content": "__xx__"}]}
    (folder / "special_tokens_map.json").write_text(json.dumps(listed))
    import_model(folder, tmp_path / "out", "de", "xx")
    words = (tmp_path / "out/dict.xx.txt").read_text().splitlines()
    rows = {"__en__": 0, "__de__": 7, f"madeupword{size + 8:04d}": 8, "__xx__": 9}
    assert {word: words.index(f"{word} 1") + 4 - size for word in rows} == rows
    change_json(folder / "tokenizer_config.json", language_codes="mine")
    with pytest.raises(UserError, match="language_codes is 'mine'; known are m2m100, wmt21"):
        import_model(folder, tmp_path / "again", "de", "xx")


# --- what is refused ------------------------------------------------------------------------------

DE_EN = ("--source-lang", "de", "--target-lang", "en")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "--source-lang: missing; the languages of"),
        (("--source-lang", "eng_Latn"), "--target-lang: missing; the languages of"),
        (DE_EN, "--source-lang de: "),
        (("--source-lang", "eng_Latn", "--target-lang", "en"), "--target-lang en: "),
        (
            ("--source-lang", "eng_Latn", "--target-lang", "eng_Latn"),
            "--target-lang eng_Latn: is the --source-lang too; give two languages",
        ),
    ],
)
def test_languages_of_nllb(options, text, tmp_path, refused):
    translators.nllb(tmp_path / "hf")
    listed = () if "too;" in text else ("eng_Latn, deu_Latn, fra_Latn",)
    refused(tmp_path / "hf", text, *listed, options=options)


def test_languages_of_others(tmp_path, refused):
    theirs.bart(tmp_path / "bart")
    text = "--source-lang: a model of type bart has no languages to choose from; leave it out"
    refused(tmp_path / "bart", text, options=DE_EN)
    theirs.bart(tmp_path / "mbart", "MBart")
    refused(tmp_path / "mbart", "files list no language tokens", options=DE_EN)
    theirs.bart(tmp_path / "classes", "MBart", "SequenceClassification", num_labels=3)
    refused(tmp_path / "classes", "is of a classifier; leave the languages out", options=DE_EN)
    theirs.marian(tmp_path / "marian")
    text = "--target-lang en: ", "has no language tokens such as >>fra<<; leave the option out"
    refused(tmp_path / "marian", *text, options=DE_EN)
    translators.marian(tmp_path / "opus")
    refused(tmp_path / "opus", "--target-lang en: ", "are zlm_Latn, fra", options=DE_EN)


def test_a_damaged_sentencepiece_model(tmp_path, refused):
    translators.mbart_of_pieces(tmp_path / "hf")
    (tmp_path / "hf/sentencepiece.bpe.model").write_bytes(b"no model")
    pair = ("--source-lang", "de_DE", "--target-lang", "en_XX")
    refused(tmp_path / "hf", "sentencepiece.bpe.model", options=pair)


def test_options_of_m2m(tmp_path, refused):
    made = translators.nllb(tmp_path / "hf")
    pair = ("--source-lang", made.pair[0], "--target-lang", made.pair[1])
    for name, value in (("decoder_start_token_id", 3), ("tie_word_embeddings", False)):
        config = json.loads((tmp_path / "hf/config.json").read_text())
        change_json(tmp_path / "hf/config.json", **{name: value})
        refused(tmp_path / "hf", f"{name} is {value}, which is not supported", options=pair)
        (tmp_path / "hf/config.json").write_text(json.dumps(config))


def test_files_of_fsmt(tmp_path, refused):
    folder = tmp_path / "hf"
    translators.fsmt(folder, trained_positions=True)
    refused(folder, "the encoder's positions are no sinusoids")
    refused(folder, "--source-lang en: ", "its languages are de", options=("--source-lang", "en"))
    (folder / "merges.txt").write_text("a b 12\nc\n")
    refused(folder, "merges.txt: has a line without two pieces")
    change_json(folder / "tokenizer_config.json", do_lower_case=True)
    refused(folder, "tokenizer_config.json: do_lower_case is True, which is not supported")
    change_json(folder / "config.json", langs=["de"])
    change_json(folder / "tokenizer_config.json", do_lower_case=False)
    refused(folder, "config.json: langs is ['de'], not two languages")
    (folder / "vocab-tgt.json").unlink()
    change_json(folder / "config.json", langs=["de", "en"])
    refused(folder, "vocab-tgt.json: no such file")


# --- in CTranslate2 -------------------------------------------------------------------------------


def test_a_marian_of_several_languages_in_ctranslate2(tmp_path):
    """Its tokens lie beside it, and its decoder starts from the padding word as before."""
    pytest.importorskip("ctranslate2")
    made = translators.marian(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out", *made.pair)
    checkpoint = str(tmp_path / "out/checkpoint.pt")
    with pytest.raises(UserError, match="bilingual_marian: it puts language tokens around"):
        export(checkpoint, str(tmp_path / "out"), "fairseq", tmp_path / "x")
    export(checkpoint, str(tmp_path / "out"), "ctranslate2", tmp_path / "engine")
    translator = from_pretrained(str(tmp_path / "out"))
    engine = load_engine(tmp_path / "engine")
    for text in TEXTS:
        tokens = translator.encode(text)
        words = translator.src_dict.string(tokens).split()
        search = dict(beam=1, max_len_a=0, max_len_b=11, min_len=3)
        best = translator.generate([tokens], **search)[0][0]
        (found,) = engine.translate_batch(
            [words], beam_size=1, min_decoding_length=3, max_decoding_length=11
        )
        assert found.hypotheses[0] == translator.tgt_dict.string(best["tokens"]).split()
