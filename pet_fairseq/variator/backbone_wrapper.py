"""The model that is compressed: which of its stacks, and what wraps it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

from fairseq.models import BaseFairseqModel
from torch import nn

from pet_fairseq.checkpoints.backbone import check_gives_logits, is_decoder_only
from pet_fairseq.errors import UserError
from pet_fairseq.nn.attention import replace_fairseq_attention
from pet_fairseq.nn.gradients import zero_with_gradients
from pet_fairseq.variator.costs import Shape


def find_encoder(backbone: nn.Module, what: str = "the model") -> tuple[nn.Module, str]:
    """Find the encoder of Transformer layers: the module that holds it, and its name there.

    Args:
        what: begins the error, such as the file that the model is from.
    Raises:
        UserError: a model without an encoder of Transformer layers.
    """
    encoder = getattr(backbone, "encoder", None)
    if hasattr(encoder, "sentence_encoder"):  # RoBERTa
        return encoder, "sentence_encoder"
    if isinstance(getattr(encoder, "layers", None), nn.ModuleList):
        return backbone, "encoder"
    raise UserError(
        f"{what}: {type(backbone).__name__} has no encoder of Transformer layers; give "
        "a translation model, BART or RoBERTa"
    )


def find_stack(backbone: nn.Module, stack: str, what: str = "the model") -> tuple[nn.Module, str]:
    """Find the stack that is compressed: the module that holds it, and its name there.

    Args:
        stack: encoder, decoder, or auto for the only one that fits the model.
        what: begins errors about the model, such as the file that it is from.
    Raises:
        UserError: the model has no such stack, predicts the positions that a group would show, or
            is decoder-only with an adaptive softmax.
    """
    if not is_decoder_only(backbone):
        if stack == "decoder":
            raise UserError(
                "--compression-stack decoder: the decoder of an encoder-decoder predicts every one "
                "of its positions, and a group would show it its future; give encoder"
            )
        return find_encoder(backbone, what)
    if stack == "encoder":
        raise UserError(
            f"--compression-stack encoder: {type(backbone).__name__} is decoder-only; give decoder"
        )
    check_gives_logits(backbone, what)
    return backbone, "decoder"


class BackboneWrapper(BaseFairseqModel):
    """A model that holds another one and answers fairseq as that would."""

    wraps_backbone = True  # its checkpoints are no backbones
    has_teacher = True  # whether there is a `frozen` model

    def __init__(self, cfg, backbone: nn.Module):
        super().__init__()
        self.cfg = cfg
        replace_fairseq_attention(backbone)
        self.backbone = backbone

    @contextmanager
    def frozen(self) -> Iterator[nn.Module]:
        """Inside the block, the teacher: a model whose outputs this one is to keep."""
        raise NotImplementedError

    @staticmethod
    def ratio_for(cfg) -> int:
        """The ratio k that the model's options ask for; 1 for a kind of model without any."""
        return cfg.compression_ratio

    @classmethod
    def shape_for(cls, cfg, backbone: Shape) -> Shape:
        """The shape of the model's stack from the backbone's shape and the model's options."""
        return backbone._replace(ratio=cls.ratio_for(cfg))

    @staticmethod
    def encoder_cost(shape: Shape, length: int) -> int:
        """Multiply-adds of the matrix products of the compressed stack's layers for one sentence.

        Args:
            shape: of the model's stack, with its ratio and its plugins (`shape_for`).
            length: tokens of the sentence.
        """
        raise NotImplementedError

    @property
    def encoder(self) -> Optional[nn.Module]:
        return self.backbone.encoder

    @property
    def decoder(self) -> Optional[nn.Module]:
        return getattr(self.backbone, "decoder", None)

    @property
    def supported_targets(self) -> set:
        """The targets that the language_modeling task asks for."""
        return self.backbone.supported_targets

    @property
    def classification_heads(self) -> Any:
        return getattr(self.backbone, "classification_heads", nn.ModuleDict())

    def register_classification_head(self, name: str, num_classes: int, **_) -> None:
        """Check the head that sentence_prediction asks for: it is the backbone's, trained with it.

        Raises:
            UserError: the backbone has no such head.
        """
        heads = self.classification_heads
        if name not in heads or heads[name].out_proj.out_features != num_classes:
            raise UserError(
                f"--backbone-path {self.cfg.backbone_path}: has no classification head {name} for "
                f"{num_classes} classes; fine-tune it with --criterion sentence_prediction first"
            )

    def forward(self, *args, **options):
        output, *more = self.backbone(*args, **options)
        if self.training:  # this batch may use no plugin, or not the output layer
            output = output + zero_with_gradients(self.parameters())
        return output, *more

    def get_normalized_probs(self, net_output, log_probs: bool, sample: Optional[dict] = None):
        return self.backbone.get_normalized_probs(net_output, log_probs, sample)

    def get_targets(self, sample, net_output):
        return self.backbone.get_targets(sample, net_output)

    def max_positions(self):
        return self.backbone.max_positions()

    def max_decoder_positions(self):
        return self.backbone.max_decoder_positions()
