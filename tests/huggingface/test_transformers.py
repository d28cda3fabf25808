"""Imported models against the library transformers: logits with padding, caches and pairs."""

from argparse import Namespace
from functools import partial

import pytest
import torch

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.decoding.transformer import is_plain
from pet_fairseq.huggingface.bpe import TokenizerJson
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.predict.hub import from_pretrained
from tests.huggingface import transformers_models as theirs
from tests.huggingface import translators
from tests.huggingface.bert import PIECES

BERT_NAMES = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]"}
BERT_NAMES |= {"<mask>": "[MASK]"}
OF_BERT = ("bert", "distilbert")  # with its pieces and its pairs
TOLERANCE = dict(rtol=1e-5, atol=1e-5)


def numbers(dictionary, pieces, names):
    """For every word of fairseq's dictionary its number in transformers, -1 if it has none."""
    named = [names.get(word, word) for word in dictionary.symbols]
    return torch.tensor([pieces.index(name) if name in pieces else -1 for name in named])


def ragged(rows, pad, total):
    batch = torch.full((len(rows), total), pad)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = torch.tensor(row)
    return batch


def texts(dictionary, lengths, first=None):
    """Random texts of ordinary words that end in </s>."""
    start = [] if first is None else [first]
    return [
        [*start, *torch.randint(4, len(dictionary) - 2, (n,)).tolist(), dictionary.eos()]
        for n in lengths
    ]


# --- encoders -------------------------------------------------------------------------------------


def pairs(dictionary, separators):
    """A pair of sentences, a single one, and a pair with an empty one."""
    a, b, c = texts(dictionary, (5, 4, 7))
    extra = [dictionary.eos()] * (separators - 1)
    return [
        [dictionary.bos(), *a, *extra, *b],
        [dictionary.bos(), *c],
        [dictionary.bos(), *b, *extra, dictionary.eos()],
    ]


def encoder_case(kind, tmp_path, head, **config):
    """The two libraries' inputs for the same texts, and both models."""
    if kind in OF_BERT:
        model, pieces, names, separators = getattr(theirs, kind), PIECES, BERT_NAMES, 1
    else:
        model, names, separators = partial(theirs.roberta, kind=kind), {}, 2
        pieces = theirs.SENTENCE_PIECES.get(kind, theirs.ROBERTA_PIECES)
    model = model(tmp_path / "hf", head, **config)
    ours, task = theirs.load(tmp_path)
    words = task.source_dictionary
    number = numbers(words, pieces, names)
    batch = ragged(pairs(words, separators), words.pad(), 16)
    inputs = {"input_ids": number[batch], "attention_mask": batch.ne(words.pad()).long()}
    if kind == "bert":  # as BertTokenizer gives them
        ends = batch.eq(words.eos())
        inputs["token_type_ids"] = (ends.cumsum(1) - ends.long()).clamp(max=1)
    return ours, task, batch, number, model, inputs


ENCODERS = [*OF_BERT, "Roberta", "XLMRoberta", "Camembert"]


@pytest.mark.parametrize("kind", ENCODERS)
def test_masked_words(kind, tmp_path):
    ours, _, batch, number, model, inputs = encoder_case(kind, tmp_path, "MaskedLM")
    with torch.no_grad():
        logits, _ = ours(batch)
        expected = model(**inputs).logits[..., number]
    real = batch.ne(1)
    assert torch.allclose(logits[real], expected[real], **TOLERANCE)
    assert expected[real].std() > 0.1


def test_one_type_of_tokens(tmp_path):
    """BERT's of one type read all sentences alike, as in transformers without token types."""
    case = encoder_case("bert", tmp_path, "MaskedLM", type_vocab_size=1)
    ours, _, batch, number, model, inputs = case
    inputs["token_type_ids"].zero_()
    with torch.no_grad():
        logits, expected = ours(batch)[0], model(**inputs).logits[..., number]
    real = batch.ne(1)
    assert torch.allclose(logits[real], expected[real], **TOLERANCE)


