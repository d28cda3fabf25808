"""Low-rank updates of frozen linear maps: E. J. Hu et al., "LoRA", 2021."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from fairseq.modules.checkpoint_activations import unwrap_checkpoint
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pet_fairseq.errors import UserError

ALPHA_HELP = {"help": "the updates are multiplied by this divided by their rank"}
UPDATED = ("q_proj", "v_proj")  # as in section 5 of the paper


class LowRankUpdates(nn.Module):
    """Makes W + (alpha / r) B A of the weight W of some linear maps, inside a block only.

    Outside of `applied` the maps are what they were, bit by bit. B starts at zero, so that at first
    they are so inside, too. A and B are parameters of this module, not of the maps. Whoever reads a
    map's `weight` gets the updated one: fairseq's attention reads it without calling the map.

    What runs again in the backward pass has to do so in a block of its own.

    Args:
        maps: each with W of out x in. rank: r, 1 or more; A is r x in, B is out x r.
    """

    def __init__(self, maps: Iterable[nn.Linear], rank: int, alpha: float):
        super().__init__()
        self.scale = alpha / rank
        self.is_applied = False
        self.down = nn.ParameterList()  # A
        self.up = nn.ParameterList()  # B
        for number, linear in enumerate(maps):
            down = linear.weight.new_empty(rank, linear.in_features)
            nn.init.kaiming_uniform_(down, a=math.sqrt(5))  # as torch starts a linear map
            self.down.append(nn.Parameter(down))
            self.up.append(nn.Parameter(linear.weight.new_zeros(linear.out_features, rank)))
            parametrize.register_parametrization(linear, "weight", _Weight(self, number))

    def update(self, weight: Tensor, number: int) -> Tensor:
        """The weight of a map, out x in: updated inside the block, else the same tensor."""
        if not self.is_applied:
            return weight
        return torch.addmm(weight, self.up[number], self.down[number], alpha=self.scale)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the block the maps are the updated ones."""
        before, self.is_applied = self.is_applied, True
        try:
            yield
        finally:
            self.is_applied = before

    def merge_into(self, model: nn.Module) -> None:
        """Leave the updated weights in a model for good, and nothing of this module in its maps.

        Maps that anything else has parametrized, such as other updates, stay as they are.
        """
        with self.applied():
            for module in model.modules():
                if self.updates(module):
                    parametrize.remove_parametrizations(module, "weight")

    def updates(self, module: nn.Module) -> bool:
        """Whether a module is one of the maps that are updated."""
        if not parametrize.is_parametrized(module, "weight"):
            return False
        return any(
            isinstance(own, _Weight) and own.update_of[0] is self
            for own in module.parametrizations.weight
        )


class _Weight(nn.Module):
    """The parametrization of one map."""

    def __init__(self, updates: LowRankUpdates, number: int):
        super().__init__()
        # in a tuple, so that the frozen model does not get the matrices as parameters of its own
        self.update_of = (updates, number)

    def forward(self, weight: Tensor) -> Tensor:
        updates, number = self.update_of
        return updates.update(weight, number)


def attention_maps(model: nn.Module) -> list[nn.Linear]:
    """The maps of UPDATED in each attention of a model, in the model's order."""
    maps = [getattr(module, name, None) for module in model.modules() for name in UPDATED]
    return [linear for linear in maps if isinstance(linear, nn.Linear)]


def update_attention(model: nn.Module, rank: int, alpha: float, remedy: str) -> LowRankUpdates:
    """Make updates of a model's `attention_maps`.

    Its layers keep their activations from then on, whatever it was trained with.

    Args:
        remedy: ends the error about a model without any.
    Raises:
        UserError: the model has none, or some that share a weight.
    """
    maps = attention_maps(model)
    if not maps:
        raise UserError(
            f"--lora-rank {rank}: the backbone's layers have no attention with q_proj and v_proj; "
            f"{remedy}"
        )
    weights = [linear.weight for linear in maps]  # a list: each keeps its id
    if len(set(map(id, weights))) < len(weights):
        raise UserError(
            f"--lora-rank {rank}: the backbone's layers share weights of q_proj or v_proj; give a "
            "model whose layers share no weights"
        )
    # run again in the backward pass, a frozen layer would give its updates no gradient
    unwrap_checkpoint(model)
    return LowRankUpdates(maps, rank, alpha)


def check_alpha(alpha: float) -> None:
    """Raise UserError for a factor of updates that is none."""
    if not 0 < alpha < math.inf:
        raise UserError(f"--lora-alpha {alpha:g}: give more than 0, but not inf")


def check_rank(state_dict: dict[str, Tensor], prefix: str, rank: int) -> None:
    """Check that updates in a state, if it has any, have the rank of --lora-rank.

    Args:
        prefix: of a LowRankUpdates in the state's names.
    Raises:
        UserError: they have another one.
    """
    ranks = [t.size(0) for name, t in state_dict.items() if name.startswith(f"{prefix}.down.")]
    if ranks and ranks[0] != rank:
        raise UserError(
            f"--lora-rank {rank}: the checkpoint has updates of rank {ranks[0]}; give that rank"
        )
