"""Files as the library transformers writes and reads them: configurations, weights, tokenizers."""

import json

import pytest
import torch
from tokenizers import Tokenizer, processors

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.gguf_file import read_gguf
from pet_fairseq.huggingface.importer import DEFAULTS, import_model
from pet_fairseq.huggingface.tokenizer_file import read_tokenizer
from tests.huggingface import transformers_models as theirs
from tests.huggingface.gguf_files import write_gguf
from tests.huggingface.llama import change_json

# --- configurations -------------------------------------------------------------------------------


def drop(file, *names):
    config = json.loads(file.read_text())
    file.write_text(json.dumps({name: config[name] for name in config if name not in names}))


def test_a_window_limits_the_text(tmp_path):
    theirs.llama(tmp_path / "hf", "Mistral", sliding_window=10)
    _, task = theirs.load(tmp_path)
    assert task.args.tokens_per_sample == task.args.max_target_positions == 10


@pytest.mark.parametrize("kind", DEFAULTS)
def test_options_that_a_config_lacks(kind):
    config = theirs.transformers.AutoConfig.for_model(kind)
    if kind in ("qwen2", "qwen3"):  # without a window they show None for its length
        with_window = theirs.transformers.AutoConfig.for_model(kind, use_sliding_window=True)
        config.sliding_window = with_window.sliding_window
    assert DEFAULTS[kind] == {name: getattr(config, name) for name in DEFAULTS[kind]}


QWEN = ("Qwen2", "Qwen3")


@pytest.mark.parametrize(
    ("kind", "longest"), [("Llama", 8192), ("Mistral", 4096), *((kind, 8192) for kind in QWEN)]
)
def test_windows_that_a_config_lacks(kind, longest, tmp_path):
    theirs.llama(tmp_path / "hf", kind, max_position_embeddings=8192)
    file = tmp_path / "hf/config.json"
    change_json(file, **({"sliding_window": 16} if kind in QWEN else {}))
    drop(file, "use_sliding_window" if kind in QWEN else "sliding_window")
    _, task = theirs.load(tmp_path)
    assert task.args.tokens_per_sample == longest


SOME = ["full_attention", "full_attention", "sliding_attention"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", QWEN)
@pytest.mark.parametrize(
    ("config", "lacks", "longest"),
    [
        (dict(sliding_window=10, max_window_layers=2), ["layer_types"], 10),
        (dict(sliding_window=10, max_window_layers=0), ["layer_types"], 10),
        (dict(sliding_window=10, max_window_layers=3), ["layer_types"], 8192),
        (dict(sliding_window=10, max_window_layers=3, layer_types=SOME), [], 10),
        (dict(sliding_window=10, max_window_layers=2, layer_types=SOME[:2] * 2), [], 8192),
        (dict(sliding_window=10), ["layer_types", "max_window_layers"], 8192),
        (dict(max_window_layers=2), ["layer_types", "sliding_window"], 4096),
        (dict(sliding_window=None, max_window_layers=2), ["layer_types"], 8192),
    ],
)
def test_layers_with_a_window(kind, config, lacks, longest, tmp_path):
    theirs.llama(tmp_path / "hf", kind, max_position_embeddings=8192)
    file = tmp_path / "hf/config.json"
    change_json(file, use_sliding_window=True, **config)
    drop(file, *lacks)
    _, task = theirs.load(tmp_path)
    assert task.args.tokens_per_sample == longest


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (dict(layer_types=["chunked_attention"] * 3), "known are lists of sliding_attention, full"),
        (dict(layer_types="sliding_attention"), "layer_types is 'sliding_attention'; known are"),
        (dict(layer_types=None, max_window_layers=-1), "max_window_layers is -1, no whole number"),
    ],
)
def test_windows_of_another_kind(config, message, tmp_path, refused):
    theirs.llama(tmp_path / "hf", "Qwen3", head_dim=6)
    window = dict(use_sliding_window=True, sliding_window=10)
    change_json(tmp_path / "hf/config.json", **window, **config)
    refused(tmp_path / "hf", message)


