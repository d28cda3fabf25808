"""Parameters, bytes and training time of a checkpoint."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Optional

from torch import Tensor, nn

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.saving import stored_bytes, unique_tensors
from pet_fairseq.checkpoints.tied_tensors import tied_names
from pet_fairseq.nn.parameter_counts import ParameterCounts, count_parameters
from pet_fairseq.pet.params import stored_model

LAYER = re.compile(r"(encoder|decoder)\.layers\.")


class Sizes(NamedTuple):
    """The sizes of a model; None where one is not known."""

    layer_parameters: Optional[int] = None  # stored in the layers
    active_parameters: Optional[int] = None  # used by one forward pass through the layers
    parameters: Optional[int] = None  # stored in the model
    checkpoint_bytes: Optional[int] = None  # without the optimizer's state

    @property
    def common(self) -> Optional[int]:
        """The size that all seeds of a model have in common.

        Seeds that keep different heads may store different numbers of parameters, but each uses
        the same number.
        """
        return self.layer_parameters if self.active_parameters is None else self.active_parameters


UNKNOWN = Sizes()


def add_sizes(sizes: Iterable[Sizes]) -> Sizes:
    """The sizes of several models together; None where that of one is not known."""
    return Sizes(*(None if None in column else sum(column) for column in zip(*sizes)))


def measure_sizes(path: Path) -> tuple[Sizes, Optional[str]]:
    """Measure the sizes of a checkpoint.

    Returns:
        the sizes; and None, or why its model could not be built. In that case the file's tensors
        are counted, and the active parameters are not known.
    Raises:
        UserError: not a readable checkpoint.
    """
    state = load_checkpoint(str(path), "checkpoint")
    tensors = unique_tensors(state["model"])
    model, why = _build(state, str(path))
    if model is not None:
        counts = count_parameters(model)
        tensors = _without_ties(state["model"], model)
        why = _difference(tensors, model, counts)
    size = stored_bytes(state | {"model": tensors})
    if why is None:
        return Sizes(counts.layers, counts.unshared_layers, counts.total, size), None
    layers = sum(t.numel() for name, t in tensors.items() if LAYER.match(name))
    return Sizes(layers, None, sum(t.numel() for t in tensors.values()), size), why


def _build(state: dict, path: str) -> tuple[Optional[nn.Module], Optional[str]]:
    try:
        model = stored_model(state, path, "checkpoint")
        count_parameters(model)  # fails for a model without encoder and decoder layers
        return model, None
    except Exception as error:  # an architecture's code can raise anything
        return None, (str(error).splitlines() or [type(error).__name__])[0]


def _without_ties(state_dict: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The stored tensors, with each parameter that the model shares under one name only.

    A checkpoint that fairseq saved from a GPU holds a copy under each name.
    """
    tied = tied_names(model)
    owned = {name: t for name, t in state_dict.items() if tied.get(name) not in state_dict}
    return unique_tensors(owned)


def _difference(
    tensors: dict[str, Tensor], model: nn.Module, counts: ParameterCounts
) -> Optional[str]:
    """How a checkpoint's options and its tensors disagree; None if they describe the same model."""
    names = {name for name, _ in model.named_parameters()}
    stored = sum(t.numel() for name, t in tensors.items() if name in names)
    if stored == counts.total:
        return None
    return f"its options make a model of {counts.total:,} parameters, it holds {stored:,} of them"


def training_seconds(path: Path) -> Optional[float]:
    """The seconds of training up to a checkpoint; None if the file or the time in it is missing."""
    if not path.is_file():
        return None
    extra = load_checkpoint(str(path), "checkpoint", mapped=True)["extra_state"]
    return extra.get("previous_training_time")
