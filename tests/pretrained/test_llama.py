"""Llama-type models without the library transformers: by hand, in GGUF, and as text."""

from argparse import Namespace

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.loading import load_model
from pet_fairseq.pretrained.bpe import TokenizerJson
from pet_fairseq.pretrained.importer import import_model
from tests.pretrained.llama import CONFIG, MERGES, PIECES, logits, write_llama


def load(folder):
    return load_model(str(folder / "checkpoint.pt"), "FILE")


def test_computes_what_llama_computes(tmp_path):
    weights = write_llama(tmp_path / "hf")
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
    assert task.args.add_bos_token


def test_text(tmp_path):
    """Byte-level words, special pieces and line breaks become words of the dictionary and back."""
    write_llama(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    file = str(tmp_path / "out/tokenizer.json")
    bpe = TokenizerJson(Namespace(tokenizer_file=file, tokenizer_newline="\\n"))
    words = bpe.encode("ab ab\\nc<|end|>a")
    assert words == "ab Ġa b Ċ c <|end|> a"
    assert bpe.decode(words) == "ab ab\\nc<|end|>a"
    plain = TokenizerJson(Namespace(tokenizer_file=file, tokenizer_newline=""))
    assert plain.encode("a\nb") == "a Ċ b" and plain.decode("a Ċ b <unk>") == "a\nb"
    _, task = load(tmp_path / "out")
    line = task.source_dictionary.encode_line(words, add_if_not_exist=False)
    assert task.source_dictionary.unk() not in line.tolist()


# --- GGUF -----------------------------------------------------------------------------------------

GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
}


def neighbours(matrix, heads):
    """A head's rows as llama.cpp's converter orders them: i beside i + D / 2."""
    width = len(matrix) // heads
    order = [
        head * width + i + half
        for head in range(heads)
        for i in range(width // 2)
        for half in (0, width // 2)
    ]
    return matrix[order]


def write_gguf(path, weights, quantised=None):
    """The same model as one file; quantised: a tensor whose type is given with its bytes."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(CONFIG["num_hidden_layers"])
    writer.add_context_length(CONFIG["max_position_embeddings"])
    writer.add_embedding_length(CONFIG["hidden_size"])
    writer.add_feed_forward_length(CONFIG["intermediate_size"])
    writer.add_head_count(CONFIG["num_attention_heads"])
    writer.add_head_count_kv(CONFIG["num_key_value_heads"])
    writer.add_key_length(CONFIG["head_dim"])
    writer.add_rope_freq_base(CONFIG["rope_theta"])
    writer.add_layer_norm_rms_eps(CONFIG["rms_norm_eps"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(PIECES)
    writer.add_token_types([3 if piece[0] == "<" else 1 for piece in PIECES])
    writer.add_token_merges([" ".join(merge) for merge in MERGES])
    writer.add_bos_token_id(CONFIG["bos_token_id"])
    writer.add_eos_token_id(CONFIG["eos_token_id"])
    for name, tensor in weights.items():
        for part, heads in (("q_proj", "attention"), ("k_proj", "key_value")):
            if part in name:
                tensor = neighbours(tensor, CONFIG[f"num_{heads}_heads"])
        for old, new in GGUF_NAMES.items():
            name = name.replace(old, new)
        if name == quantised:
            unknown = gguf.GGMLQuantizationType.Q8_K
            _, size = gguf.GGML_QUANT_SIZES[unknown]
            numbers = torch.zeros(len(PIECES), size, dtype=torch.uint8).numpy()
            writer.add_tensor(name, numbers, raw_dtype=unknown)
        else:
            writer.add_tensor(name, tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf(tmp_path):
    weights = write_llama(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    write_gguf(tmp_path / "model.gguf", weights)
    import_model(tmp_path / "model.gguf", tmp_path / "from_gguf")
    for name in ("dict.txt", "task_options"):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "from_gguf" / name).read_text()
    ours, other = (load(tmp_path / name)[0].state_dict() for name in ("out", "from_gguf"))
    assert ours.keys() == other.keys()
    for name, tensor in ours.items():
        assert torch.equal(other[name], tensor), name
    one, two = (
        TokenizerJson(
            Namespace(tokenizer_file=str(tmp_path / name / "tokenizer.json"), tokenizer_newline="")
        )
        for name in ("out", "from_gguf")
    )
    text = "ab ab\n  c<|end|> a"
    assert one.encode(text) == two.encode(text) and two.decode(two.encode(text)) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[: len(content) // 3], "not a readable GGUF file"),
        (lambda content: b"GGML" + content[4:], "not a readable GGUF file"),
        (lambda content: content.replace(b"blk.1.attn_q.w", b"blk.1.attn_z.w"), "a tensor blk.1"),
        (lambda content: content.replace(b"llama", b"gemma"), "type gemma, which is not"),
    ],
)
def test_a_damaged_gguf(change, message, tmp_path):
    write_gguf(tmp_path / "model.gguf", write_llama(tmp_path / "hf"))
    content = (tmp_path / "model.gguf").read_bytes()
    (tmp_path / "model.gguf").write_bytes(change(content))
    with pytest.raises(UserError, match=message) as error:
        import_model(tmp_path / "model.gguf", tmp_path / "out")
    assert "model.gguf" in str(error.value) and not list(tmp_path.glob("*out*"))


def test_an_unknown_quantisation(tmp_path):
    write_gguf(tmp_path / "model.gguf", write_llama(tmp_path / "hf"), quantised="output.weight")
    with pytest.raises(UserError, match="quantised as Q8_K, which is not"):
        import_model(tmp_path / "model.gguf", tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))
