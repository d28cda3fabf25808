"""Loads a model `selfcp` and its task from a checkpoint."""

from omegaconf import open_dict

from pet_fairseq.checkpoints.loading import build_loaded
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.task import SelfCpTask


def load_selfcp(path: str, data: str, **overrides) -> tuple[SelfCpModel, SelfCpTask]:
    """Load a model in eval mode and its task, with `data` in place of the checkpoint's folder.

    Args:
        overrides: options of the model in place of the stored ones, such as prompt_strategy.
    Raises:
        UserError: another kind of checkpoint, wrong options, or no such data.
    """
    state = load_checkpoint(path, "--path")
    cfg = state["cfg"].model
    if getattr(cfg, "_name", "") != "selfcp":
        raise UserError(f"--path {path}: give a file of --arch selfcp")
    with open_dict(state["cfg"]):
        for name, value in overrides.items():
            setattr(cfg, name, value)
    return build_loaded(state, path, "--path", data)
