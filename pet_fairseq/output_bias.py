"""A bias of an output projection that is no parameter: of words that a model does not have."""

import torch
from torch import nn

# What is added to the logit of a word that the model does not have. Not -inf: a distribution that
# is smoothed or imitated would become nan. It fits into float16.
ABSENT = -1e4
# ... of a second word with the vector of another one: e^-16 of its probability, below float32's
# resolution, and yet nothing that would outweigh the rest of a sentence's score.
REPEATED = -16.0


def add_output_bias(projection: nn.Linear) -> None:
    """Give a linear map without bias one that is stored with the model but not trained: zeros."""
    del projection.bias
    projection.register_buffer("bias", torch.zeros_like(projection.weight[:, 0]))
