"""Model `narrow_ffn`: a baseline that Variator is compared with (its section 4.3, "Distillation").

Every feed-forward network, in encoder and decoder, keeps 1/k of its inner units; all weights are
then trained with distillation from the model as it was.
"""

from fairseq.models import register_model
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig, FineTunedModel
from pet_fairseq.variator.costs import Shape, plain_layer_cost
from pet_fairseq.variator.feed_forward import inner_width, neuron_rows


def strongest_units(into: Tensor, out_of: Tensor, number: int) -> Tensor:
    """The inner units with the largest |w_in| |w_out|, in their old order: indices.

    Args:
        into: F x C, weight of the first map; 2 F x C with a gate, whose norm is a factor more.
        out_of: C x F, weight of the second.
    """
    strength = into.norm(dim=1).view(-1, out_of.size(1)).prod(dim=0) * out_of.norm(dim=0)
    return strength.topk(number).indices.sort().values


def narrow_ffn(layer: nn.Module, ratio: int) -> None:
    """Leave one of `ratio` inner units, rounded up, in one of fairseq's layers."""
    first, last = layer.fc1, layer.fc2
    kept = strongest_units(first.weight, last.weight, -(-inner_width(layer) // ratio))
    rows = neuron_rows(layer, kept)
    first.weight = nn.Parameter(first.weight.detach()[rows].clone())
    if first.bias is not None:
        first.bias = nn.Parameter(first.bias.detach()[rows].clone())
    last.weight = nn.Parameter(last.weight.detach()[:, kept].clone())
    first.out_features, last.in_features = len(rows), len(kept)
    norm = getattr(layer, "ffn_layernorm", None)  # decoders with --scale-fc
    if norm is not None:
        norm.weight = nn.Parameter(norm.weight.detach()[kept].clone())
        norm.bias = nn.Parameter(norm.bias.detach()[kept].clone())
        norm.normalized_shape = (len(kept),)


@register_model("narrow_ffn", dataclass=FineTunedConfig)
class NarrowModel(FineTunedModel):
    """A model with narrow feed-forward networks."""

    @staticmethod
    def encoder_cost(shape: Shape, length: int) -> int:
        """The layers' multiply-adds when each FFN keeps one of k inner units."""
        narrow = shape._replace(ffn_embed_dim=-(-shape.ffn_embed_dim // shape.ratio))
        return shape.layers * plain_layer_cost(narrow, length)

    def reduce_computation(self, backbone: nn.Module) -> None:
        """Raises UserError for layers that share their weights."""
        layers = [m for m in backbone.modules() if isinstance(getattr(m, "fc1", None), nn.Linear)]
        if len({id(layer.fc1.weight) for layer in layers}) < len(layers):
            raise UserError(
                f"--backbone-path {self.cfg.backbone_path}: its layers share weights, so "
                "narrow_ffn cannot cut them; give a model whose layers share no weights"
            )
        for layer in layers:
            narrow_ffn(layer, self.cfg.compression_ratio)
