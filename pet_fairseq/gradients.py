"""Gradients of zero for what is trained but has no part in some batch."""

from collections.abc import Iterable

from torch import Tensor


def zero_from(tensors: Iterable[Tensor]) -> Tensor:
    """A zero which gives each of the tensors that are trained a gradient of zeros.

    Processes that train together wait for the gradients of the same parameters in every batch, so a
    model adds it to its output where a batch may use less than all. It has to be in what `forward`
    returns: with --find-unused-parameters, torch's DistributedDataParallel takes for unused what it
    does not find behind that, and stops where it gets a gradient nonetheless.
    """
    return sum(0 * x[(0,) * x.dim()] for x in tensors if x.requires_grad)