def test_the_width_of_heads_that_a_config_lacks(tmp_path):
    """Qwen3's is 128 then, whatever the width of the model."""
    theirs.llama(tmp_path / "hf", "Qwen3", head_dim=128)
    drop(tmp_path / "hf/config.json", "head_dim")
    ours, _ = theirs.load(tmp_path)
    assert ours.decoder.layers[0].self_attn.q_norm.weight.shape == (128,)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"dim": "16"}, "dim is '16', no positive whole number"),
        ({"dim": 20}, "other sizes than in config.json"),
        ({"n_heads": 5}, "dim is 16, no multiple of n_heads, 5; download it again"),
        ({"n_layers": 4}, "has no transformer.layer.3.attention.q_lin.weight"),
        ({"activation": "silu"}, "activation is 'silu'; known are gelu"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False, which is not supported"),
        (
            {"architectures": ["DistilBertForQuestionAnswering"]},
            "supported are DistilBertForMaskedLM, DistilBertForSequenceClassification",
        ),
    ],
)
def test_another_distilbert(config, message, tmp_path, refused):
    theirs.distilbert(tmp_path / "hf")
    change_json(tmp_path / "hf/config.json", **config)
    refused(tmp_path / "hf", message)


def test_layer_norms_that_a_config_lacks(tmp_path, refused):
    theirs.roberta(tmp_path / "hf")
    drop(tmp_path / "hf/config.json", "layer_norm_eps")
    refused(tmp_path / "hf", "layer_norm_eps is 1e-12, which is not supported; only 1e-05 is")


def test_an_untied_roberta(tmp_path, refused):
    theirs.roberta(tmp_path / "hf", tie_word_embeddings=False)
    refused(tmp_path / "hf", "tie_word_embeddings is False, which is not supported")


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "bart"])
def test_a_head_of_other_classes(name, tmp_path, refused):
    folder = tmp_path / "hf"
    getattr(theirs, name)(folder, head="SequenceClassification", num_labels=3)
    change_json(folder / "config.json", id2label={"0": "no", "1": "yes"})
    refused(folder, "model.safetensors: its head has 3 classes, but config.json names 2")


def test_another_start_of_an_mbart(tmp_path, refused):
    theirs.bart(tmp_path / "hf", "MBart", decoder_start_token_id=9)
    refused(tmp_path / "hf", "decoder_start_token_id is 9, which is not supported; only 2 is")


def test_an_old_config_of_rotary_positions(tmp_path):
    theirs.llama(tmp_path / "hf", rope_parameters=dict(rope_type="default", rope_theta=77.0))
    ours, _ = theirs.load(tmp_path)
    change_json(tmp_path / "hf/config.json", rope_parameters=None, rope_theta=77.0)
    import_model(tmp_path / "hf", tmp_path / "old")
    old, _ = load_model(str(tmp_path / "old/checkpoint.pt"), "FILE")
    assert torch.equal(old.decoder.rotary.frequencies, ours.decoder.rotary.frequencies)


def frequencies(folder):
    model, _ = load_model(str(folder / "checkpoint.pt"), "FILE")
    return model.decoder.rotary.frequencies


@pytest.mark.slow
def test_scaling_that_was_added_to_a_new_config(tmp_path, refused):
    """Beside rope_parameters, which transformers 5 writes, rope_scaling is the one that counts."""
    theirs.llama(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "plain")
    config = tmp_path / "hf/config.json"
    assert json.loads(config.read_text())["rope_parameters"]["rope_type"] == "default"
    change_json(config, rope_scaling={"rope_type": "linear", "factor": 4.0})
    ours, task = theirs.load(tmp_path)
    assert torch.allclose(4 * frequencies(tmp_path / "out"), frequencies(tmp_path / "plain"))
    reference = theirs.transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        expected = reference(tokens).logits[..., :20]
        words = [task.source_dictionary.index(word) for word in theirs.WORDS]
        logits = ours(torch.tensor(words)[tokens])[0][..., words]
    assert torch.allclose(logits, expected, atol=1e-5)
    change_json(config, rope_scaling={"type": "yarn", "factor": 4.0})
    refused(tmp_path / "hf", "rope_type is yarn; known are")


