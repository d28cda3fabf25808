"""Marian's translation models, such as OPUS-MT: `--arch marian`.

They differ from fairseq's Transformer in three things: the activation is swish, the logits have a
bias, and the decoder starts from the padding word, where fairseq gives it </s>. Sinusoidal
positions are stored as a table, because the two libraries order sines and cosines differently.

`--arch marian_student` is such a model that Marian's own engine can hold after it was trained here.
"""

import torch
import torch.nn.functional as F
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.modules import LearnedPositionalEmbedding
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.multilingual.models import Bilingual
from pet_fairseq.nn.architectures import set_defaults
from pet_fairseq.nn.output_bias import add_output_bias

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU"}  # fairseq's names and CTranslate2's


class StartEmbedding(nn.Embedding):
    """An embedding in which `</s>`, from which fairseq's decoder starts, has another word's vector.

    Args:
        words: the embedding whose matrix it shares.
        start: the index of the other word. end: the index of `</s>`.
    """

    def __init__(self, words: nn.Embedding, start: int, end: int):
        rows, width = words.weight.shape
        super().__init__(rows, width, words.padding_idx, device="meta")
        self.weight = words.weight
        self.start = start
        self.end = end

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens.masked_fill(tokens.eq(self.end), self.start))


@register_model("marian")
class MarianModel(SharedStoredOnce, TransformerModel):
    """fairseq's encoder-decoder with the three things that Marian does differently."""

    sharing_options = "--share-all-embeddings and --share-decoder-input-output-embed"
    no_plain_form = (
        "it has an output bias and, as a rule, swish, which fairseq's transformer lacks; give --to "
        "ctranslate2, huggingface or onnx, or distil it into a student and export that"
    )

    @classmethod
    def add_args(cls, parser):
        super().add_args(parser)
        parser.add_argument(
            "--swish",
            action="store_true",
            help="use swish, x times the sigmoid of x, in place of --activation-fn",
        )

    @staticmethod
    def ctranslate2_form(args) -> tuple[str, bool]:
        """The activation in CTranslate2, and that the decoder starts from the padding word."""
        return ("SWISH" if args.swish else ACTIVATIONS[args.activation_fn]), True

    @classmethod
    def build_model(cls, args, task):
        set_marian_defaults(args)
        model = super().build_model(args, task)
        if args.swish:
            use_swish(model)
        words, decoder = task.target_dictionary, model.decoder
        decoder.embed_tokens = StartEmbedding(decoder.embed_tokens, words.pad(), words.eos())
        add_output_bias(decoder.output_projection)
        return model


@register_model("marian_student")
class MarianStudent(MarianModel):
    """A Marian model whose training leaves alone what Marian's engine does not read from a file.

    That are the vectors of positions, which it computes, and the zeros from which it starts: the
    vector of the padding word, which as an output word would be trained.
    """

    no_plain_form = (
        "its positions and its first word are Marian's, which fairseq's transformer lacks; give "
        "--to marian, ctranslate2, huggingface or onnx"
    )

    @classmethod
    def build_model(cls, args, task):
        model = super().build_model(args, task)
        for stack in (model.encoder, model.decoder):
            if stack.embed_positions is not None:
                fix_positions(stack.embed_positions)
        start = ZeroLogit(task.target_dictionary.pad())
        model.decoder.output_projection.register_forward_hook(start)
        return model


@register_model("bilingual_marian")
class BilingualMarian(Bilingual, MarianModel):
    """A Marian model of several languages, which puts the target's token in front of sentences."""


def engine_positions(positions: int, width: int) -> Tensor:
    """The vectors of positions that Marian's engine computes, positions x width.

    All sines, then all cosines; pair i has the wavelength 2 pi 10000^(i / (width / 2 - 1)). What
    transformers has for Marian (`marian.sinusoids`) comes near, but is not the same.
    Source: sinusoidalPositionEmbeddings in Marian's node_initializers.cpp.
    """
    pairs = width // 2
    exponents = torch.arange(pairs, dtype=torch.float64) / max(1, pairs - 1)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] / 10000.0**exponents
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def fix_positions(table: LearnedPositionalEmbedding) -> None:
    """Put the engine's vectors into a table of positions, for good.

    They are not trained, and not loaded either: a training in half precision saves them rounded.
    """
    put_positions(table)
    table.weight.requires_grad_(False)
    table.register_load_state_dict_post_hook(put_positions)


@torch.no_grad()
def put_positions(table: LearnedPositionalEmbedding, _incompatible_keys: object = None) -> None:
    first = table.padding_idx + 1  # as fairseq numbers positions
    rows, width = table.weight.shape
    table.weight[first:] = engine_positions(rows - first, width)


class ZeroLogit:
    """Forward hook of an output projection: the logit of a word whose row is 0, without a gradient.

    Else training would move the row.
    """

    only_gradients = True  # decoding may leave it out

    def __init__(self, word: int):
        self.word = word

    def __call__(self, _projection: nn.Linear, _inputs, logits: Tensor) -> None:
        if torch.is_grad_enabled():
            logits.select(-1, self.word).zero_()


def use_swish(model: nn.Module) -> None:
    """Give all layers the activation that fairseq's `get_activation_fn` lacks."""
    for module in model.modules():
        if isinstance(module, (TransformerEncoderLayerBase, TransformerDecoderLayerBase)):
            module.activation_fn = F.silu


@register_model_architecture("marian", "marian")
def set_marian_defaults(args) -> None:
    """Set options that are not given to the values of OPUS-MT's models."""
    set_defaults(args, swish=False, encoder_learned_pos=True, decoder_learned_pos=True)
    base_architecture(args)


for name in ("marian_student", "bilingual_marian"):
    register_model_architecture(name, name)(set_marian_defaults)
