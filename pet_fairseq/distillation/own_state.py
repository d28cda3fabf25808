"""Loading what a criterion trains beside the model, also from checkpoints of other criterions."""

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
        state: what a checkpoint holds of its criterion, which may be another one; None if that has
            no parameters.
        description: names the parameters in a warning.
    Raises:
        UserError: a parameter has another shape.
    """
    ours = criterion.state_dict()
    theirs = {name: tensor for name, tensor in (state or {}).items() if name in ours}
    for name, tensor in theirs.items():
        if tensor.shape != ours[name].shape:
            raise UserError(
                f"--criterion: {name} is {shape(tensor)} in the checkpoint and "
                f"{shape(ours[name])} here; give the options and the teacher it was trained with, "
                "or start from a checkpoint of --criterion pet_distillation, which holds none"
            )
    if len(theirs) < len(ours):
        logger.warning(f"the checkpoint holds no {description}; they start anew")
    nn.Module.load_state_dict(criterion, {**ours, **theirs})


def shape(tensor: Tensor) -> str:
    """Return a shape as `4 x 16`."""
    return " x ".join(map(str, tensor.shape))