@pytest.mark.parametrize("options", [{"sinusoidal_pos_embds": True}, {"activation": "relu"}])
def test_options_of_a_distilbert(options, tmp_path):
    ours, _, batch, number, model, inputs = encoder_case(
        "distilbert", tmp_path, "MaskedLM", **options
    )
    with torch.no_grad():
        logits, expected = ours(batch)[0], model(**inputs).logits[..., number]
    real = batch.ne(1)
    assert torch.allclose(logits[real], expected[real], **TOLERANCE)


def test_a_distilbert_without_a_head(tmp_path):
    """It begins a classifier whose head has DistilBERT's activation."""
    ours, _, batch, _, model, inputs = encoder_case("distilbert", tmp_path, None)
    with torch.no_grad():
        features, _ = ours(batch, features_only=True)
        expected = model(**inputs).last_hidden_state
    real = batch.ne(1)
    assert torch.allclose(features[real], expected[real], **TOLERANCE)
    ours.register_classification_head("new", num_classes=2)
    assert ours.classification_heads["new"].activation_fn(torch.tensor(-1.0)) == 0


@pytest.mark.parametrize("kind", ENCODERS)
def test_classes_of_pairs(kind, tmp_path):
    labels = {0: "no way", 1: "perhaps", 2: "yes"}
    case = encoder_case(kind, tmp_path, "SequenceClassification", id2label=labels)
    ours, task, batch, _, model, inputs = case
    with torch.no_grad():
        logits, _ = ours(batch, classification_head_name=task.cfg.classification_head_name)
        expected = model(**inputs).logits
    assert torch.allclose(logits, expected, **TOLERANCE)
    first = task.label_dictionary.nspecial
    names = [task.label_dictionary[first + i] for i in range(3)]
    assert names == ["no\\u0020way", "perhaps", "yes"]
    assert task.cfg.separator_token == (None if kind in OF_BERT else 2)


@pytest.mark.parametrize("kind", ["XLMRoberta", "Camembert"])
def test_texts_of_sentence_pieces(kind, tmp_path):
    """From raw pairs to logits, each library by its own reader of tokenizer.json."""
    ours, task, _, number, model, _ = encoder_case(kind, tmp_path, "SequenceClassification")
    words = task.source_dictionary
    reader = theirs.transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "hf/tokenizer.json"), pad_token="<pad>"
    )
    file = str(tmp_path / "out/tokenizer.json")
    bpe = TokenizerJson(Namespace(tokenizer_file=file, tokenizer_newline=""))
    for pair in (("abcd eea  b", "c<mask> deab"), ("bcdz", "a")):
        inputs = reader(*pair, return_tensors="pt")
        inputs.pop("token_type_ids", None)
        a, b = (words.encode_line(bpe.encode(text), add_if_not_exist=False) for text in pair)
        row = torch.cat([torch.tensor([words.bos()]), a, torch.tensor([words.eos()]), b]).long()
        assert number[row].tolist() == inputs["input_ids"][0].tolist()
        with torch.no_grad():
            head = task.cfg.classification_head_name
            logits, _ = ours(row[None], classification_head_name=head)
            expected = model(**inputs).logits
        assert torch.allclose(logits, expected, **TOLERANCE)


def test_old_names_of_layer_norms(tmp_path):
    from safetensors.torch import load_file, save_file

    ours, _, batch, *_ = encoder_case("bert", tmp_path, "MaskedLM")
    file = tmp_path / "hf/model.safetensors"
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = load_file(file)
    for new, name in old.items():
        tensors = {key.replace(new, name): tensor for key, tensor in tensors.items()}
    save_file(tensors, file)
    import_model(tmp_path / "hf", tmp_path / "again")
    again, _ = load_model(str(tmp_path / "again/checkpoint.pt"), "FILE")
    with torch.no_grad():
        assert torch.equal(again(batch)[0], ours(batch)[0])


# --- language models ------------------------------------------------------------------------------