@pytest.mark.parametrize("kind", ["Roberta", "XLMRoberta", "Camembert"])
def test_another_activation_than_that_of_the_head_for_masked_words(kind, tmp_path, refused):
    theirs.roberta(tmp_path / "hf", kind=kind, hidden_act="relu")
    refused(tmp_path / "hf", "hidden_act is 'relu', which is not supported; only 'gelu' is")


def test_another_start_of_a_bart_with_classes(tmp_path, refused):
    options = dict(head="SequenceClassification", num_labels=3, decoder_start_token_id=0)
    theirs.bart(tmp_path / "hf", **options)
    refused(tmp_path / "hf", "decoder_start_token_id is 0, which is not supported; only 2 is")


def test_a_bart_without_a_row_for_the_mask(tmp_path):
    """As those that were trained on summaries."""
    pieces = theirs.ROBERTA_PIECES
    model = theirs.bart(tmp_path / "hf", vocab_size=len(pieces) - 1)
    ours, task = theirs.load(tmp_path)
    assert task.source_dictionary.symbols == pieces[:-1]
    tokens = torch.tensor([[0, 5, 7, 2]])
    with torch.no_grad():
        expected = model(tokens, decoder_input_ids=tokens).logits
        logits, _ = ours(tokens, torch.tensor([4]), tokens)
    assert torch.allclose(logits, expected, atol=1e-5)


LAYOUTS = {
    "another end": ("bert", "[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]"),
    "another end of a DistilBERT": ("distilbert", "[CLS] $A", "[CLS] $A [SEP] $B"),
    "as mBART": ("bart", "$A </s> w1", "$A </s> $B </s> w1"),
    "one separator": ("roberta", "<s> $A </s>", "<s> $A </s> $B </s>"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_tokenizers_that_lay_texts_out_otherwise(name, tmp_path, refused):
    family, single, pair = LAYOUTS[name]
    getattr(theirs, family)(tmp_path / "hf", head="SequenceClassification", num_labels=3)
    file = str(tmp_path / "hf/tokenizer.json")
    tokenizer = Tokenizer.from_file(file)
    marks = {mark for mark in pair.split() if mark[0] != "$"}
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(m, tokenizer.token_to_id(m)) for m in marks]
    )
    tokenizer.save(file)
    refused(tmp_path / "hf", "tokenizer.json: puts other symbols around texts")


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "bart"])
def test_classes_of_a_config_that_names_no_class(family, tmp_path, refused):
    getattr(theirs, family)(tmp_path / "hf", head="SequenceClassification", num_labels=3)
    drop(tmp_path / "hf/config.json", "architectures")
    refused(tmp_path / "hf", "config.json: has no architectures, and model.safetensors has a head")


# --- weights --------------------------------------------------------------------------------------


def test_shards_and_pickles(tmp_path):
    model = theirs.llama(tmp_path / "hf")
    ours, _ = theirs.load(tmp_path)
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


# --- tokenizers -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("kind", "known"), [("gpt2", True), ("qwen2", False), (None, True)])
def test_byte_pieces_of_a_config_that_names_no_class(kind, known, tmp_path):
    """The model's type then says how its tokenizer segments text."""
    write_byte_pieces(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink(missing_ok=True)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind} if kind else {}))
    if known:
        assert read_tokenizer(tmp_path).tokenizer.encode("hello").tokens
    else:
        with pytest.raises(UserError, match=r"belongs to a qwen2, as config.json says"):
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
