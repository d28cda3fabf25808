"""Moving batches and modules to the device at hand, which nothing asks for by name."""

from typing import Any, Union

import torch
from fairseq.utils import apply_to_sample
from torch import Tensor, nn


def move_batch(batch: Any, device: Union[str, torch.device]) -> Any:
    """Return a batch with its tensors on a device; as in fairseq, the host does not wait for it."""
    return apply_to_sample(lambda x: x.to(device=device, non_blocking=True), batch)


def move_like(module: nn.Module, parameter: Tensor) -> None:
    """Move a module to the device and dtype of another one's parameter, if it is elsewhere."""
    ours = next(module.parameters(), None)
    if ours is None or (ours.device == parameter.device and ours.dtype == parameter.dtype):
        return
    module.to(device=parameter.device, dtype=parameter.dtype)
