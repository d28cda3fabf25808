"""A small Marian of random weights in Hugging Face's files, with SentencePiece models."""

import json

import sentencepiece
import torch
from safetensors.torch import save_file

WIDTH, INNER, LAYERS = 16, 24, 2
STACKS = {"encoder": ("self_attn",), "decoder": ("self_attn", "encoder_attn")}


def write_marian(folder, texts):
    """The folder with its files.

    Args:
        texts: language -> the file of text that its pieces are made from; the source's first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["</s>", "<unk>"]
    for name, text in zip(("source", "target"), texts.values()):
        options = dict(input=text, model_prefix=folder / name, vocab_size=60, minloglevel=2)
        sentencepiece.SentencePieceTrainer.train(**options, hard_vocab_limit=False)
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        model = sentencepiece.SentencePieceProcessor(str(folder / f"{name}.spm"))
        own = map(model.id_to_piece, range(model.vocab_size()))
        pieces += [piece for piece in own if piece[0] != "<" and piece not in pieces]
    pieces.append("<pad>")
    numbers = {piece: number for number, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(numbers))
    source, target = texts
    names = {"source_lang": source, "target_lang": target}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    config = {
        "model_type": "marian",
        "vocab_size": len(pieces),
        "d_model": WIDTH,
        "max_position_embeddings": 256,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": numbers["<pad>"],
        "decoder_start_token_id": numbers["<pad>"],
    }
    for stack in STACKS:
        config |= {f"{stack}_layers": LAYERS, f"{stack}_ffn_dim": INNER}
        config |= {f"{stack}_attention_heads": 4}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(random_weights(len(pieces)), folder / "model.safetensors")


def random_weights(words):
    """Under the names of transformers."""
    modules = {}
    for stack, attentions in STACKS.items():
        for i in range(LAYERS):
            layer = f"model.{stack}.layers.{i}"
            modules |= {f"{layer}.fc1": (INNER, WIDTH), f"{layer}.fc2": (WIDTH, INNER)}
            for part in (*attentions, "final"):
                modules[f"{layer}.{part}_layer_norm"] = (WIDTH,)
            for attention in attentions:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    modules[f"{layer}.{attention}.{part}"] = (WIDTH, WIDTH)
    weights = {
        "model.shared.weight": torch.randn(words, WIDTH) / WIDTH**0.5,
        "final_logits_bias": torch.randn(1, words),
    }
    weights["final_logits_bias"][0, 0] += 4  # its sentences end
    for name, size in modules.items():
        weights[f"{name}.weight"] = torch.randn(size) / WIDTH**0.5
        weights[f"{name}.bias"] = torch.randn(size[0]) / 10
    return weights
