"""Imported models against the library transformers: logits with padding, caches and pairs."""

import json
from argparse import Namespace
from functools import partial

import pytest
import torch

from pet_fairseq.decoding.transformer import is_plain
from pet_fairseq.errors import UserError
from pet_fairseq.hub import from_pretrained
from pet_fairseq.loading import load_model
from pet_fairseq.pretrained.bpe import TokenizerJson
from pet_fairseq.pretrained.gguf_file import read_gguf
from pet_fairseq.pretrained.importer import DEFAULTS, import_model
from pet_fairseq.pretrained.tokenizer_file import read_tokenizer
from tests.pretrained import transformers_models as theirs
from tests.pretrained.bert import PIECES
from tests.pretrained.gguf_files import write_gguf
from tests.pretrained.llama import change_json

BERT_NAMES = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]"}
BERT_NAMES |= {"<mask>": "[MASK]"}
TOLERANCE = dict(rtol=1e-5, atol=1e-5)


def load(tmp_path):
    """Import the files in tmp_path/hf; the model and its task."""
    import_model(tmp_path / "hf", tmp_path / "out")
    return load_model(str(tmp_path / "out/checkpoint.pt"), "FILE")


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
    if kind == "bert":
        model, pieces, names, separators = theirs.bert, PIECES, BERT_NAMES, 1
    else:
        model, names, separators = partial(theirs.roberta, kind=kind), {}, 2
        pieces = theirs.SENTENCE_PIECES.get(kind, theirs.ROBERTA_PIECES)
    model = model(tmp_path / "hf", head, **config)
    ours, task = load(tmp_path)
    words = task.source_dictionary
    number = numbers(words, pieces, names)
    batch = ragged(pairs(words, separators), words.pad(), 16)
    inputs = {"input_ids": number[batch], "attention_mask": batch.ne(words.pad()).long()}
    if kind == "bert":  # as BertTokenizer gives them
        ends = batch.eq(words.eos())
        inputs["token_type_ids"] = (ends.cumsum(1) - ends.long()).clamp(max=1)
    return ours, task, batch, number, model, inputs


ENCODERS = ["bert", "Roberta", "XLMRoberta", "Camembert"]


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
    assert task.cfg.separator_token == (None if kind == "bert" else 2)


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
}


def lm_case(name, tmp_path):
    model = LANGUAGE_MODELS[name](tmp_path / "hf")
    ours, task = load(tmp_path)
    words = task.source_dictionary
    start = "<|end|>" if name == "gpt2" else "<|start|>"
    number = numbers(words, theirs.LM_PIECES, {"<s>": start, "</s>": "<|end|>"})
    rows = texts(words, (9, 4, 0), first=words.eos())
    batch = ragged([row[:-1] for row in rows], words.pad(), 10)
    mask = batch.ne(words.pad())
    inputs = {"input_ids": number[batch].clamp(min=0), "attention_mask": mask.long()}
    with torch.no_grad():
        expected = model(**inputs).logits
    return ours, words, number, batch, mask, expected


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


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2"])
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


# --- encoder-decoders -----------------------------------------------------------------------------

# how each is made, and the pieces of its source and its target
BART_PIECES = (theirs.ROBERTA_PIECES, theirs.ROBERTA_PIECES)
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
}


def translation_case(name, tmp_path):
    make, *pieces = ENCODER_DECODERS[name]
    model = make(tmp_path / "hf")
    ours, task = load(tmp_path)
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
    }
    with torch.no_grad():
        expected = model(**inputs).logits
    return ours, target_number, source, target, expected


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


def test_another_start_of_an_mbart(tmp_path, refused):
    theirs.bart(tmp_path / "hf", "MBart", decoder_start_token_id=9)
    refused(tmp_path / "hf", "decoder_start_token_id is 9, which is not supported; only 2 is")


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
    ours, task = load(tmp_path)
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


