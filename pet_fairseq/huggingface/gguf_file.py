"""Reading a model from a file in llama.cpp's format GGUF."""

import re
from functools import partial
from pathlib import Path
from typing import Optional

import torch
from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.gguf_tokenizer import gguf_tokenizer
from pet_fairseq.huggingface.source import CONFIG, Config, Source, Weights

EXTRA = "pip install 'pet-fairseq[gguf]'"
FAMILIES = ("llama", "qwen2", "qwen3")
PERMUTED = "llama"  # the model type whose rows of queries and keys GGUF permutes
NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
MAGIC = b"GGUF"
FREQUENCIES, OUTPUT = "rope_freqs.weight", "output.weight"


def read_gguf(path: Path) -> Source:
    """Open a GGUF file; its tensors are decoded when they are asked for.

    Raises:
        UserError: it is damaged, of a model that is not supported, or the library gguf is missing.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise UserError(f"{path}: no GGUF file; give one, or a folder with {CONFIG}")
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise UserError(f"{path}: needs a package; run {EXTRA}") from error
    try:
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {tensor.name: tensor for tensor in reader.tensors}
    except Exception as error:  # GGUFReader raises errors of many kinds
        # numpy 2 prints its number 7 as np.uint32(7)
        reason = re.sub(r"np\.\w+\((\w+)\)", r"\1", str(error))
        raise UserError(
            f"{path}: not a readable GGUF file ({reason}); download it again, or install a newer "
            "gguf"
        ) from error
    config = gguf_config(fields, path)
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
    permuted = config["model_type"] == PERMUTED
    readers = {}
    for name, tensor in tensors.items():
        if name == FREQUENCIES:
            scale_positions(config, decode(tensor, None, path))
            continue
        theirs = transformers_name(name, path)
        part = name.split(".")[-2]
        number = config.size(heads[part]) if permuted and part in heads else None
        readers[theirs] = partial(decode, tensor, number, path)
    config["tie_word_embeddings"] = OUTPUT not in tensors
    weights = Weights(readers, path)
    return Source(path.parent, config, weights, lambda: gguf_tokenizer(fields, path))


def gguf_config(fields: dict, path: Path) -> Config:
    """A GGUF file's options under Hugging Face's names.

    Raises:
        UserError: one is missing, or the model is of another type.
    """
    given = Config(fields, path)
    kind = given["general.architecture"]
    if kind not in FAMILIES:
        raise UserError(
            f"{path}: is a model of type {kind}, which is not supported in GGUF; supported are "
            f"{', '.join(FAMILIES)}"
        )
    config = {
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": given.size(f"{kind}.embedding_length"),
        "intermediate_size": given.size(f"{kind}.feed_forward_length"),
        "max_position_embeddings": given.size(f"{kind}.context_length"),
        "num_attention_heads": given.size(f"{kind}.attention.head_count"),
        "num_hidden_layers": given.size(f"{kind}.block_count"),
        "rms_norm_eps": given[f"{kind}.attention.layer_norm_rms_epsilon"],
        "rope_theta": given.get(f"{kind}.rope.freq_base", 10000.0),
        "vocab_size": len(given["tokenizer.ggml.tokens"]),
        "bos_token_id": given.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": given.get("tokenizer.ggml.eos_token_id"),
    }
    groups = given.get(f"{kind}.attention.head_count_kv")
    config["num_key_value_heads"] = groups or config["num_attention_heads"]
    stretched = f"{kind}.rope.scaling.factor" in given  # as llama.cpp reads it, linearly
    scaling = given.get(f"{kind}.rope.scaling.type", "linear" if stretched else "none")
    if scaling == "linear":
        factor = given[f"{kind}.rope.scaling.factor"]
        config["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    elif scaling != "none":
        raise UserError(f"{path}: rope.scaling.type is {scaling}; known are none and linear")
    width = given.get(f"{kind}.attention.key_length")
    if width:
        config["head_dim"] = width
    width = width or config["hidden_size"] // config["num_attention_heads"]
    given.refuse(**{f"{kind}.rope.dimension_count": width, f"{kind}.rope.scale_linear": 1.0})
    return Config(config, path)


def scale_positions(config: Config, factors: Tensor) -> None:
    """Put into the config the factors by which the rotary positions' frequencies are divided.

    Raises:
        UserError: positions are scaled in another way, too.
    """
    if "rope_scaling" in config:
        raise UserError(
            f"{config.path}: has both {FREQUENCIES} and rope.scaling.type; download it again"
        )
    config["rope_scaling"] = {"rope_type": "factors", "factors": factors.tolist()}


def transformers_name(name: str, path: Path) -> str:
    """The name in Hugging Face's files of a tensor in GGUF.

    Raises:
        UserError: a tensor that these models do not have.
    """
    module, _, kind = name.rpartition(".")
    *block, part = module.split(".")
    if part not in NAMES or (block and (len(block) != 2 or block[0] != "blk")):
        raise UserError(f"{path}: has a tensor {name}, which is not supported")
    layer = f"layers.{block[1]}." if block else ""
    return f"{layer}{NAMES[part]}.{kind}"


def decode(tensor, heads: Optional[int], path: Path) -> Tensor:
    """Decode a tensor of gguf's reader into float32.

    Args:
        heads: how many heads the rows belong to, if GGUF has permuted them; else None.
    Raises:
        UserError: a quantisation that the library gguf does not know.
    """
    from gguf.quants import dequantize

    try:
        numbers = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
    except (NotImplementedError, ValueError) as error:
        raise UserError(
            f"{path}: {tensor.name} is quantised as {tensor.tensor_type.name}, which is not "
            "supported; give the model as F16, BF16, Q8_0 or Q4_1"
        ) from error
    return numbers if heads is None else undo_permutation(numbers, heads)


def undo_permutation(rows: Tensor, heads: int) -> Tensor:
    """Undo GGUF's permutation of the rows of each head: (heads D) x C, or (heads D) of a bias.

    GGUF has the two rows of a rotary pair side by side. Here, as in Hugging Face's files, the first
    rows of all pairs precede the second ones.
    """
    pairs = rows.unflatten(0, (heads, -1, 2))
    return pairs.transpose(1, 2).flatten(0, 2)
