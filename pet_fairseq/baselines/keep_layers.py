"""Some layers of a trained Transformer as a shallower model, for a student to start from.

Patient-KD's students start so (S. Sun et al., EMNLP 2019). fairseq's own --encoder-layers-to-keep
cannot be given on the command line: it is read as a list of numbers, where the model wants text.
"""

import re
from pathlib import Path

from fairseq.models.transformer import TransformerModelBase
from torch import Tensor

from pet_fairseq.checkpoints.known_models import check_architecture
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.saving import derived_state, save_state
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_write, check_out_file
from pet_fairseq.nn.architectures import architecture_name, model_class
from pet_fairseq.nn.layers import STACKS

LAYER = re.compile(r"(encoder|decoder)\.layers\.\d+\.")


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
    check_architecture(state["cfg"], checkpoint, "CHECKPOINT")
    args = state["cfg"]["model"]
    if not issubclass(model_class(args), TransformerModelBase):
        raise UserError(
            f"CHECKPOINT {checkpoint}: its architecture {architecture_name(args)} is not an "
            "encoder-decoder Transformer; give one such as fairseq's transformer"
        )
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

    What a layer lacks of the first one it shares with that, as T5's layers share the biases of
    distances: it gets an entry of its own, since the first layer may be left out.

    Args:
        kept: by stack, numbers of layers, counted from 1.
    """
    new = {name: tensor for name, tensor in model.items() if LAYER.match(name) is None}
    for stack, numbers in kept.items():
        shared = entries_of_layer(model, stack, 1)
        for i, number in enumerate(numbers):
            entries = shared | entries_of_layer(model, stack, number)
            new |= {f"{stack}.layers.{i}.{name}": tensor for name, tensor in entries.items()}
    return new


def entries_of_layer(model: dict[str, Tensor], stack: str, number: int) -> dict[str, Tensor]:
    """The entries of a layer, counted from 1, by their names in it."""
    prefix = f"{stack}.layers.{number - 1}."
    own = (name for name in model if name.startswith(prefix))
    return {name.removeprefix(prefix): model[name] for name in own}
