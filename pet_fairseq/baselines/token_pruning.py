"""Model `token_pruning`: a baseline that Variator is compared with (its sections 4.3 and A.2).

In every encoder layer only the 1/k of a sentence's tokens that receive the most attention go
through the feed-forward network; the others pass by on the residual connection, and compete again
in the next layer. No parameters are added; all of the model's are fine-tuned. The score is that of
learned token pruning (S. Kim et al., KDD 2022).
"""

import math
from typing import Optional, Tuple

import torch
from fairseq.models import register_model
from torch import Tensor, nn

from pet_fairseq.baselines.fine_tuned import FineTunedConfig, FineTunedModel
from pet_fairseq.variator.backbone import find_encoder
from pet_fairseq.variator.sites import surround_ffn

# --- pure functions -------------------------------------------------------------------------------


def received_attention(weights: Tensor, padding_mask: Optional[Tensor]) -> Tensor:
    """Mean attention that each token gets from the real ones: B x T, -inf for padding.

    Args:
        weights: B x T x T (query, key), averaged over heads, before dropout.
        padding_mask: B x T, True = padding.
    """
    if padding_mask is None:
        return weights.mean(dim=1)
    real = (~padding_mask).to(weights)
    scores = (weights * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
    return scores.masked_fill(padding_mask, -math.inf)


def chosen_tokens(
    scores: Tensor, padding_mask: Optional[Tensor], ratio: int
) -> Tuple[Tensor, Tensor]:
    """The ceil(n / k) tokens of each sentence with the highest scores.

    Args:
        scores: B x T, -inf for padding; padding_mask: B x T, True = padding; ratio: k.
    Returns:
        positions, M x B, and which of them count, M x B: short sentences have fewer than M.
    """
    time = scores.size(1)
    real = (
        torch.full((len(scores),), time, device=scores.device)
        if padding_mask is None
        else (~padding_mask).sum(dim=1)
    )
    numbers = (real + ratio - 1) // ratio  # B
    most = int(numbers.max())
    positions = scores.topk(most, dim=1).indices.T
    counts = torch.arange(most, device=scores.device)[:, None] < numbers
    return positions, counts


# --- in fairseq's layers --------------------------------------------------------------------------


class Choice:
    """Which tokens a layer's feed-forward network works on, from its own attention: both M x B."""

    positions: Optional[Tensor] = None
    counts: Optional[Tensor] = None

    def enter(self, x: Tensor) -> Tensor:
        """Only the chosen tokens go in: T x B x C -> M x B x C."""
        self.time = len(x)
        return x.gather(0, self.positions[..., None].expand(-1, -1, x.size(-1)))

    def leave(self, y: Tensor) -> Tensor:
        """The others get zeros: M x B x C -> T x B x C."""
        y = y * self.counts[..., None].to(y)
        zeros = y.new_zeros(self.time, *y.shape[1:])
        return zeros.scatter(0, self.positions[..., None].expand_as(y), y)


class ScoredAttention(nn.Module):
    """Stands for a self-attention and chooses tokens by its weights."""

    def __init__(self, inner: nn.Module, choice: Choice, ratio: int):
        super().__init__()
        self.inner = inner
        self.choice = choice
        self.ratio = ratio

    def forward(self, query, key, value, key_padding_mask=None, need_weights=False, **options):
        """As the attention; T x B x C, key_padding_mask B x T."""
        output, weights = self.inner(
            query, key, value, key_padding_mask=key_padding_mask, need_weights=True, **options
        )
        scores = received_attention(weights.detach(), key_padding_mask)
        choice = self.choice
        choice.positions, choice.counts = chosen_tokens(scores, key_padding_mask, self.ratio)
        return output, weights if need_weights else None


def prune(layers: nn.ModuleList, ratio: int) -> None:
    """Let each layer's feed-forward network work on 1/ratio of the tokens only."""
    for i in range(len(layers)):
        layer, choice = layers[i], Choice()
        layer.self_attn = ScoredAttention(layer.self_attn, choice, ratio)
        surround_ffn(layer, choice)


# --- the model ------------------------------------------------------------------------------------


@register_model("token_pruning", dataclass=FineTunedConfig)
class TokenPruningModel(FineTunedModel):
    """A model whose encoder works on the tokens that are attended to; all weights are trained."""

    def cheapen(self, backbone: nn.Module, ratio: int) -> None:
        holder, name = find_encoder(backbone)
        prune(getattr(holder, name).layers, ratio)