def test_a_window_limits_the_text(tmp_path):
    theirs.llama(tmp_path / "hf", "Mistral", sliding_window=10)
    _, task = load(tmp_path)
    assert task.args.tokens_per_sample == task.args.max_target_positions == 10


def drop(file, *names):
    config = json.loads(file.read_text())
    file.write_text(json.dumps({name: config[name] for name in config if name not in names}))


@pytest.mark.parametrize("kind", DEFAULTS)
def test_options_that_a_config_lacks(kind):
    config = theirs.transformers.AutoConfig.for_model(kind)
    assert DEFAULTS[kind] == {name: getattr(config, name) for name in DEFAULTS[kind]}


@pytest.mark.parametrize(("kind", "longest"), [("Llama", 8192), ("Mistral", 4096), ("Qwen2", 8192)])
def test_windows_that_a_config_lacks(kind, longest, tmp_path):
    theirs.llama(tmp_path / "hf", kind, max_position_embeddings=8192)
    file = tmp_path / "hf/config.json"
    change_json(file, **({"sliding_window": 16} if kind == "Qwen2" else {}))
    drop(file, "use_sliding_window" if kind == "Qwen2" else "sliding_window")
    _, task = load(tmp_path)
    assert task.args.tokens_per_sample == longest


def test_layer_norms_that_a_config_lacks(tmp_path, refused):
    theirs.roberta(tmp_path / "hf")
    drop(tmp_path / "hf/config.json", "layer_norm_eps")
    refused(tmp_path / "hf", "layer_norm_eps is 1e-12, which is not supported; only 1e-05 is")


def test_an_untied_roberta(tmp_path, refused):
    theirs.roberta(tmp_path / "hf", tie_word_embeddings=False)
    refused(tmp_path / "hf", "tie_word_embeddings is False, which is not supported")


@pytest.mark.parametrize("name", ["bert", "roberta", "bart"])
def test_a_head_of_other_classes(name, tmp_path, refused):
    folder = tmp_path / "hf"
    getattr(theirs, name)(folder, head="SequenceClassification", num_labels=3)
    change_json(folder / "config.json", id2label={"0": "no", "1": "yes"})
    refused(folder, "model.safetensors: its head has 3 classes, but config.json names 2")


# --- files ----------------------------------------------------------------------------------------


def test_shards_and_pickles(tmp_path):
    model = theirs.llama(tmp_path / "hf")
    ours, _ = load(tmp_path)
    (tmp_path / "hf/model.safetensors").unlink()
    model.save_pretrained(tmp_path / "hf", max_shard_size="4KB")
    assert len(list((tmp_path / "hf").glob("*.safetensors"))) > 2
    import_model(tmp_path / "hf", tmp_path / "sharded")
    for file in (tmp_path / "hf").glob("model*"):
        file.unlink()
    for name, new in (("pickled", True), ("old", False)):
        file = tmp_path / "hf/pytorch_model.bin"
        torch.save(model.state_dict(), file, _use_new_zipfile_serialization=new)
        import_model(tmp_path / "hf", tmp_path / name)
    for name in ("sharded", "pickled", "old"):
        other, _ = load_model(str(tmp_path / name / "checkpoint.pt"), "FILE")
        for key, tensor in ours.state_dict().items():
            assert torch.equal(other.state_dict()[key], tensor), (name, key)


