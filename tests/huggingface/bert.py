"""A small BERT in the files of Hugging Face's transformers, and what it computes, by hand."""

import json

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch.nn import functional as F

PIECES = "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] a bad film fil ##m ##s , . good".split()
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "num_hidden_layers": 2,
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_attention_heads": 3,
    "max_position_embeddings": 16,
    "vocab_size": len(PIECES),
}


def random_weights(head, seed):
    """Under the names of transformers; layer norms that are not the identity."""
    width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (len(PIECES), width),
        "embeddings.position_embeddings.weight": (CONFIG["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm": (width,),
        "pooler.dense": (width, width),
    }
    for i in range(CONFIG["num_hidden_layers"]):
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"encoder.layer.{i}.attention.{name}"] = (width, width)
        shapes[f"encoder.layer.{i}.attention.output.LayerNorm"] = (width,)
        shapes[f"encoder.layer.{i}.intermediate.dense"] = (inner, width)
        shapes[f"encoder.layer.{i}.output.dense"] = (width, inner)
        shapes[f"encoder.layer.{i}.output.LayerNorm"] = (width,)
    shapes = {f"bert.{name}" if head else name: shape for name, shape in shapes.items()}
    if head:
        shapes |= {
            "cls.predictions.transform.dense": (width, width),
            "cls.predictions.transform.LayerNorm": (width,),
        }
    torch.manual_seed(seed)
    weights = {}
    for name, shape in shapes.items():
        if name.endswith(".weight"):
            weights[name] = torch.randn(shape)
        else:
            weights[f"{name}.weight"] = torch.randn(shape)
            weights[f"{name}.bias"] = torch.randn(shape[0])
    if head:
        weights["cls.predictions.bias"] = torch.randn(len(PIECES))
    return weights


def write_bert(folder, head=False, seed=1, pieces=PIECES, **config):
    """The folder with the three files; returns its tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = random_weights(head, seed)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    save_file(weights, folder / "model.safetensors")
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([piece for piece in pieces if piece.isupper()])
    tokenizer.enable_truncation(3)
    tokenizer.save(str(folder / "tokenizer.json"))
    return weights


def features(weights, ids, types):
    """The last layer's vectors (T x C) of one text of BERT's numbers and types, float64."""
    w = {name.removeprefix("bert."): tensor.double() for name, tensor in weights.items()}

    def linear(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name, x):
        centred = x - x.mean(-1, keepdim=True)
        x = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-12).sqrt()
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm("embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][types])
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        q, k, v = (linear(f"{layer}.attention.self.{n}", x) for n in ("query", "key", "value"))
        heads = []
        for part in torch.arange(x.size(1)).chunk(CONFIG["num_attention_heads"]):
            scores = q[:, part] @ k[:, part].T / len(part) ** 0.5
            heads.append(scores.softmax(-1) @ v[:, part])
        attended = linear(f"{layer}.attention.output.dense", torch.cat(heads, dim=-1))
        x = norm(f"{layer}.attention.output.LayerNorm", x + attended)
        inner = F.gelu(linear(f"{layer}.intermediate.dense", x))
        x = norm(f"{layer}.output.LayerNorm", x + linear(f"{layer}.output.dense", inner))
    if "cls.predictions.bias" not in w:
        return x
    x = F.gelu(linear("cls.predictions.transform.dense", x))
    x = norm("cls.predictions.transform.LayerNorm", x)
    return x @ w["embeddings.word_embeddings.weight"].T + w["cls.predictions.bias"]
