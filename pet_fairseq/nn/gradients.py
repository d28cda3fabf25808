"""Zero gradients for parameters that are trained but not used by every batch."""

from collections.abc import Iterable
from typing import Union

from torch import Tensor


def zero_with_gradients(tensors: Iterable[Tensor]) -> Union[Tensor, int]:
    """A scalar 0 whose gradient for each of the tensors that require one is a tensor of zeros.

    Where no tensor requires one, it is the number 0.

    Processes that train together wait for the gradients of the same parameters in every batch, so a
    model adds this to its output where a batch may use only some of them. It has to be part of what
    `forward` returns: with --find-unused-parameters, torch's DistributedDataParallel considers a
    parameter unused if that output does not depend on it, and stops if it gets a gradient
    nonetheless.

    A single process does the same, so that a training does not depend on the number of processes;
    with --fp16 and with --ddp-backend legacy_ddp fairseq fills in such zeros itself. For a
    parameter that other batches use, zero is the true gradient of the loss. A parameter that no
    batch uses, such as an output layer of its own for words that the loss never asks for, is
    changed by weight decay alone: after n updates it is (1 - lr * decay)^n of what it was, whereas
    fairseq in one process and in float32 would leave it unchanged.
    """
    return sum(0 * x[(0,) * x.dim()] for x in tensors if x.requires_grad)