def test_an_old_config_of_rotary_positions(tmp_path):
    theirs.llama(tmp_path / "hf", rope_parameters=dict(rope_type="default", rope_theta=77.0))
    ours, _ = load(tmp_path)
    change_json(tmp_path / "hf/config.json", rope_parameters=None, rope_theta=77.0)
    import_model(tmp_path / "hf", tmp_path / "old")
    old, _ = load_model(str(tmp_path / "old/checkpoint.pt"), "FILE")
    assert torch.equal(old.decoder.rotary.frequencies, ours.decoder.rotary.frequencies)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
        {"do_lower_case": False, "strip_accents": True},
    ],
)
def test_options_of_a_vocab_txt(options, tmp_path):
    pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] für fur Fur 中国 中 国".split()
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    kind = {"tokenizer_class": "BertTokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options | kind))
    reader = theirs.transformers.BertTokenizer.from_pretrained(tmp_path)
    text = "Für 中国 [MASK] fur"
    ours = read_tokenizer(tmp_path).tokenizer.encode(text, add_special_tokens=False)
    assert ours.tokens == reader.tokenize(text)


def write_byte_pieces(folder, **options):
    """vocab.json and merges.txt of a GPT-2; returns the number of its pieces."""
    tokenizer = theirs.byte_level_tokenizer(["hello world again"] * 5)
    model = json.loads(tokenizer.to_str())["model"]
    pieces = [*sorted(model["vocab"], key=model["vocab"].get), "<|endoftext|>"]
    theirs.write_numbers(folder / "vocab.json", pieces)
    merges = [" ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    return len(pieces)


@pytest.mark.parametrize("in_options", [True, False])
def test_pieces_that_were_added_to_a_vocab_json(in_options, tmp_path):
    number = write_byte_pieces(tmp_path)
    numbers = {"<|b|>": number + 1, "<a>": number}
    options = {"tokenizer_class": "GPT2Tokenizer", "additional_special_tokens": ["<|b|>"]}
    if in_options:
        special = {"<|b|>": True, "<a>": False}
        options["added_tokens_decoder"] = {
            str(n): {"content": piece, "special": special[piece]} for piece, n in numbers.items()
        }
    else:
        (tmp_path / "added_tokens.json").write_text(json.dumps(numbers))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    reader = theirs.transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    tokenizer = read_tokenizer(tmp_path).tokenizer
    text = "hello<|endoftext|>hello<|b|> <a>world"
    assert tokenizer.encode(text).tokens == reader.tokenize(text)
    assert [tokenizer.token_to_id(piece) for piece in ("<a>", "<|b|>")] == [number, number + 1]
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<a>": number + 5}))
    with pytest.raises(UserError, match=r"the piece <a> that added_tokens.json or .* adds to it"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_tokenizers_of_another_class(file, tmp_path):
    write_byte_pieces(tmp_path)
    (tmp_path / file).write_text(json.dumps({"tokenizer_class": "Qwen2TokenizerFast"}))
    with pytest.raises(UserError, match=rf"belongs to a Qwen2TokenizerFast, as {file} says"):
        read_tokenizer(tmp_path)
    (tmp_path / file).write_text(json.dumps({"tokenizer_class": "PhobertTokenizer"}))
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n")
    with pytest.raises(UserError, match=r"vocab.txt: belongs to a PhobertTokenizer"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize("split", ["gpt-2", "llama-bpe", "qwen2"])
def test_byte_level_tokenizers_of_gguf(split, tmp_path):
    """Pieces that cross words tell one division of text from another."""
    text = "It's 12345 o'clock, I'LL go!\n\n  x1y22 don't...  (ab)\tünd 3 + 4 "
    tokenizer = theirs.byte_level_tokenizer([text, text.upper(), text[::-1]] * 3)
    model = json.loads(tokenizer.to_str())["model"]
    fields = {
        "tokenizer_model": "gpt2",
        "tokenizer_pre": split,
        "token_list": sorted(model["vocab"], key=model["vocab"].get),
        "token_types": [1] * len(model["vocab"]),
        "token_merges": [" ".join(merge) for merge in model["merges"]],
    }
    write_gguf(tmp_path / "model.gguf", {}, fields=fields)
    ours = read_gguf(tmp_path / "model.gguf").tokenizer.tokenizer
    reader = theirs.transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file="model.gguf")
    for line in (text, text[7:], "1234567", "we'Re 99 a  b\n \r\n"):
        ids = ours.encode(line).ids
        assert ids == reader(line, add_special_tokens=False)["input_ids"], line
        assert ours.decode(ids) == line
    assert ours.encode(text).ids != tokenizer.encode(text).ids
