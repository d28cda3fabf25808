"""Models from checkpoints that are only run, never trained."""

import os

from fairseq.models import FairseqModel
from fairseq.modules.checkpoint_activations import unwrap_checkpoint
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from pet_fairseq.checkpoints.dictionaries import check_dictionaries
from pet_fairseq.checkpoints.known_models import naming_mismatch
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.translation_checks import check_translation_model
from pet_fairseq.errors import UserError
from pet_fairseq.nn.freezing import freeze
from pet_fairseq.nn.layers import use_torch_gelu
from pet_fairseq.nn.to_device import move_like


class FrozenModels:
    """Models that are only run, never trained.

    Not an nn.Module, so that nothing inside reaches a state_dict, an optimizer or DDP.
    """

    def __init__(self, models: list[FairseqModel]):
        self.models = models
        for model in models:
            unwrap_checkpoint(model.eval())  # nothing is kept for a backward pass anyway
            freeze(model)
            leave_out_attention_weights(model)
            use_torch_gelu(model)

    def like(self, parameter: Tensor) -> list[FairseqModel]:
        """The models on the parameter's device and in its dtype, moved at the first call only."""
        for model in self.models:
            move_like(model, parameter)
        return self.models


def leave_out_attention_weights(model: nn.Module) -> None:
    """Let decoder layers return no weights of their attention to the source.

    In eval mode fairseq's layers would return them, and then use no fused kernel.
    """
    for module in model.modules():
        if hasattr(module, "need_attn"):
            module.need_attn = False


def load_frozen_models(paths: str, option: str, task: FairseqTask) -> FrozenModels:
    """Load one checkpoint or an ensemble `a.pt:b.pt` with the same dictionaries as `task`.

    Raises:
        UserError: an empty path, or a file that is missing, damaged or unsafe, made for other
            dictionaries, of a model that does not translate text from left to right or is another
            plugin's, or with parameters that are not the model's.
    """
    if not all(paths.split(os.pathsep)):
        raise UserError(
            f"{option} {paths}: a checkpoint beside '{os.pathsep}' is missing; give it, or leave "
            f"the '{os.pathsep}' out"
        )
    models = []
    for path in paths.split(os.pathsep):
        state = load_checkpoint(path, option)
        check_translation_model(state, path, option)
        remedy = "give one that was trained on data made with the same dictionaries"
        check_dictionaries(state, path, option, task, remedy)
        with naming_mismatch(state["cfg"], path, option):
            models.append(_load(state, task))
    return FrozenModels(models)


def _load(state: dict, task: FairseqTask) -> FairseqModel:
    """The model of a checkpoint.

    It is built as a task does that does nothing else: the task's own `build_model` would let
    --eval-bleu translate with this model from then on, in place of the one that is trained.
    """
    cfg = state["cfg"].model
    model = FairseqTask.build_model(task, cfg, from_checkpoint=True)
    model.load_state_dict(state["model"], strict=True, model_cfg=cfg)
    return model
