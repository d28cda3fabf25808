"""Llama-type models without the library transformers: by hand, and as text."""

import re
from argparse import Namespace

import pytest
import torch
from safetensors.torch import save_file

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.bpe import TokenizerJson
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.huggingface.llama_model import check_options
from pet_fairseq.huggingface.rotary import parse_scaling
from pet_fairseq.nn.prefill import prefill
from tests.huggingface.llama import CONFIG, PIECES, logits, write_llama


def load(folder):
    return load_model(str(folder / "checkpoint.pt"), "FILE")


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_computes_what_llama_computes(kind, tmp_path):
    weights = write_llama(tmp_path / "hf", model_type=kind)
    assert "12 words" not in import_model(tmp_path / "hf", tmp_path / "out")
    model, task = load(tmp_path / "out")
    words, ids = task.source_dictionary, torch.randint(0, len(PIECES) - 2, (9,)).tolist()
    tokens = torch.tensor([words.index(PIECES[i]) for i in ids])
    batch = torch.full((2, 12), words.pad())
    batch[0, :9], batch[1, :4] = tokens, tokens[3:7]
    own = torch.tensor([words.index(piece) for piece in PIECES])
    own[CONFIG["eos_token_id"]] = words.eos()
    with torch.no_grad():
        found, _ = model(batch)
    for row, length, part in ((0, 9, ids), (1, 4, ids[3:7])):
        assert torch.allclose(found[row, :length, own].double(), logits(weights, part), atol=1e-5)


def test_words_that_only_fairseq_has(tmp_path):
    """Its first four words read as what they stand for, and take no probability from the rest."""
    write_llama(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    model, task = load(tmp_path / "out")
    words, matrix = task.source_dictionary, model.decoder.embed_tokens.weight
    start, end = (words.index(piece) for piece in ("<|start|>", "<|end|>"))
    assert torch.equal(matrix[words.bos()], matrix[start])
    assert torch.equal(matrix[words.eos()], matrix[end])
    assert not matrix[words.pad()].any() and not matrix[words.unk()].any()
    with torch.no_grad():
        output = model(torch.tensor([[words.eos(), 5, 6]]))
        shares = model.get_normalized_probs(output, log_probs=False)[0].mean(0)
    for word in (words.bos(), words.pad(), words.unk(), end):
        assert shares[word] < 1e-6
    assert shares[words.eos()] > 1e-6 and shares[start] > 1e-6


@pytest.mark.parametrize("read", [1, 6])
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_steps_equal_the_whole(kind, read, tmp_path):
    """Token by token, or after some that were read at once, with padding on the left."""
    write_llama(tmp_path / "hf", model_type=kind)
    import_model(tmp_path / "hf", tmp_path / "out")
    model, task = load(tmp_path / "out")
    tokens = torch.randint(4, len(task.source_dictionary), (3, 10))
    tokens[1, :4] = task.source_dictionary.pad()
    state = {}
    with torch.no_grad():
        whole, _ = model(tokens)
        if read > 1:
            first, _ = prefill(model.decoder, tokens[:, :read], state)
            assert torch.allclose(first, whole[:, :read], atol=1e-5)
        for i in range(read if read > 1 else 0, 10):
            step, _ = model.decoder(tokens[:, : i + 1], incremental_state=state)
            real = tokens[:, i].ne(task.source_dictionary.pad())
            assert torch.allclose(step[real, 0], whole[real, i], atol=1e-5), i


def test_text(tmp_path):
    """Byte-level words, special pieces and line breaks become words of the dictionary and back."""
    write_llama(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    file = str(tmp_path / "out/tokenizer.json")
    bpe = TokenizerJson(Namespace(tokenizer_file=file, tokenizer_newline="\\n"))
    words = bpe.encode("ab a\\nc<|end|>a")
    assert words == "ab Ġa Ċ c <|end|> a"
    assert bpe.decode(words) == "ab a\\nc<|end|>a"
    plain = TokenizerJson(Namespace(tokenizer_file=file, tokenizer_newline=""))
    assert plain.encode("a\nb") == "a Ċ b" and plain.decode("a Ċ b <unk>") == "a\nb"
    _, task = load(tmp_path / "out")
    line = task.source_dictionary.encode_line(words, add_if_not_exist=False)
    assert task.source_dictionary.unk() not in line.tolist()


def test_biases_that_only_the_file_announces(tmp_path):
    weights = write_llama(tmp_path / "hf")
    for i in range(CONFIG["num_hidden_layers"]):
        for part, heads in zip("qkv", (6, 2, 2)):
            name = f"model.layers.{i}.self_attn.{part}_proj.bias"
            weights[name] = torch.randn(heads * CONFIG["head_dim"])
    save_file(weights, tmp_path / "hf/model.safetensors")
    import_model(tmp_path / "hf", tmp_path / "out")
    model, _ = load(tmp_path / "out")
    for name, tensor in weights.items():
        if name.endswith("bias"):
            ours = name.replace("model.layers", "decoder.layers")
            assert torch.equal(model.state_dict()[ours], tensor)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder_head_dim": 5}, "--decoder-head-dim 5: rotary positions need heads of an even"),
        ({"decoder_attention_heads": 4}, "--decoder-head-dim 3: rotary positions need heads of"),
        ({"decoder_key_value_heads": -2}, "--decoder-key-value-heads -2: give a divisor of"),
        ({"adaptive_softmax_cutoff": "8,12"}, "--adaptive-softmax-cutoff 8,12: --arch llama has"),
    ],
)
def test_options_that_cannot_be(options, message):
    sizes = dict(decoder_embed_dim=12, decoder_attention_heads=6, decoder_head_dim=None)
    sizes |= dict(decoder_key_value_heads=None, adaptive_softmax_cutoff=None)
    check_options(Namespace(**sizes))
    with pytest.raises(UserError, match=re.escape(message)):
        check_options(Namespace(**sizes | options))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not readable"),
        ("[1]", "not readable"),
        ('{"rope_type":"linear"}', "not readable ('factor')"),
        ('{"rope_type":"factors","factors":[1,2,3]}', "not readable"),
        ('{"rope_type":"yarn"}', "rope_type is not one of default, linear, llama3, factors"),
    ],
)
def test_bad_scaling(text, message):
    with pytest.raises(UserError, match=re.escape(message)) as error:
        parse_scaling(text, 4)
    assert str(error.value).startswith(f"--rope-scaling {text}: ")


def test_fairseq_train_finds_the_entry_of_a_criterion(tmp_path):
    """It reads it if its own criterion has parameters, also to start from an import."""
    write_llama(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    assert load_checkpoint(str(tmp_path / "out/checkpoint.pt"), "FILE")["criterion"] is None
