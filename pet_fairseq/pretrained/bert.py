"""BERT in the files of Hugging Face's transformers -> a checkpoint of fairseq's `roberta`.

The two compute the same, but for the small number in the layer norms (1e-12 in BERT, 1e-5 in
fairseq), and for segments: `roberta` has none, so the first one's vector is added everywhere.
"""

import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.masked_lm import MaskedLMTask
from omegaconf import OmegaConf
from torch import Tensor, nn

from pet_fairseq.checkpoints.contents import save_state
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder, whole_folder

SPECIAL = ("[CLS]", "[PAD]", "[SEP]", "[UNK]")  # fairseq's first four: <s> <pad> </s> <unk>
MASK, MASK_IN_FAIRSEQ = "[MASK]", "<mask>"
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_accurate", "relu": "relu"}
FIRST_POSITION = 2  # fairseq counts positions from its padding index + 1
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
# what fairseq looks for in a checkpoint, though there was no training
NO_OPTIMIZER = {"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}

STACK = "encoder.sentence_encoder"
LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
HEAD = {
    "cls.predictions.transform.dense": "encoder.lm_head.dense",
    "cls.predictions.transform.LayerNorm": "encoder.lm_head.layer_norm",
}
HEAD_BIAS = "cls.predictions.bias"


def import_bert(folder: Path, out: Path) -> str:
    """Write `out` with checkpoint.pt, dict.txt, tokenizer.json and model_options.

    Returns:
        a line for the terminal that says what was written.
    Raises:
        UserError: a file that is missing, or a model that is not BERT.
    """
    if out.exists():
        raise UserError(f"--out {out}: is there already; give a new folder")
    config, tokenizer = read_config(folder), folder / TOKENIZER
    words, rows = dictionary_of(read_vocabulary(tokenizer))
    bert = read_weights(folder / WEIGHTS)
    state = fairseq_names(bert, config, rows)
    arch = architecture_options(config)
    check_folder(out.parent, "--out")
    with whole_folder(out) as new:
        shutil.copyfile(tokenizer, new / TOKENIZER)
        lines = "".join(f"{word} 1\n" for word in words)
        (new / "dict.txt").write_text(lines, encoding="utf-8")
        (new / "model_options").write_text(" ".join(arch) + "\n")
        checkpoint = make_checkpoint(out, arch, state, Dictionary.load(str(new / "dict.txt")))
        save_state(checkpoint, new / "checkpoint.pt")
    head = "with" if HEAD_BIAS in bert else "without"
    return f"wrote {out}: {' '.join(arch)}, {len(rows):,} words, {head} the head for masked words"


def read_config(folder: Path) -> dict:
    """Read config.json. Raises UserError if it is missing or not BERT's."""
    path = folder / CONFIG
    try:
        config = dict(json.loads(_must_be(path).read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: not readable ({error}); download it again") from error
    kind, positions = config.get("model_type"), config.get("position_embedding_type", "absolute")
    if kind != "bert" or positions != "absolute":
        raise UserError(
            f"{path}: is a model of type {kind} with {positions} positions; give a BERT"
        )
    activation = config.get("hidden_act")
    if activation not in list(ACTIVATIONS):
        raise UserError(f"{path}: hidden_act is {activation}; fairseq has {', '.join(ACTIVATIONS)}")
    return config


def read_vocabulary(path: Path) -> list[str]:
    """The pieces of a tokenizer.json in the order of their numbers.

    Raises:
        UserError: no such file, or it lacks one of BERT's special words.
    """
    tokenizer = load_tokenizer(path)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if [number for _, number in pieces] != list(range(len(pieces))):
        raise UserError(f"{path}: its numbers have gaps; give the tokenizer of a BERT")
    vocabulary = [piece for piece, _ in pieces]
    for piece in (*SPECIAL, MASK):
        if piece not in vocabulary:
            raise UserError(f"{path}: has no {piece}; give the tokenizer of a BERT")
    return vocabulary


def load_tokenizer(path: Path):
    """Open a tokenizer.json.

    Raises:
        UserError: there is no such file, or the package tokenizers is missing.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UserError("BERT: needs a package; run pip install 'pet-fairseq[bert]'") from error
    _must_be(path)
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # it has no class of its own
        raise UserError(f"{path}: not readable ({error}); download it again") from error


def dictionary_of(vocabulary: list[str]) -> tuple[list[str], list[int]]:
    """fairseq's words after its first four, and for all of its words the number in BERT.

    `<mask>` comes last, where fairseq's tasks would add it.
    """
    number = {piece: i for i, piece in enumerate(vocabulary)}
    others = [piece for piece in vocabulary if piece not in SPECIAL and piece != MASK]
    rows = [number[piece] for piece in (*SPECIAL, *others, MASK)]
    return [*others, MASK_IN_FAIRSEQ], rows


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of model.safetensors under BERT's own names. Raises UserError if unreadable."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise UserError("BERT: needs a package; run pip install 'pet-fairseq[bert]'") from error
    try:
        tensors = load_file(_must_be(path))
    except SafetensorError as error:
        raise UserError(f"{path}: not readable ({error}); download it again") from error
    return {name.removeprefix("bert."): tensor.float() for name, tensor in tensors.items()}


def fairseq_names(bert: dict[str, Tensor], config: dict, rows: list[int]) -> dict[str, Tensor]:
    """BERT's tensors under the names of fairseq's `roberta`.

    Args:
        rows: for every word of the dictionary its row in BERT's embedding matrix.
    Raises:
        UserError: a tensor that is missing.
    """
    try:
        words = bert["embeddings.word_embeddings.weight"][rows]
        positions = bert["embeddings.position_embeddings.weight"]
        state = dict(_renamed(bert, config["num_hidden_layers"]))
        segment = bert["embeddings.token_type_embeddings.weight"][0]
    except KeyError as error:
        raise UserError(f"{WEIGHTS}: has no {error.args[0]}; give the weights of a BERT") from error
    padding = positions.new_zeros(FIRST_POSITION, positions.size(1))
    state[f"{STACK}.embed_positions.weight"] = torch.cat([padding, positions + segment])
    state[f"{STACK}.embed_tokens.weight"] = words
    if HEAD_BIAS in bert:
        state["encoder.lm_head.weight"] = words
        state["encoder.lm_head.bias"] = bert[HEAD_BIAS][rows]
    return state


def _renamed(bert: dict[str, Tensor], layers: int) -> Iterator[tuple[str, Tensor]]:
    names = {"embeddings.LayerNorm": f"{STACK}.layernorm_embedding"}
    if HEAD_BIAS in bert:
        names |= HEAD
    for i in range(layers):
        for old, new in LAYER.items():
            names[f"encoder.layer.{i}.{old}"] = f"{STACK}.layers.{i}.{new}"
    for old, new in names.items():
        for kind in ("weight", "bias"):
            yield f"{new}.{kind}", bert[f"{old}.{kind}"]


def architecture_options(config: dict) -> list[str]:
    """The options of fairseq-train that build this model."""
    sizes = {
        "--encoder-layers": config["num_hidden_layers"],
        "--encoder-embed-dim": config["hidden_size"],
        "--encoder-ffn-embed-dim": config["intermediate_size"],
        "--encoder-attention-heads": config["num_attention_heads"],
        "--activation-fn": ACTIVATIONS[config["hidden_act"]],
        "--max-positions": config["max_position_embeddings"],
    }
    return ["--arch", "roberta", *(str(part) for pair in sizes.items() for part in pair)]


def make_checkpoint(
    data: Path, arch: list[str], state: dict[str, Tensor], dictionary: Dictionary
) -> dict:
    """What fairseq-train would save on data with this dictionary.

    A head that is not in the state starts from random weights.

    Raises:
        UserError: weights of other sizes than config.json says.
    """
    typed = [str(data), "--task", "masked_lm", "--criterion", "masked_lm", *arch]
    args = options.parse_args_and_arch(options.get_training_parser(), typed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hydra's, about fairseq
        cfg = convert_namespace_to_omegaconf(args)
    model = MaskedLMTask(cfg.task, dictionary).build_model(cfg.model)
    whole = model.state_dict()
    for name, tensor in state.items():
        if whole[name].shape != tensor.shape:
            sizes = f"{name} is {tuple(tensor.shape)}, not {tuple(whole[name].shape)}"
            raise UserError(f"{WEIGHTS}: other sizes than in {CONFIG}: {sizes}")
    nn.Module.load_state_dict(model, whole | state)
    return {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, enum_to_str=True),
        "model": model.state_dict(),
        "optimizer_history": [NO_OPTIMIZER],
        "extra_state": {},
    }


def _must_be(path: Path) -> Path:
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; give a folder with {CONFIG}, {WEIGHTS}, {TOKENIZER}"
        )
    return path
