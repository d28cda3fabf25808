"""Some layers of a trained Transformer as a shallower model, for a student to start from.

Patient-KD's students start so (S. Sun et al., EMNLP 2019). fairseq's own --encoder-layers-to-keep
cannot be given on the command line: it is read as a list of numbers, where the model wants text.
"""

import re
from pathlib import Path

from torch import Tensor

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.saving import derived_state, save_state
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_write, check_out_file
from pet_fairseq.nn.layers import STACKS

LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.*)", re.DOTALL)


def keep_layers(checkpoint: str, layers: dict[str, str], out: Path) -> None:
    """Write a checkpoint with some of a model's layers, without training state.

    Args:
        layers: by stack, the layers to keep as a list `1,3,5`, counted from 1, in their new order.
    Raises:
        UserError: not an encoder-decoder Transformer, one that shares layers, a layer that it
            lacks, or an unusable `out`.
    """
    check_out_file(out)
    state = load_checkpoint(checkpoint, "CHECKPOINT")
    args = state["cfg"]["model"]
    if any(not hasattr(args, f"{stack}_layers") for stack in STACKS):
        raise UserError(f"CHECKPOINT {checkpoint}: not an encoder-decoder Transformer")
    if hasattr(args, "encoder_pairs"):
        raise UserError(f"CHECKPOINT {checkpoint}: its layers share parameters; give a plain model")
    kept = {s: read_layers(layers[s], s, getattr(args, f"{s}_layers")) for s in STACKS}
    for stack, numbers in kept.items():
        setattr(args, f"{stack}_layers", len(numbers))
    shallower = derived_state(state, renumbered(state["model"], kept))
    atomic_write(out, lambda file: save_state(shallower, file))


def read_layers(text: str, stack: str, number: int) -> list[int]:
    """The layers in a list such as `1,3,5`.

    Args:
        stack: for errors. number: how many layers there are.
    Raises:
        UserError: not such a list, or a layer that is not there or named twice.
    """
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})*", text):
        raise UserError(f"--{stack}-layers {text}: give a list such as 1,3,5")
    layers = [int(word) for word in text.split(",")]
    if len(set(layers)) < len(layers) or not all(1 <= layer <= number for layer in layers):
        raise UserError(
            f"--{stack}-layers {text}: give some of the {stack}'s layers 1 to {number}, each once"
        )
    return layers


def renumbered(model: dict[str, Tensor], kept: dict[str, list[int]]) -> dict[str, Tensor]:
    """The entries of a model's state without other layers than the kept ones, under new numbers.

    Args:
        kept: by stack, numbers of layers, counted from 1.
    """
    new = {}
    for name, tensor in model.items():
        layer = LAYER.fullmatch(name)
        if layer is None:
            new[name] = tensor
        elif int(layer[2]) + 1 in kept[layer[1]]:
            number = kept[layer[1]].index(int(layer[2]) + 1)
            new[f"{layer[1]}.layers.{number}.{layer[3]}"] = tensor
    return new
