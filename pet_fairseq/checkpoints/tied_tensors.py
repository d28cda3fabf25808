"""Tensors that a model shares: stored once in a checkpoint, and under every name in the model."""

import torch
from torch import Tensor, nn

from pet_fairseq.errors import UserError


def tied_names(model: nn.Module) -> dict[str, str]:
    """A dict from every further name of a shared parameter to its first, in the model's order."""
    first: dict[int, str] = {}
    tied = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = first.setdefault(id(parameter), name)
        if owner != name:
            tied[name] = owner
    return tied


def drop_tied_entries(model: nn.Module, state_dict: dict, prefix: str, _metadata: dict) -> None:
    """State-dict hook: keep every shared tensor under its first name only.

    fairseq copies each entry to the CPU before saving, so a second name would be a second copy.
    """
    for name in tied_names(model):
        state_dict.pop(prefix + name, None)


def restore_tied_entries(model: nn.Module, state_dict: dict[str, Tensor], options: str) -> None:
    """Fill in the names that `drop_tied_entries` left out, so that strict loading succeeds.

    Args:
        options: the ones that decide what the model shares, for the error message.
    Raises:
        UserError: the state holds different values for parameters that this model shares.
    """
    for name, owner in tied_names(model).items():
        if owner not in state_dict:
            continue  # loading reports it
        if name in state_dict and not torch.equal(state_dict[name], state_dict[owner]):
            raise UserError(
                f"checkpoint: {name} and {owner} differ, but this model shares them; load it with "
                f"the {options} that it was trained with"
            )
        state_dict[name] = state_dict[owner]


class SharedStoredOnce(nn.Module):
    """Put before a fairseq model's base: its checkpoints hold every shared tensor once.

    Those that hold copies load, too, if the copies are equal.
    """

    sharing_options: str  # the ones that decide what the model shares, for an error's message

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_state_dict_post_hook(drop_tied_entries)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """As `restore_tied_entries`, after what the base does."""
        super().upgrade_state_dict_named(state_dict, name)
        restore_tied_entries(self, state_dict, self.sharing_options)
