"""Model `first_layers`: a student made of the first layers of a model.

A baseline that is not in Variator's paper: layers that are left out save what compression at their
parts saves, with no new operation. All weights are then trained with distillation from the model as
it was, whose last vectors the student's last layer learns to give.
"""

from dataclasses import dataclass, field

from fairseq.models import register_model
from torch import nn

from pet_fairseq.errors import UserError
from pet_fairseq.variator.backbone_wrapper import find_stack
from pet_fairseq.variator.competitors.fine_tuned import CheaperConfig, FineTunedModel
from pet_fairseq.variator.costs import Shape, plain_layer_cost


@dataclass
class FirstLayersConfig(CheaperConfig):
    kept_layers: int = field(
        default=3,
        metadata={"help": "how many layers are left of the encoder, or of a language model"},
    )


@register_model("first_layers", dataclass=FirstLayersConfig)
class FirstLayersModel(FineTunedModel):
    """A model with the first layers of its encoder, or of its decoder if it has no encoder."""

    @staticmethod
    def ratio_for(cfg: FirstLayersConfig) -> int:
        return 1

    @classmethod
    def shape_for(cls, cfg: FirstLayersConfig, backbone: Shape) -> Shape:
        return super().shape_for(cfg, backbone)._replace(layers=cfg.kept_layers)

    @staticmethod
    def encoder_cost(shape: Shape, length: int) -> int:
        """The multiply-adds of the layers that are left."""
        return shape.layers * plain_layer_cost(shape, length)

    def reduce_computation(self, backbone: nn.Module) -> None:
        holder, name = find_stack(backbone, "auto", self.cfg.backbone_path)
        stack, kept = getattr(holder, name), self.cfg.kept_layers
        if not 1 <= kept < len(stack.layers):
            raise UserError(
                f"--kept-layers {kept}: the model has {len(stack.layers)} layers; give 1 to "
                f"{len(stack.layers) - 1}"
            )
        del stack.layers[kept:]
        stack.num_layers = kept  # the layers that fairseq looks up in a checkpoint
