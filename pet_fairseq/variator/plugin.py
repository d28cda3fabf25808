"""Compression plugins (Variator, section 3.2): k hidden vectors become one, and k again.

A plugin sits around a part of a frozen layer, its feed-forward network for example. It merges each
group of k consecutive vectors into one, the part works on the groups, and the plugin makes a vector
for every position from its group's output and the position's own input.

Layout: T x B x C as in fairseq's layers; groups are ceil(T / k) x B x C.
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# --- pure functions -------------------------------------------------------------------------------


def split_groups(x: Tensor, ratio: int) -> Tensor:
    """Divide positions into groups, T x B x C -> G x k x B x C; zeros fill up the last one."""
    missing = -x.size(0) % ratio
    if missing:
        x = F.pad(x, (0, 0, 0, 0, 0, missing))
    return x.unflatten(0, (-1, ratio))


def group_padding(padding_mask: Optional[Tensor], x: Tensor, ratio: int) -> Optional[Tensor]:
    """The mask of members that are not real positions: G x k x B or G x k x 1, None if all are.

    Args:
        padding_mask: B x T, True = padding; None without any. x: T x B x C.
    """
    missing = -x.size(0) % ratio
    if padding_mask is None and not missing:
        return None
    if padding_mask is None:
        padding_mask = torch.zeros(1, x.size(0), dtype=torch.bool, device=x.device)
    return F.pad(padding_mask.T, (0, 0, 0, missing), value=True).unflatten(0, (-1, ratio))


def group_weights(
    members: Tensor, padding: Optional[Tensor], weight: Tensor, bias: Tensor
) -> Tensor:
    """Weights of the members, softmax(W_c concat(group) + b_c): G x k x B.

    Args:
        members: G x k x B x C, zeros where `padding` is True.
        padding: G x k x B or G x k x 1, True = weight 0; a group of only padding gets zeros.
        weight: k x (k C), W_c; bias: k.
    """
    groups, ratio, batch, width = members.shape
    # W_c concat(group) = sum over members j of W_c[:, j] h_j: no copy of the members
    per_member = weight.view(ratio, ratio, width).permute(1, 2, 0)  # member j, C, score i
    by_member = members.transpose(0, 1).reshape(ratio, groups * batch, width)
    scores = torch.bmm(by_member, per_member).sum(dim=0) + bias
    scores = scores.view(groups, batch, ratio).transpose(1, 2)  # G x k x B
    if padding is None:
        return scores.softmax(dim=1)
    weights = scores.masked_fill(padding, torch.finfo(scores.dtype).min).softmax(dim=1)
    return weights.masked_fill(padding, 0)


def merge_members(members: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of each group, sum over j of a_j h_j: G x B x C.

    Args:
        members: G x k x B x C; weights: G x k x B.
    """
    return (members * weights[..., None]).sum(dim=1)


def decompress(
    group_output: Tensor,
    members: Tensor,
    down_group: Tensor,
    down_member: Tensor,
    down_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    activation: str,
) -> Tensor:
    """The outputs of the members, o_j = g + W2 act(W1 concat(g, h_j) + b1) + b2: G x k x B x C.

    Args:
        group_output: G x B x C, g; members: G x k x B x C, h.
        down_group, down_member: r x C each, the halves of W1; down_bias: r; up: C x r; up_bias: C.
        activation: tanh or none.
    """
    # in place: a new tensor of all members costs a CPU as much as the arithmetic does
    hidden = F.linear(members, down_member, down_bias)
    hidden += F.linear(group_output, down_group)[:, None]  # once per group
    if activation == "tanh":
        hidden.tanh_()
    return F.linear(hidden, up, up_bias).add_(group_output[:, None])


# --- the plugin -----------------------------------------------------------------------------------


class Plugin(nn.Module):
    """Trained parameters for one ratio at one site: k^2 d + k + 3 r d + r + d of them.

    Args:
        embed_dim: d; ratio: k; bottleneck_dim: r.
        activation: between the adapter's maps; the paper's formula has none, its code tanh.
        compression: weighted, or mean over the real members (the ablation "w/o Com" of Table 2,
            without parameters).
        decompression: adapter, or copy of the group's output ("w/o DeCom", without parameters).
    """

    reads_own_weights = True  # it does not call its maps, so predict/int8.py leaves them alone

    def __init__(
        self,
        embed_dim: int,
        ratio: int,
        bottleneck_dim: int = 64,
        activation: str = "tanh",
        compression: str = "weighted",
        decompression: str = "adapter",
    ):
        super().__init__()
        self.ratio = ratio
        self.activation = activation
        self.group_scores = (
            nn.Linear(ratio * embed_dim, ratio) if compression == "weighted" else None
        )
        self.down, self.up = None, None
        if decompression == "adapter":
            self.down = nn.Linear(2 * embed_dim, bottleneck_dim)
            self.up = nn.Linear(bottleneck_dim, embed_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise so that a group is near its mean, and members get nearly its output."""
        if self.group_scores is not None:
            nn.init.normal_(self.group_scores.weight, std=0.01)
            nn.init.zeros_(self.group_scores.bias)
        for linear in (self.down, self.up):
            if linear is not None:
                nn.init.normal_(linear.weight, std=0.01)
                nn.init.zeros_(linear.bias)

    def members(self, x: Tensor, padding: Optional[Tensor]) -> Tensor:
        """The vectors in each group, T x B x C -> G x k x B x C; zeros where there is padding."""
        members = split_groups(x, self.ratio)
        return members if padding is None else members.masked_fill(padding[..., None], 0)

    def compress(self, members: Tensor, padding: Optional[Tensor]) -> Tensor:
        """One vector for each group: G x B x C."""
        if self.group_scores is None:
            return merge_members(members, mean_weights(members, padding))
        scores = self.group_scores
        return merge_members(members, group_weights(members, padding, scores.weight, scores.bias))

    def decompress(self, group_output: Tensor, members: Tensor, time: int) -> Tensor:
        """A vector for each of the T positions: T x B x C."""
        if self.down is None or self.up is None:
            outputs = group_output[:, None].expand_as(members)
        else:
            down_group, down_member = self.down.weight.chunk(2, dim=1)
            outputs = decompress(
                group_output,
                members,
                down_group,
                down_member,
                self.down.bias,
                self.up.weight,
                self.up.bias,
                self.activation,
            )
        return outputs.flatten(0, 1)[:time]

    def extra_repr(self) -> str:
        return f"ratio={self.ratio}"


def mean_weights(members: Tensor, padding: Optional[Tensor]) -> Tensor:
    """Equal weights over the real members of each group: G x k x B."""
    real = members.new_ones(members.shape[:3])
    if padding is not None:
        real = real.masked_fill(padding, 0)
    return real / real.sum(dim=1, keepdim=True).clamp(min=1)
