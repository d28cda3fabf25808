"""A model's output before its output projection, which would make it as wide as the vocabulary."""

from collections.abc import Callable
from typing import NamedTuple

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.gradients import zero_with_gradients
from pet_fairseq.nn.hooks import forward_hooks, given_arguments

NO_LAYER = -1  # an `alignment_layer` for which fairseq returns no attention weights


class Outputs(NamedTuple):
    """A model's features of a batch, and the output layer that turns them into logits."""

    features: Tensor  # B x T x C
    output_layer: Callable[[Tensor], Tensor]  # N x C -> N x V, logits up to a constant per token
    parameters: list[nn.Parameter]  # that the output layer uses


def has_output_layer(model: nn.Module) -> bool:
    """Whether a model can stop before its output projection.

    Transformers can, except with an adaptive softmax, which has no single projection.
    """
    decoder = getattr(model, "decoder", None)
    return isinstance(decoder, TransformerDecoderBase) and decoder.adaptive_softmax is None


def run_model(model: nn.Module, net_input: dict) -> Outputs:
    """Run a fairseq model without its output projection where it is a Transformer.

    The decoder is told so itself, as not every Transformer's `forward` (`transformer_align`'s, for
    one) hands it such options. Other models give their log-probabilities as features: their softmax
    is that of the logits.
    """
    if has_output_layer(model):
        decoder = model.decoder
        stop = given_arguments(
            decoder,
            features_only=True,
            alignment_layer=NO_LAYER,
            full_context_alignment=False,  # transformer_align's second run, for alignments alone
        )
        with stop, forward_hooks((decoder, depend_on_output_layer)):
            features, _ = model(**net_input)
        return Outputs(features, decoder.output_layer, list(decoder.output_projection.parameters()))
    log_probs = model.get_normalized_probs(model(**net_input), log_probs=True)
    return Outputs(log_probs, lambda rows: rows, [])


def run_student(model: nn.Module, net_input: dict) -> Outputs:
    """`run_model` for a model that is trained.

    Raises:
        UserError: an adaptive softmax, through which fairseq's log-probabilities have no gradients.
    """
    decoder = getattr(model, "decoder", None)
    if getattr(decoder, "adaptive_softmax", None) is not None:
        raise UserError(
            "--adaptive-softmax-cutoff: a student with an adaptive softmax cannot learn from a "
            "teacher; leave the option out"
        )
    return run_model(model, net_input)


def depend_on_output_layer(decoder: nn.Module, inputs, output: tuple[Tensor, dict]):
    """Forward hook: let the decoder's output depend on its output layer, which the loss uses later.

    Otherwise torch's DistributedDataParallel with --find-unused-parameters would take the output
    layer for unused if it shares no parameters with the embedding; see `zero_with_gradients`.
    """
    features, extra = output
    return features, {
        **extra,
        "output_layer": zero_with_gradients(decoder.output_projection.parameters()),
    }
