"""Model `low_rank`: a task's model that is a frozen one with low-rank updates (LoRA).

So Variator's paper makes the models of its section 4.8. The files hold the updates only; merged,
they are a model as any other, around which plugins can stand.
"""

from dataclasses import dataclass, field

from fairseq.models import register_model
from torch import Tensor, nn

from pet_fairseq.checkpoints.backbone import (
    MERGE_FIRST,
    check_hash,
    drop_modules,
    file_hash,
    load_backbone,
    restore_modules,
)
from pet_fairseq.errors import check_positive
from pet_fairseq.nn.freezing import freeze
from pet_fairseq.nn.low_rank import ALPHA_HELP, check_alpha, check_rank, update_attention
from pet_fairseq.variator.backbone_wrapper import BackboneWrapper
from pet_fairseq.variator.competitors.fine_tuned import CheaperConfig, check_dropout, set_dropout
from pet_fairseq.variator.costs import Shape, plain_layer_cost


@dataclass
class LowRankConfig(CheaperConfig):
    lora_rank: int = field(
        default=8,
        metadata={"help": "rank of the updates to every attention's maps of queries and values"},
    )
    lora_alpha: float = field(default=16, metadata=ALPHA_HELP)


@register_model("low_rank", dataclass=LowRankConfig)
class LowRankModel(BackboneWrapper):
    """A frozen backbone with updates of its attention; classification heads are trained as well."""

    has_teacher = False  # it is to become another model than the backbone
    no_plain_form = MERGE_FIRST

    def __init__(self, cfg: LowRankConfig, backbone: nn.Module):
        super().__init__(cfg, backbone)
        freeze(backbone)
        set_dropout(backbone, cfg.dropout)
        remedy = "give a model with Transformer layers"
        self.low_rank = update_attention(backbone, cfg.lora_rank, cfg.lora_alpha, remedy)
        self.low_rank.is_applied = True
        # the heads are in the backbone; this is the list under which they are saved
        self.heads = self.classification_heads.requires_grad_(True)
        self.register_buffer("backbone_hash", file_hash(cfg.backbone_path))
        self.register_state_dict_post_hook(drop_modules("backbone"))

    @classmethod
    def build_model(cls, cfg: LowRankConfig, task) -> "LowRankModel":
        """Build the model around --backbone-path.

        Raises:
            UserError: wrong options, or a backbone that cannot be updated.
        """
        check_positive(lora_rank=cfg.lora_rank)
        check_alpha(cfg.lora_alpha)
        check_dropout(cfg.dropout)
        return cls(cfg, load_backbone(cfg.backbone_path, task))

    @staticmethod
    def ratio_for(cfg: LowRankConfig) -> int:
        return 1

    @staticmethod
    def encoder_cost(shape: Shape, length: int) -> int:
        """The backbone's multiply-adds: merged updates cost nothing."""
        return shape.layers * plain_layer_cost(shape, length)

    def merge(self) -> nn.Module:
        """The backbone, with the updates in its weights; this model then computes the same."""
        self.low_rank.merge_into(self.backbone)
        return self.backbone

    # --- fairseq's side ---------------------------------------------------------------------------

    def register_classification_head(self, name: str, num_classes: int, **options) -> None:
        """Give the backbone the head that sentence_prediction asks for, unless it has it already.

        Raises:
            UserError: the backbone takes no heads.
        """
        heads = self.heads
        is_there = name in heads and heads[name].out_proj.out_features == num_classes
        if not is_there and hasattr(self.backbone, "register_classification_head"):
            self.backbone.register_classification_head(name, num_classes, **options)
            set_dropout(self.backbone, self.cfg.dropout)
        super().register_classification_head(name, num_classes)

    def make_generation_fast_(self, **options) -> None:
        """As fairseq's; in generation the updated weights are computed once, not at every step."""
        self.merge()
        super().make_generation_fast_(**options)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Check the backbone and the rank, and fill in what the file leaves out.

        Raises:
            UserError: another backbone, or updates of another rank.
        """
        check_hash(state_dict, self.backbone_hash, self.cfg.backbone_path, "the checkpoint")
        check_rank(state_dict, "low_rank", self.cfg.lora_rank)
        restore_modules(self, state_dict)
