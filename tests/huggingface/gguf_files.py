"""The small Llama or Qwen3 as a GGUF file."""

import pytest
import torch

from tests.huggingface.llama import CONFIG, MERGES, PIECES

gguf = pytest.importorskip("gguf")

OWN_TOKENIZER = {
    "tokenizer_model": "gpt2",
    "tokenizer_pre": "gpt-2",
    "token_list": PIECES,
    "token_types": [3 if piece[0] == "<" else 1 for piece in PIECES],
    "token_merges": [" ".join(merge) for merge in MERGES],
}
GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
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


def write_gguf(path, weights, quantised=None, fields=OWN_TOKENIZER, kind="llama"):
    """A model as one file.

    Args:
        weights: under Hugging Face's names. quantised: a tensor of a type that the library gguf
            cannot decode. fields: further ones, under the names of the library's functions.
        kind: llama or qwen3; only Llama's rows are reordered.
    """
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(CONFIG["num_hidden_layers"])
    writer.add_context_length(CONFIG["max_position_embeddings"])
    writer.add_embedding_length(CONFIG["hidden_size"])
    writer.add_feed_forward_length(CONFIG["intermediate_size"])
    writer.add_head_count(CONFIG["num_attention_heads"])
    writer.add_head_count_kv(CONFIG["num_key_value_heads"])
    writer.add_key_length(CONFIG["head_dim"])
    writer.add_rope_freq_base(CONFIG["rope_theta"])
    writer.add_layer_norm_rms_eps(CONFIG["rms_norm_eps"])
    writer.add_bos_token_id(CONFIG["bos_token_id"])
    writer.add_eos_token_id(CONFIG["eos_token_id"])
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    for name, tensor in weights.items():
        for part, heads in (("q_proj", "attention"), ("k_proj", "key_value")):
            if part in name and kind == "llama":
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
