"""Moving batches and modules to another device."""

from typing import Any, Union

import torch
from fairseq.utils import apply_to_sample
from torch import Tensor, nn


def move_batch(batch: Any, device: Union[str, torch.device]) -> Any:
    """Return a batch with its tensors on a device; as in fairseq, the host does not wait for it."""
    return apply_to_sample(lambda x: x.to(device=device, non_blocking=True), batch)


def move_like(module: nn.Module, parameter: Tensor) -> None:
    """Move a module to the device and dtype of another module's parameter."""
    own = next(module.parameters(), None)
    if own is None or (own.device == parameter.device and own.dtype == parameter.dtype):
        return
    module.to(device=parameter.device, dtype=parameter.dtype)
