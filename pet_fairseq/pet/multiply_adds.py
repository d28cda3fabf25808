"""The multiply-adds in a Transformer's layers, and the share of them that a student saves.

PET's thesis says that its student saves 80.16% of the computation (chapter 1), but not how that was
counted. Counted here is what its compression rate covers (section 4.1.3): the encoder and decoder
layers, without embeddings and output projection.
"""

import torch
from torch import nn

from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.nn.multiply_adds import multiply_adds_of

LONGEST = 10**6


@torch.no_grad()
def count_multiply_adds(model: nn.Module, length: int) -> int:
    """Multiply-adds of the matrix products in the layers for one pair of sentences.

    One pass over all positions of both sides, as in training; a decoder's self-attention counts
    every pair of positions. Sharing parameters saves nothing here; heads that were cut do.

    Args:
        model: an encoder-decoder Transformer, best on the meta device (`build_without_memory`).
        length: tokens of the source and of the target sentence.
    Raises:
        UserError: the length is below 1, or so large that torch cannot name its attention's size.
    """
    check_positive(length=length)
    if length > LONGEST:
        raise UserError(f"--length {length}: give at most {LONGEST}")
    model.eval()
    with next(model.parameters()).device:  # T x B x C
        x = torch.zeros(length, 1, model.cfg.encoder.embed_dim)
        y = torch.zeros(length, 1, model.cfg.decoder.embed_dim)

    def run() -> None:
        nonlocal x, y
        for layer in model.encoder.layers:
            output = layer(x, encoder_padding_mask=None)
            x = output[0] if isinstance(output, tuple) else output
        for layer in model.decoder.layers:
            y = layer(y, encoder_out=x)[0]

    return multiply_adds_of(run)


def format_saving(model: int, reference: int, length: int) -> str:
    """The multiply-adds of a model and of its reference, and the share saved, for the terminal."""
    return "\n".join(
        [
            f"multiply-adds of the layers   {model:>13,}  (a pair of sentences of {length} tokens)",
            f"multiply-adds of reference    {reference:>13,}",
            f"saved share of computation    {100 * (1 - model / reference):>12.2f}%",
        ]
    )
