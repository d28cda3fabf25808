"""Attention that uses only some of the heads that its projections hold."""

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pet_fairseq.nn.attention import PROJECTIONS, MultiheadAttention


class PetAttention(MultiheadAttention):
    """An attention whose projections may hold heads that only other layers use.

    It behaves as its base class until `select_heads` is called.
    """

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        # for each projection the rows (of O: columns) of the used heads; None: all of them
        self.head_rows: Optional[dict[str, Tensor]] = None

    def select_heads(self, stored: Mapping[str, Sequence[int]], heads: Sequence[int]) -> None:
        """Use these heads only; the others take no part in any computation or cache.

        Args:
            stored: for each projection the heads that it holds, in the order of its rows.
            heads: the heads to use, in the order in which they are computed.
        """
        self.num_heads = len(heads)
        self.head_rows = None
        if any(list(held) != list(heads) for held in stored.values()):
            device = self.out_proj.weight.device
            self.head_rows = {
                name: rows_of_heads([held.index(head) for head in heads], self.head_dim, device)
                for name, held in stored.items()
            }

    def make_generation_fast_(self, **_) -> None:
        """Keep the parameters of the used heads only; fairseq calls this before it generates."""
        if self.head_rows is None:
            return
        for name in PROJECTIONS:
            weight, bias = self.weights_in_use(name)
            linear = nn.Linear(weight.size(1), weight.size(0), device="meta")
            linear.weight, linear.bias = (
                nn.Parameter(x.detach().clone(), requires_grad=False) for x in (weight, bias)
            )
            setattr(self, name, linear)
        self.head_rows = None

    def weights_in_use(self, name: str) -> tuple[Tensor, Tensor]:
        """Weight and bias of a projection without the heads that are not used."""
        weight, bias = super().weights_in_use(name)
        if self.head_rows is None:
            return weight, bias
        rows = self.head_rows[name]
        if rows.device != weight.device:
            rows = self.head_rows[name] = rows.to(weight.device)
        if name == "out_proj":  # its bias belongs to no head
            return weight.index_select(1, rows), bias
        return weight.index_select(0, rows), bias.index_select(0, rows)

    def _project(self, name: str, x: Any) -> Tensor:
        if self.head_rows is None:
            return super()._project(name, x)
        return F.linear(x, *self.weights_in_use(name))


def rows_of_heads(heads: Sequence[int], head_dim: int, device: torch.device) -> Tensor:
    """The rows of a projection that belong to some of the heads it holds: [heads x head_dim]."""
    rows = [head * head_dim + i for head in heads for i in range(head_dim)]
    return torch.tensor(rows, device=device)
