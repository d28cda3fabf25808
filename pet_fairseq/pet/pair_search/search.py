"""Which slots of a trained Transformer could share parameters (`pet-fairseq suggest-pairs`).

The search behind PET's replaceable pairs (thesis, section 3.1), automated: tie the slots of a
candidate by their average, without any training, and see how much the validation loss rises.
A candidate ties exactly the slots that a model with these pairs would share.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn

from pet_fairseq.distillation.chunks import chunk_size
from pet_fairseq.errors import UserError
from pet_fairseq.nn.layers import STACKS
from pet_fairseq.pet.pair_search.candidates import Candidate, list_candidates
from pet_fairseq.pet.pair_search.tying import (
    CannotTieError,
    averaged,
    mean_cosine,
    saved_parameters,
    tied_tensors,
)

# --- loss -----------------------------------------------------------------------------------------


def encode(model: nn.Module, sample: dict) -> dict:
    """fairseq's encoder output for a batch."""
    net_input = sample["net_input"]
    return model.encoder(net_input["src_tokens"], src_lengths=net_input["src_lengths"])


def sentence_losses(model: nn.Module, sample: dict, encoder_out: dict) -> Tensor:
    """-log p(gold) in nats, summed over a sentence's tokens without padding: [B], float64."""
    decoder = model.decoder
    features, _ = decoder(
        sample["net_input"]["prev_output_tokens"], encoder_out=encoder_out, features_only=True
    )
    real = sample["target"].ne(decoder.padding_idx)  # B x T
    rows, target = features[real], sample["target"][real]  # N x C, N
    losses = torch.zeros(real.shape, dtype=torch.float64, device=features.device)
    size = chunk_size(len(decoder.dictionary))
    losses[real] = torch.cat(
        [_token_losses(decoder, *chunk) for chunk in zip(rows.split(size), target.split(size))]
    )
    return losses.sum(dim=1)


def _token_losses(decoder: nn.Module, rows: Tensor, target: Tensor) -> Tensor:
    """Features N x C and gold words N -> -log p(gold): [N], float64."""
    output = decoder.output_layer(rows[None])
    log_probs = decoder.get_normalized_probs((output, None), log_probs=True, sample=None)[0]
    return -log_probs.gather(-1, target[:, None])[:, 0].double()


@torch.no_grad()
def all_losses(
    model: nn.Module, samples: list[dict], encoder_outs: Optional[Iterable[dict]] = None
) -> Tensor:
    """`sentence_losses` of all batches, concatenated: [S]; `encoder_outs` spares the encoder."""
    if encoder_outs is None:
        encoder_outs = (encode(model, sample) for sample in samples)
    return torch.cat([sentence_losses(model, s, e) for s, e in zip(samples, encoder_outs)])


def mean_and_error(sums: Tensor, tokens: Tensor) -> tuple[float, Optional[float]]:
    """Mean per token, and its standard error over sentences (None for a single sentence).

    Args:
        sums: [S], over each sentence's tokens. tokens: [S], how many tokens each has.
    """
    total, sentences = tokens.sum().item(), len(sums)
    mean = sums.sum().item() / total
    if sentences < 2:
        return mean, None
    residuals = sums - mean * tokens  # the standard error of a ratio of two sums
    variance = residuals.square().sum().item() * sentences / (sentences - 1)
    return mean, math.sqrt(variance) / total


# --- search ---------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A candidate, and how tying it changes the model.

    rise: of the loss, in nats per target token; error: its standard error over sentences; cosine:
    of the tied weights; saved: parameters; saved_percent: of those in the stack's layers.
    """

    stack: str
    kind: str
    name: str
    pairs: str
    rise: float
    error: Optional[float]
    cosine: float
    saved: int
    saved_percent: float


class LeftOut(NamedTuple):
    """A candidate that could not be tied in this model, and why."""

    stack: str
    kind: str
    name: str
    pairs: str
    reason: str


class SearchResult(NamedTuple):
    """The result of a search: `measured` has the lowest rise first, schemes and pairs mixed.

    loss: nats per target token of the model as it is; layers: their number in each stack.
    """

    loss: float
    sentences: int
    tokens: int
    layers: dict[str, int]
    measured: list[Measured]
    left_out: list[LeftOut]

    def ranked(self, stack: str, kind: str) -> list[Measured]:
        """The schemes or the pairs of a stack, the lowest rise first."""
        return [m for m in self.measured if (m.stack, m.kind) == (stack, kind)]


@torch.no_grad()
def search(
    model: nn.Module,
    samples: list[dict],
    stacks: Iterable[str] = STACKS,
    which: str = "thesis",
    progress: Callable[[Sequence[Candidate]], Iterable[Candidate]] = iter,
) -> SearchResult:
    """Measure every candidate of the stacks on fairseq batches.

    Args:
        model: encoder-decoder Transformer; its parameters are the same afterwards, to the bit.
        progress: wraps the list of candidates while it is worked on.
    Raises:
        UserError: unknown `which`, or a model whose loss is not finite.
    """
    model.eval()
    stack_layers = {stack: getattr(model, stack).layers for stack in stacks}
    encoder_outs = [encode(model, sample) for sample in samples]
    losses = all_losses(model, samples, encoder_outs)
    tokens = torch.cat([s["target"].ne(model.decoder.padding_idx).sum(dim=1) for s in samples])
    loss, _ = mean_and_error(losses, tokens)
    if not math.isfinite(loss):
        raise UserError(f"CHECKPOINT: its loss is {loss}; give a model that was trained well")
    candidates = [
        candidate
        for stack, layers in stack_layers.items()
        for candidate in list_candidates(stack, len(layers), which)
    ]
    measured, left_out = [], []
    for candidate in progress(candidates):
        layers = stack_layers[candidate.stack]
        try:
            groups = tied_tensors(layers, candidate.pairs, candidate.stack)
        except CannotTieError as error:
            left_out.append(LeftOut(*candidate, str(error)))
            continue
        with averaged(groups):  # tying the decoder leaves the encoder's output as it is
            reused = encoder_outs if candidate.stack == "decoder" else None
            rises = all_losses(model, samples, reused) - losses
        measured.append(_measured(candidate, groups, layers, *mean_and_error(rises, tokens)))
    return SearchResult(
        loss=loss,
        sentences=len(losses),
        tokens=int(tokens.sum()),
        layers={stack: len(layers) for stack, layers in stack_layers.items()},
        measured=sorted(measured, key=lambda m: m.rise),
        left_out=left_out,
    )


def _measured(
    candidate: Candidate,
    groups: list[list[Tensor]],
    layers: nn.ModuleList,
    rise: float,
    error: Optional[float],
) -> Measured:
    """A candidate that ties these groups of parameters, with the rise of the loss."""
    saved = saved_parameters(groups)
    percent = 100 * saved / sum(p.numel() for p in layers.parameters())
    return Measured(*candidate, rise, error, mean_cosine(groups), saved, percent)
