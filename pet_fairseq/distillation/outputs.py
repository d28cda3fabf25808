"""A model's output before the projection that makes it as wide as the vocabulary."""

from collections.abc import Callable
from typing import NamedTuple

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from pet_fairseq.gradients import zero_from
from pet_fairseq.hooks import forward_hooks

NO_LAYER = -1  # whose attention to the source is to be returned; fairseq's default is the last


class Outputs(NamedTuple):
    """What a model says about a batch, before the step that makes it as wide as the vocabulary."""

    features: Tensor  # B x T x C
    output_layer: Callable[[Tensor], Tensor]  # N x C -> N x V, logits up to a constant per token
    parameters: list[nn.Parameter]  # that the output layer uses


def has_output_layer(model: nn.Module) -> bool:
    """Whether a model can stop before its output projection: a Transformer without a cascade."""
    decoder = getattr(model, "decoder", None)
    return isinstance(decoder, TransformerDecoderBase) and decoder.adaptive_softmax is None


def run_model(model: nn.Module, net_input: dict) -> Outputs:
    """Run a fairseq model without its output projection where it is a Transformer.

    Other models give their log-probabilities, whose softmax is the same as that of the logits.
    """
    if has_output_layer(model):
        decoder = model.decoder
        with forward_hooks((decoder, lead_to_output_layer)):
            features, _ = model(**net_input, features_only=True, alignment_layer=NO_LAYER)
        return Outputs(features, decoder.output_layer, list(decoder.output_projection.parameters()))
    log_probs = model.get_normalized_probs(model(**net_input), log_probs=True)
    return Outputs(log_probs, lambda rows: rows, [])


def lead_to_output_layer(decoder: nn.Module, inputs, output: tuple[Tensor, dict]):
    """Forward hook: what the decoder returns leads to its output layer, which the loss uses later.

    Without it torch's DistributedDataParallel with --find-unused-parameters takes an output layer
    for unused that shares no parameters with the embedding; see `zero_from`.
    """
    features, extra = output
    return features, {**extra, "output_layer": zero_from(decoder.output_projection.parameters())}
