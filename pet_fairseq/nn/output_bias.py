"""An untrained bias of the output projection, for words that an imported model does not have."""

import torch
from torch import nn

# Added to the logit of a word that the model does not have. It is not -inf, with which label
# smoothing and distillation would give nan, and it fits into float16.
ABSENT = -1e4
# Added to the logit of a second word with the same vector as another one. It leaves e^-16 of the
# probability: too little to matter in float32, but not enough to dominate a sentence's score.
REPEATED = -16.0


def add_output_bias(projection: nn.Linear) -> None:
    """Give a linear layer without bias one of zeros, which is stored but not trained."""
    del projection.bias
    projection.register_buffer("bias", torch.zeros_like(projection.weight[:, 0]))