LANGUAGE_MODELS = {
    "gpt2": theirs.gpt2,
    "gpt2, torch's name of its activation": lambda folder: theirs.gpt2(
        folder, activation_function="gelu_pytorch_tanh"
    ),
    "llama": theirs.llama,
    "llama, untied, one head of keys": lambda folder: theirs.llama(
        folder, tie_word_embeddings=False, num_key_value_heads=1
    ),
    "llama, tied": lambda folder: theirs.llama(folder, tie_word_embeddings=True),
    "llama, wide heads": lambda folder: theirs.llama(folder, head_dim=6),
    "llama, linear": lambda folder: theirs.llama(
        folder, rope_parameters=dict(rope_type="linear", factor=3.0, rope_theta=500.0)
    ),
    "llama 3": lambda folder: theirs.llama(
        folder,
        rope_parameters=dict(
            rope_type="llama3",
            factor=4.0,
            rope_theta=100.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=12,
        ),
    ),
    "mistral": lambda folder: theirs.llama(folder, "Mistral"),
    "mistral, a window as long as the text": lambda folder: theirs.llama(
        folder, "Mistral", sliding_window=10
    ),
    "qwen2": lambda folder: theirs.llama(folder, "Qwen2"),
    "qwen3": lambda folder: theirs.llama(folder, "Qwen3", head_dim=6),
    "qwen3, tied, one head of keys": lambda folder: theirs.llama(
        folder, "Qwen3", head_dim=4, tie_word_embeddings=True, num_key_value_heads=1
    ),
    "qwen3, linear": lambda folder: theirs.llama(
        folder,
        "Qwen3",
        head_dim=8,
        rope_parameters=dict(rope_type="linear", factor=3.0, rope_theta=500.0),
    ),
    "qwen3, a window as long as the text": lambda folder: theirs.llama(
        folder,
        "Qwen3",
        head_dim=6,
        use_sliding_window=True,
        sliding_window=10,
        max_window_layers=1,
    ),
    "qwen3, a window in no layer": lambda folder: theirs.llama(
        folder,
        "Qwen3",
        head_dim=6,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=3,
    ),
}


