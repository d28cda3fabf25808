"""Models that are made cheaper and then trained as a whole to give what they gave before."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from pet_fairseq.checkpoints.backbone import load_backbone
from pet_fairseq.checkpoints.frozen_models import FrozenModels
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.variator.backbone_wrapper import BackboneWrapper

BACKBONE = "backbone."  # begins the names of the backbone's tensors in a state


@dataclass
class CheaperConfig(FairseqDataclass):
    backbone_path: str = field(
        default="", metadata={"help": "checkpoint of the model to start from (required)"}
    )
    dropout: Optional[float] = field(
        default=None, metadata={"help": "in all places, in place of the model's own dropout"}
    )


@dataclass
class FineTunedConfig(CheaperConfig):
    compression_ratio: int = field(
        default=4, metadata={"help": "k: the feed-forward networks cost 1/k of what they did"}
    )


class FineTunedModel(BackboneWrapper):
    """A model made cheaper by `reduce_computation`; variator_distillation compares it with the old.

    Args:
        load_teacher: gives the model as it was before, when it is asked for: training needs it,
            inference does not.
    """

    def __init__(
        self, cfg: CheaperConfig, backbone: nn.Module, load_teacher: Callable[[], nn.Module]
    ):
        super().__init__(cfg, backbone)
        self.load_teacher = load_teacher
        # no Module: the teacher stays out of state_dict, optimizer and DDP
        self.teacher: Optional[FrozenModels] = None
        self.reduce_computation(backbone)
        set_dropout(backbone, cfg.dropout)

    def reduce_computation(self, backbone: nn.Module) -> None:
        """Change the model in place, by the options in `self.cfg`.

        Raises:
            UserError: options that cannot be met, or a model that cannot be changed so.
        """
        raise NotImplementedError

    @classmethod
    def build_model(cls, cfg: CheaperConfig, task) -> "FineTunedModel":
        check_positive(compression_ratio=cls.ratio_for(cfg))
        check_dropout(cfg.dropout)

        def load() -> nn.Module:
            return load_backbone(cfg.backbone_path, task)

        return cls(cfg, load(), load)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Let the backbone upgrade its entries, under the names that they have without the prefix.

        Some of fairseq's models, such as BART, look them up under these names only.
        """
        names = [stored for stored in state_dict if stored.startswith(BACKBONE)]
        entries = {stored.removeprefix(BACKBONE): state_dict.pop(stored) for stored in names}
        self.backbone.upgrade_state_dict(entries)
        state_dict.update({BACKBONE + own: tensor for own, tensor in entries.items()})

    @contextmanager
    def frozen(self) -> Iterator[nn.Module]:
        """Inside the block, the model as it was before."""
        if self.teacher is None:
            with torch.random.fork_rng(devices=[]):  # the training's random numbers go on
                self.teacher = FrozenModels([self.load_teacher()])
        yield self.teacher.like(next(self.parameters()))[0]


def check_dropout(dropout: Optional[float]) -> None:
    """Raise UserError for a dropout that is none."""
    if dropout is not None and not 0 <= dropout < 1:
        raise UserError(f"--dropout {dropout}: give 0 or more, less than 1")


def set_dropout(model: nn.Module, dropout: Optional[float]) -> None:
    """Set every kind of dropout in every layer; None leaves the model's own."""
    if dropout is None:
        return
    for module in model.modules():
        if isinstance(module, (FairseqDropout, nn.Dropout)):  # the latter in classification heads
            module.p = dropout
        elif isinstance(getattr(module, "dropout", None), float):  # of attention's fused kernels
            module.dropout = dropout
