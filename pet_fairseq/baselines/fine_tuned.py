"""Models that are made cheaper and then trained as a whole to give what they gave before."""

import copy
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Iterator

from fairseq.dataclass import FairseqDataclass
from torch import nn

from pet_fairseq.backbone import load_backbone
from pet_fairseq.checkpoints import FrozenModels
from pet_fairseq.errors import UserError
from pet_fairseq.variator.backbone import ModelAround


@dataclass
class FineTunedConfig(FairseqDataclass):
    backbone_path: str = field(
        default="", metadata={"help": "checkpoint of the model to start from (required)"}
    )
    compression_ratio: int = field(
        default=4, metadata={"help": "k: the feed-forward networks cost 1/k of what they did"}
    )


class FineTunedModel(ModelAround):
    """A model that `cheapen` changes; criterion variator_distillation compares it with a copy."""

    def __init__(self, cfg: FineTunedConfig, backbone: nn.Module):
        super().__init__(cfg, backbone)
        # no Module: the teacher stays out of state_dict, optimizer and DDP
        self.teacher = FrozenModels([copy.deepcopy(backbone)])
        self.cheapen(backbone, cfg.compression_ratio)

    def cheapen(self, backbone: nn.Module, ratio: int) -> None:
        """Change the model in place."""
        raise NotImplementedError

    @classmethod
    def build_model(cls, cfg: FineTunedConfig, task) -> "FineTunedModel":
        if cfg.compression_ratio < 1:
            raise UserError(f"--compression-ratio {cfg.compression_ratio}: give 1 or more")
        return cls(cfg, load_backbone(cfg.backbone_path, task))

    @contextmanager
    def frozen(self) -> Iterator[nn.Module]:
        """The model as it was before."""
        yield self.teacher.like(next(self.parameters()))[0]