def lm_case(name, tmp_path):
    model = LANGUAGE_MODELS[name](tmp_path / "hf")
    ours, task = theirs.load(tmp_path)
    words = task.source_dictionary
    start = "<|end|>" if name.startswith("gpt2") else "<|start|>"
    number = numbers(words, theirs.LM_PIECES, {"<s>": start, "</s>": "<|end|>"})
    rows = texts(words, (9, 4, 0), first=words.eos())
    batch = ragged([row[:-1] for row in rows], words.pad(), 10)
    mask = batch.ne(words.pad())
    inputs = {"input_ids": number[batch].clamp(min=0), "attention_mask": mask.long()}
    with torch.no_grad():
        expected = model(**inputs).logits
    return ours, words, number, batch, mask, expected


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_model(name, tmp_path):
    ours, words, number, batch, mask, expected = lm_case(name, tmp_path)
    with torch.no_grad():
        logits, _ = ours(batch)
        probabilities = ours.get_normalized_probs((logits, None), log_probs=True)
    own = {words.symbols.index(piece) for piece in theirs.LM_PIECES if piece[0] == "w"}
    own = torch.tensor(sorted(own | {words.eos()}))
    assert torch.allclose(logits[mask][:, own], expected[mask][:, number[own]], **TOLERANCE)
    # words that only fairseq has take nothing from the others
    expected = expected.log_softmax(-1)[mask][:, number[own]]
    assert torch.allclose(probabilities[mask][:, own], expected, **TOLERANCE)
    assert expected.std() > 0.1
    others = [i for i in range(len(words)) if i not in own.tolist()]
    absent = [i for i in others if words[i] != "<|start|>"]
    assert probabilities[mask][:, absent].max() < -10


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2", "qwen3"])
def test_caches(name, tmp_path):
    ours, words, number, batch, mask, expected = lm_case(name, tmp_path)
    state = {}
    order = torch.tensor([1, 0, 2])  # as beam search reorders
    with torch.no_grad():
        for i in range(batch.size(1)):
            logits, _ = ours.decoder(batch[:, : i + 1], incremental_state=state)
            real = mask[:, i]
            own = torch.tensor([words.eos(), *range(4, len(words) - 2)])
            found, right = logits[:, 0][:, own], expected[:, i][:, number[own]]
            assert torch.allclose(found[real], right[real], **TOLERANCE), i
            if i == 2:
                ours.decoder.reorder_incremental_state_scripting(state, order)
                batch, mask, expected = batch[order], mask[order], expected[order]


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_language_model_goes_on_with_a_text(name, tmp_path):
    """Greedily, as transformers does with its own cache; </s> stands before the text."""
    model = LANGUAGE_MODELS[name](tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    ours = from_pretrained(str(tmp_path / "out"))
    said = set()
    for text in ("w3 w1 w4 w1 w5", "w9", "w2 w6"):
        ids = torch.tensor([[20, *map(theirs.LM_PIECES.index, text.split())]])
        found = model.generate(ids, max_length=13, do_sample=False, pad_token_id=20)[0, 1:]
        words = [theirs.LM_PIECES[i] for i in found if i != 20]
        assert ours.sample([text], max_len_b=12) == ["".join(words)]
        said.update(words)
    assert len(said) > 8


# --- encoder-decoders -----------------------------------------------------------------------------

# how each is made, and the pieces of its source and its target
BART_PIECES = (theirs.ROBERTA_PIECES, theirs.ROBERTA_PIECES)
T5_PIECES = (theirs.T5_PIECES, theirs.T5_PIECES)
MARIAN_PIECES = (theirs.MARIAN_PIECES, theirs.MARIAN_PIECES)
ENCODER_DECODERS = {
    "bart": (theirs.bart, *BART_PIECES),
    "bart, scaled": (partial(theirs.bart, scale_embedding=True), *BART_PIECES),
    "mbart": (partial(theirs.bart, kind="MBart", scale_embedding=True), *BART_PIECES),
    "mbart, not scaled": (partial(theirs.bart, kind="MBart"), *BART_PIECES),
    "marian": (theirs.marian, *MARIAN_PIECES),
    "marian, relu": (partial(theirs.marian, activation_function="relu"), *MARIAN_PIECES),
    "marian, not scaled": (partial(theirs.marian, scale_embedding=False), *MARIAN_PIECES),
    "marian, untied": (partial(theirs.marian, tie_word_embeddings=False), *MARIAN_PIECES),
    "marian, two vocabularies": (
        partial(theirs.marian, target=theirs.TARGET_PIECES),
        *(theirs.MARIAN_PIECES, theirs.TARGET_PIECES),
    ),
    "t5": (theirs.t5, *T5_PIECES),
    "t5, untied, gated": (
        partial(theirs.t5, untied=True, tie_word_embeddings=False, feed_forward_proj="gated-gelu"),
        *T5_PIECES,
    ),
    "t5, tied, not scaled": (partial(theirs.t5, tie_word_embeddings=False), *T5_PIECES),
    "t5, gelu": (partial(theirs.t5, feed_forward_proj="gelu"), *T5_PIECES),
    "t5, gated relu": (partial(theirs.t5, feed_forward_proj="gated-relu"), *T5_PIECES),
    "t5, usual buckets": (
        partial(theirs.t5, relative_attention_num_buckets=32, relative_attention_max_distance=128),
        *T5_PIECES,
    ),
    "mt5": (partial(theirs.t5, kind="MT5", untied=True), *T5_PIECES),
    "umt5": (partial(theirs.t5, kind="UMT5"), *T5_PIECES),
    "umt5, untied": (
        partial(theirs.t5, kind="UMT5", untied=True, tie_word_embeddings=False),
        *T5_PIECES,
    ),
    "fsmt": (translators.fsmt, translators.FSMT_WORDS, translators.FSMT_TARGET),
    "fsmt, output tied": (
        partial(translators.fsmt, tied=True),
        *(translators.FSMT_WORDS, translators.FSMT_TARGET),
    ),
    "fsmt, all tied, not scaled": (
        partial(
            translators.fsmt,
            target=translators.FSMT_WORDS,
            scale_embedding=False,
            tie_word_embeddings=True,
        ),
        *(translators.FSMT_WORDS, translators.FSMT_WORDS),
    ),
}


def translation_case(name, tmp_path):
    make, *pieces = ENCODER_DECODERS[name]
    model = make(tmp_path / "hf")
    ours, task = theirs.load(tmp_path)
    words, target_words = task.source_dictionary, task.target_dictionary
    number, target_number = (
        numbers(dictionary, own, {}) for dictionary, own in zip((words, target_words), pieces)
    )
    source = ragged(texts(words, (7, 3, 1)), words.pad(), 9)
    rows = [[words.eos(), *row[:-1]] for row in texts(target_words, (5, 6, 0))]
    target = ragged(rows, words.pad(), 8)
    start = 2 if "mbart" in name else model.config.decoder_start_token_id  # any word
    decoder_input = target_number[target].masked_fill(target.eq(words.eos()), start)
    inputs = {
        "input_ids": number[source],
        "attention_mask": source.ne(words.pad()).long(),
        "decoder_input_ids": decoder_input,
        "use_cache": False,  # with a cache FSMT masks no later words
    }
    with torch.no_grad():
        expected = model(**inputs).logits
    return ours, target_number, source, target, expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_encoder_decoder(name, tmp_path):
    ours, number, source, target, expected = translation_case(name, tmp_path)
    lengths = source.ne(1).sum(1)
    real, own = target.ne(1), number >= 0
    with torch.no_grad():
        logits, _ = ours(source, lengths, target)
        probabilities = ours.get_normalized_probs((logits, None), log_probs=True)
        left = torch.stack([row.roll(int(row.eq(1).sum())) for row in source])
        moved, _ = ours(left, lengths, target)
    assert torch.allclose(logits[real][:, own], expected[real][:, number[own]], **TOLERANCE)
    assert torch.allclose(moved[real], logits[real], **TOLERANCE)
    expected = expected.log_softmax(-1)[real][:, number[own]]
    assert torch.allclose(probabilities[real][:, own], expected, **TOLERANCE)
    state = {}
    with torch.no_grad():
        out = ours.encoder(source, lengths)
        for i in range(target.size(1)):
            step, _ = ours.decoder(target[:, : i + 1], out, incremental_state=state)
            assert torch.allclose(step[:, 0][real[:, i]], logits[:, i][real[:, i]], **TOLERANCE)


@pytest.mark.parametrize("name", ["marian", "marian, relu"])
def test_marian_translates(name, tmp_path):
    """The fast beam search takes it, and finds what transformers finds, which forces an end."""
    model = ENCODER_DECODERS[name][0](tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    translator = from_pretrained(str(tmp_path / "out/checkpoint.pt"), str(tmp_path / "out"))
    assert is_plain(translator.models[0])
    pad = model.config.pad_token_id
    for text in ("w3 w1 w4 w1 w5", "w9", "w2 w6"):
        ids = [theirs.MARIAN_PIECES.index(word) for word in text.split()] + [0]
        found = model.generate(
            torch.tensor([ids]), num_beams=1, max_new_tokens=9, bad_words_ids=[[pad]]
        )[0, 1:]
        found = [theirs.MARIAN_PIECES[i] for i in found if i != 0]
        ours = translator.translate(text, beam=1, max_len_a=0, max_len_b=8).split()
        assert ours and ours == found[: len(ours)]


def test_the_beginning_of_a_text_for_bart(tmp_path):
    """Written into the text, it is read as in transformers, which adds it."""
    theirs.bart(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    translator = from_pretrained(str(tmp_path / "out/checkpoint.pt"), str(tmp_path / "out"))
    words = [theirs.ROBERTA_PIECES.index(word) for word in ("<s>", "w3", "w1", "</s>")]
    assert translator.encode("<s>w3 w1").tolist() == words


@pytest.mark.parametrize("kind", ["Bart", "MBart"])
def test_classes_of_a_bart(kind, tmp_path):
    model = theirs.bart(tmp_path / "hf", kind, "SequenceClassification", num_labels=3)
    ours, task = theirs.load(tmp_path)
    words = task.source_dictionary
    rows = [pairs(words, 2)[0] for _ in range(2)]  # transformers takes no other number of </s>
    rows[1] = rows[1][:4] + rows[1][5:]
    batch = ragged(rows, words.pad(), 16)
    previous = ragged([row[-1:] + row[:-1] for row in rows], words.pad(), 16)
    with torch.no_grad():
        logits, _ = ours(
            batch,
            batch.ne(1).sum(1),
            previous,
            classification_head_name=task.cfg.classification_head_name,
        )
        mask = batch.ne(1).long()
        expected = model(input_ids=batch, attention_mask=mask, decoder_input_ids=previous).logits
    assert task.cfg.add_prev_output_tokens
    assert torch.allclose(logits, expected, **TOLERANCE)
