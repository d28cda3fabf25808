"""Linear maps in 8 bits for answers on a CPU, by torch's kernels for dynamic quantisation.

A weight has one scale for each row, found when the model is loaded. Inputs are rounded to 7 bits as
they come, with one scale and one zero point for the whole batch: an answer depends a little on the
texts that it runs with.
"""

import warnings

import torch
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.attention import replace_fairseq_attention

LARGEST = 127  # the largest code of a weight


class Int8Linear(nn.Module):
    """A linear map x -> W x + b with W in 8 bits: float32, ... x in -> ... x out."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scales = weight.abs().amax(dim=1).div(LARGEST)
        scales = scales.where(scales > 0, torch.ones_like(scales))  # a row of zeros
        zero_points = torch.zeros_like(scales, dtype=torch.long)
        with warnings.catch_warnings():  # torch warns that a later version will drop such tensors
            warnings.simplefilter("ignore", UserWarning)
            codes = torch.quantize_per_channel(weight, scales, zero_points, 0, torch.qint8)
        bias = None if linear.bias is None else linear.bias.detach().float()
        self.packed = torch.ops.quantized.linear_prepack(codes, bias)

    def forward(self, x: Tensor) -> Tensor:
        # with 8 bits on both sides the sums would overflow on CPUs without VNNI instructions
        return torch.ops.quantized.linear_dynamic(x, self.packed, reduce_range=True)


def check_int8() -> None:
    """Raise UserError if this torch cannot compute in 8 bits."""
    if not hasattr(torch, "quantize_per_channel"):
        raise UserError("--precision int8: this version of torch has no such kernels; leave it out")


def to_int8(module: nn.Module) -> None:
    """Replace every linear map in a model by one in 8 bits, for inference only.

    Modules that say `reads_own_weights = True` stay as they are: they do not call their maps.
    fairseq's attention does not call its maps either, and is replaced by ours.
    """
    replace_fairseq_attention(module)
    _replace_linear(module)


def _replace_linear(module: nn.Module) -> None:
    """Replace the linear maps of a module that calls them, and of those in it."""
    if getattr(module, "reads_own_weights", False):
        return
    for name, child in list(module.named_children()):
        if type(child) is nn.Linear:
            setattr(module, name, Int8Linear(child))
        else:
            _replace_linear(child)
