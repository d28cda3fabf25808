"""Gradients of zero for what is trained but has no part in some batch."""

from collections.abc import Iterable

from torch import Tensor


def zero_from(tensors: Iterable[Tensor]) -> Tensor:
    """A zero which gives each of the tensors that are trained a gradient of zeros.

    Processes that train together wait for the gradients of the same parameters in every batch, so a
    model adds it to its output where a batch may use less than all. It has to be in what `forward`
    returns: with --find-unused-parameters, torch's DistributedDataParallel takes for unused what it
    does not find behind that, and stops where it gets a gradient nonetheless.

    One process does the same, so that a training does not depend on the number of processes; with
    --fp16 and with --ddp-backend legacy_ddp fairseq makes up such zeros itself. For what has a part
    in other batches they are what the loss's gradient is. What has a part in no batch, as an output
    layer that is not shared and whose words the loss never asks for, is moved by weight decay
    alone: after n updates it is (1 - lr * decay)^n of what it was, where fairseq in one process and
    in float32 would leave it alone.
    """
    return sum(0 * x[(0,) * x.dim()] for x in tensors if x.requires_grad)
