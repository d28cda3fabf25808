"""Loading what a criterion trains beside the model, also from checkpoints of other criteria."""

import logging
from typing import Optional

from torch import Tensor, nn

from pet_fairseq.errors import UserError

logger = logging.getLogger(__name__)


def load_own_state(
    criterion: nn.Module, state: Optional[dict[str, Tensor]], description: str
) -> None:
    """Load the criterion's parameters that a checkpoint holds; the others start anew.

    Args:
        state: the state of the checkpoint's criterion, which may be another one; None if that has
            no parameters.
        description: what the warning calls the parameters.
    Raises:
        UserError: a parameter has another shape in the checkpoint.
    """
    ours = criterion.state_dict()
    theirs = {name: tensor for name, tensor in (state or {}).items() if name in ours}
    for name, tensor in theirs.items():
        if tensor.shape != ours[name].shape:
            raise UserError(
                f"--criterion: {name} is {format_shape(tensor)} in the checkpoint and "
                f"{format_shape(ours[name])} here; give the options and the teacher it was trained "
                "with, or start from a checkpoint of --criterion pet_distillation, which holds none"
            )
    if len(theirs) < len(ours):
        logger.warning(f"the checkpoint holds no {description}; they start anew")
    nn.Module.load_state_dict(criterion, {**ours, **theirs})


def format_shape(tensor: Tensor) -> str:
    """The shape of a tensor as `4 x 16`."""
    return " x ".join(map(str, tensor.shape))
