"""A small Llama or Qwen3 in Hugging Face's files, and what it computes, by hand in float64."""

import json
import math

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

LETTERS = [*"abcdef", "Ġ", "Ċ"]  # space and line break as byte-level BPE writes them
PIECES = [*LETTERS, "ab", "Ġa", "<|end|>", "<|start|>"]
MERGES = [("a", "b"), ("Ġ", "a")]
CONFIG = {
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5,
    "rope_theta": 50.0,
    "vocab_size": len(PIECES),
    "bos_token_id": PIECES.index("<|start|>"),
    "eos_token_id": PIECES.index("<|end|>"),
    "tie_word_embeddings": False,
}


def shapes(kind="llama"):
    """Names and sizes of all tensors, as transformers has them."""
    width, inner, words = CONFIG["hidden_size"], CONFIG["intermediate_size"], len(PIECES)
    wide, narrow = (CONFIG["head_dim"] * CONFIG[f"num_{n}_heads"] for n in heads())
    sizes = {"model.embed_tokens": (words, width), "lm_head": (words, width), "model.norm": width}
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        sizes |= {
            f"{layer}.input_layernorm": width,
            f"{layer}.post_attention_layernorm": width,
            f"{layer}.self_attn.q_proj": (wide, width),
            f"{layer}.self_attn.k_proj": (narrow, width),
            f"{layer}.self_attn.v_proj": (narrow, width),
            f"{layer}.self_attn.o_proj": (width, wide),
            f"{layer}.mlp.gate_proj": (inner, width),
            f"{layer}.mlp.up_proj": (inner, width),
            f"{layer}.mlp.down_proj": (width, inner),
        }
        if kind == "qwen3":
            sizes |= {f"{layer}.self_attn.{part}_norm": CONFIG["head_dim"] for part in "qk"}
    return {f"{name}.weight": size for name, size in sizes.items()}


def heads():
    return ("attention", "key_value")


def byte_level_tokenizer():
    vocabulary = {piece: i for i, piece in enumerate(PIECES[: len(PIECES) - 2])}
    tokenizer = Tokenizer(models.BPE(vocabulary, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in PIECES[-2:]])
    return tokenizer


def write_llama(folder, **config):
    """The folder with its three files; returns its tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG | config
    tensors = shapes(config["model_type"]).items()
    weights = {name: torch.randn(size) / 3 for name, size in tensors}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    byte_level_tokenizer().save(str(folder / "tokenizer.json"))
    return weights


def change_json(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def logits(weights, ids):
    """The logits (T x V) of one text of Llama's numbers, position by position and head by head."""
    w = {name.removesuffix(".weight"): tensor.double() for name, tensor in weights.items()}

    def norm(x, name):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * w[name]

    def normed_head(x, name):
        return norm(x, name) if name in w else x

    def turned(x, position):
        """A head's vector with its dimensions i and i + D / 2 turned."""
        half = len(x) // 2
        new = x.clone()
        for i in range(half):
            angle = position * CONFIG["rope_theta"] ** (-2 * i / len(x))
            cosine, sine = math.cos(angle), math.sin(angle)
            new[i] = x[i] * cosine - x[i + half] * sine
            new[i + half] = x[i + half] * cosine + x[i] * sine
        return new

    x = w["model.embed_tokens"][ids]
    width, group = CONFIG["head_dim"], 3
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        y = norm(x, f"{layer}.input_layernorm")
        q, k, v = (y @ w[f"{layer}.self_attn.{n}_proj"].T for n in "qkv")
        attended = torch.zeros_like(q)
        for head in range(CONFIG["num_attention_heads"]):
            of_q = slice(head * width, (head + 1) * width)
            of_k = slice(head // group * width, (head // group + 1) * width)
            queries = [normed_head(row, f"{layer}.self_attn.q_norm") for row in q[:, of_q]]
            keys = [normed_head(row, f"{layer}.self_attn.k_norm") for row in k[:, of_k]]
            for t in range(len(ids)):
                query = turned(queries[t], t)
                scores = torch.stack([query @ turned(keys[s], s) for s in range(t + 1)])
                attended[t, of_q] = (scores / width**0.5).softmax(0) @ v[: t + 1, of_k]
        x = x + attended @ w[f"{layer}.self_attn.o_proj"].T
        y = norm(x, f"{layer}.post_attention_layernorm")
        gate, up = (y @ w[f"{layer}.mlp.{part}_proj"].T for part in ("gate", "up"))
        x = x + (gate * gate.sigmoid() * up) @ w[f"{layer}.mlp.down_proj"].T
    return norm(x, "model.norm") @ w["lm_head"].T
