"""Model `token_pruning`: a baseline that Variator is compared with (its sections 4.3 and A.2).

In every encoder layer only the 1/k of a sentence's tokens that receive the most attention go
through the feed-forward network; the others pass by on the residual connection, and compete again
in the next layer. No parameters are added; all of the model's are fine-tuned. The score is that of
learned token pruning (S. Kim et al., KDD 2022).
"""

import math
from typing import Optional

import torch
from fairseq.models import register_model
from torch import Tensor, nn

from pet_fairseq.variator.backbone_wrapper import find_encoder
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig, FineTunedModel
from pet_fairseq.variator.costs import Shape, attention_cost, ffn_cost
from pet_fairseq.variator.feed_forward import FeedForward, replace_ffn

# --- pure functions -------------------------------------------------------------------------------


def received_attention(weights: Tensor, padding_mask: Optional[Tensor]) -> Tensor:
    """The mean attention that each token gets from the real ones: B x T, -inf for padding.

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
) -> tuple[Tensor, Tensor]:
    """The ceil(n / k) tokens of each sentence with the highest scores.

    Args:
        scores: B x T, -inf for padding; padding_mask: B x T, True = padding; ratio: k.
    Returns:
        positions, M x B with M = ceil(T / k), and which of them count, M x B: short sentences have
        fewer than M.
    """
    time = scores.size(1)
    most = -(-time // ratio)
    positions = scores.topk(most, dim=1).indices.T
    if padding_mask is None:
        return positions, torch.ones_like(positions, dtype=torch.bool)
    real = time - padding_mask.sum(dim=1)
    numbers = (real + ratio - 1) // ratio  # B
    counts = torch.arange(most, device=scores.device)[:, None] < numbers
    return positions, counts


# --- in fairseq's layers --------------------------------------------------------------------------


class TokenChoice:
    """The tokens that a layer's attention chose for the feed-forward network behind it."""

    positions: Tensor  # M x B
    counts: Tensor  # M x B, False = only fills up a short sentence


class ScoredAttention(nn.Module):
    """A self-attention that chooses tokens by its weights.

    Args:
        inner: this package's attention, whose weights are those before dropout.
    """

    def __init__(self, inner: nn.Module, choice: TokenChoice, ratio: int):
        super().__init__()
        self.inner = inner
        self.choice = choice
        self.ratio = ratio

    def forward(self, query, key, value, key_padding_mask=None, need_weights=False, **options):
        """Return what the attention returns; T x B x C, key_padding_mask B x T."""
        output, weights = self.inner(
            query, key, value, key_padding_mask=key_padding_mask, need_weights=True, **options
        )
        scores = received_attention(weights.detach(), key_padding_mask)
        choice = self.choice
        choice.positions, choice.counts = chosen_tokens(scores, key_padding_mask, self.ratio)
        return output, weights if need_weights else None


class PrunedFeedForward(nn.Module):
    """A feed-forward network that works on the chosen tokens only."""

    def __init__(self, layer: nn.Module, choice: TokenChoice):
        super().__init__()
        self.ffn = FeedForward(layer)
        self.choice = choice

    def forward(self, x: Tensor) -> Tensor:
        """T x B x C -> T x B x C, zeros for the tokens that are not chosen."""
        positions = self.choice.positions[..., None].expand(-1, -1, x.size(-1))
        y = self.ffn(x.gather(0, positions))
        y = y * self.choice.counts[..., None].to(y)
        return y.new_zeros(x.shape).scatter(0, positions, y)


def prune(layers: nn.ModuleList, ratio: int) -> None:
    """Let each layer's feed-forward network work on 1/ratio of the tokens only."""
    for i in range(len(layers)):
        layer, choice = layers[i], TokenChoice()
        layer.self_attn = ScoredAttention(layer.self_attn, choice, ratio)
        replace_ffn(layer, PrunedFeedForward(layer, choice))


# --- the model ------------------------------------------------------------------------------------

STORED_NAMES = {".fc1.ffn.fc1.": ".fc1.inner.", ".fc1.ffn.fc2.": ".fc2.inner."}  # in checkpoints


@register_model("token_pruning", dataclass=FineTunedConfig)
class TokenPruningModel(FineTunedModel):
    """A model whose encoder works on the tokens that are attended to; all weights are trained."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.register_state_dict_post_hook(use_stored_names)

    def reduce_computation(self, backbone: nn.Module) -> None:
        holder, name = find_encoder(backbone, self.cfg.backbone_path)
        prune(getattr(holder, name).layers, self.cfg.compression_ratio)

    @staticmethod
    def encoder_cost(shape: Shape, length: int) -> int:
        """The layers' multiply-adds when one of k tokens goes through each FFN."""
        chosen = shape.num_groups(length)
        return shape.layers * (attention_cost(shape, length, length) + ffn_cost(shape, chosen))

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        for ours, stored in STORED_NAMES.items():
            rename_entries(state_dict, stored, ours)
        super().upgrade_state_dict_named(state_dict, name)


def use_stored_names(_model: nn.Module, state_dict: dict, _prefix: str, _metadata: dict) -> None:
    """State-dict hook: keep the names that checkpoints have had from the beginning."""
    for ours, stored in STORED_NAMES.items():
        rename_entries(state_dict, ours, stored)


def rename_entries(state_dict: dict[str, Tensor], old: str, new: str) -> None:
    """Replace a part of the names in a state."""
    for name in [name for name in state_dict if old in name]:
        state_dict[name.replace(old, new)] = state_dict.pop(name)
