"""T5, mT5 and umT5: `--arch t5`.

C. Raffel et al., Exploring the limits of transfer learning with a unified text-to-text Transformer,
2020; N. Shazeer, GLU variants improve Transformer, 2020; H. W. Chung et al., UniMax, 2023.

They differ from fairseq's pre-norm Transformer in these things: norms are RMSNorms, linear maps
have no bias, scores are not divided by sqrt(D), positions are a bias of self-attention's scores by
distance, the decoder starts from the padding word, and all embeddings are one matrix.
"""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Optional

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModel,
    base_architecture,
)
from fairseq.models.transformer.transformer_config import EncDecBaseConfig
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.errors import UserError, first_given
from pet_fairseq.huggingface.marian_model import StartEmbedding
from pet_fairseq.nn.architectures import set_defaults
from pet_fairseq.nn.attention import PROJECTIONS, MultiheadAttention
from pet_fairseq.nn.layers import check_backend, wrap_layer
from pet_fairseq.nn.output_bias import add_output_bias
from pet_fairseq.nn.relative_bias import RelativeBias

# what of fairseq's options every T5 has
ALWAYS = (
    *("encoder_normalize_before", "decoder_normalize_before"),
    *("no_token_positional_embeddings", "no_scale_embedding"),
)


@dataclass
class T5Config(TransformerConfig):
    attention_head_dim: Optional[int] = field(
        default=None,
        metadata={"help": "width of a head of attention (default: the stack's width / its heads)"},
    )
    relative_buckets: int = field(
        default=32, metadata={"help": "how many distances self-attention tells apart"}
    )
    relative_max_distance: int = field(
        default=128, metadata={"help": "the distance from which on all are alike, in tokens"}
    )
    relative_bias_per_layer: bool = field(
        default=False,
        metadata={
            "help": "give each layer a bias by distance of its own, as in umT5, where otherwise "
            "all of a stack share one"
        },
    )
    gated_ffn: bool = field(
        default=False,
        metadata={
            "help": "multiply the feed-forward network's activations by a second linear map, as in "
            "T5 1.1"
        },
    )
    scale_output: bool = field(
        default=False,
        metadata={"help": "divide the output layer's input by sqrt(width), as in T5 1.0"},
    )
    rms_norm_eps: float = field(
        default=1e-6, metadata={"help": "the number that RMSNorm adds to the mean square"}
    )


def gated(activation: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """activation(gate) * up, where x is (gate, up) side by side: ... x 2F -> ... x F."""
    gate, up = x.chunk(2, dim=-1)
    return activation(gate) * up


class OutputNorm(nn.RMSNorm):
    """An RMSNorm whose result is multiplied by a number."""

    def __init__(self, width: int, eps: float, factor: float):
        super().__init__(width, eps)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.factor


def build_attention(cfg: T5Config, stack: EncDecBaseConfig, **options) -> MultiheadAttention:
    """An attention of a layer, with T5's initial values; `stack` is its part of `cfg`."""
    width = stack.embed_dim
    attention = MultiheadAttention(
        width,
        stack.attention_heads,
        head_dim=cfg.attention_head_dim,
        dropout=cfg.attention_dropout,
        bias=False,
        scaled=False,
        **options,
    )
    inner = attention.out_proj.in_features
    for name in PROJECTIONS:
        nn.init.normal_(getattr(attention, name).weight, std=width**-0.5)
    # queries begin so small that scores need no division by sqrt(D)
    nn.init.normal_(attention.q_proj.weight, std=(width * attention.head_dim) ** -0.5)
    nn.init.normal_(attention.out_proj.weight, std=inner**-0.5)
    return attention


def relative_bias(cfg: T5Config, stack: EncDecBaseConfig, both_ways: bool) -> RelativeBias:
    """The bias by distance of a stack's self-attention."""
    return RelativeBias(
        stack.attention_heads, cfg.relative_buckets, cfg.relative_max_distance, both_ways
    )


def share_relative_bias(layers: nn.ModuleList, cfg: T5Config) -> None:
    """Give all layers of a stack the first one's bias by distance, unless each has its own."""
    if cfg.relative_bias_per_layer:
        return
    for i in range(1, len(layers)):  # by index: LayerDrop leaves some out of an iteration
        layers[i].self_attn.relative = layers[0].self_attn.relative


class T5Layer(nn.Module):
    """Put before fairseq's layer of either stack: RMSNorms, and maps without bias.

    fc1 is wi in T5, or wi_0 and wi_1 in one product; fc2 is wo.
    """

    norms: tuple[str, ...]
    activation_fn: Callable[[Tensor], Tensor]

    def __init__(self, cfg: T5Config, *args):
        self.maps = 2 if cfg.gated_ffn else 1
        super().__init__(cfg, *args)
        if cfg.gated_ffn:
            self.activation_fn = partial(gated, self.activation_fn)
        for name in self.norms:
            setattr(self, name, nn.RMSNorm(self.embed_dim, cfg.rms_norm_eps))

    def build_fc1(self, input_dim, output_dim, q_noise, qn_block_size):
        return nn.Linear(input_dim, self.maps * output_dim, bias=False)

    def build_fc2(self, input_dim, output_dim, q_noise, qn_block_size):
        return nn.Linear(input_dim, output_dim, bias=False)


class T5EncoderLayer(T5Layer, TransformerEncoderLayerBase):
    norms = ("self_attn_layer_norm", "final_layer_norm")

    def build_self_attention(self, embed_dim, cfg):
        relative = relative_bias(cfg, cfg.encoder, both_ways=True)
        return build_attention(cfg, cfg.encoder, self_attention=True, relative=relative)


class T5DecoderLayer(T5Layer, TransformerDecoderLayerBase):
    norms = ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")

    def build_self_attention(self, embed_dim, cfg, add_bias_kv=False, add_zero_attn=False):
        relative = relative_bias(cfg, cfg.decoder, both_ways=False)
        return build_attention(cfg, cfg.decoder, self_attention=True, relative=relative)

    def build_encoder_attention(self, embed_dim, cfg):
        return build_attention(cfg, cfg.decoder, encoder_decoder_attention=True)


class T5Encoder(TransformerEncoderBase):
    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        share_relative_bias(self.layers, cfg)
        self.layer_norm = nn.RMSNorm(cfg.encoder.embed_dim, cfg.rms_norm_eps)

    def build_encoder_layer(self, cfg):
        return wrap_layer(T5EncoderLayer(cfg), cfg)


class T5Decoder(TransformerDecoderBase):
    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        share_relative_bias(self.layers, cfg)
        width = cfg.decoder.embed_dim
        factor = width**-0.5 if cfg.scale_output else 1.0
        self.layer_norm = OutputNorm(width, cfg.rms_norm_eps, factor)
        add_output_bias(self.output_projection)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(T5DecoderLayer(cfg, no_encoder_attn), cfg)


def check_options(args: Namespace, task) -> None:
    """Raises UserError for two vocabularies, two widths, or an option that T5 has no place for."""
    if task.source_dictionary != task.target_dictionary:
        raise UserError(
            "--arch t5: has one vocabulary for source and target, but their dictionaries differ; "
            "give fairseq-preprocess --joined-dictionary"
        )
    if args.encoder_embed_dim != args.decoder_embed_dim:
        raise UserError(
            f"--decoder-embed-dim {args.decoder_embed_dim}: --arch t5 has one matrix of embeddings "
            f"for both stacks; give {args.encoder_embed_dim}, the --encoder-embed-dim"
        )
    unsupported = ("adaptive_softmax_cutoff", "no_cross_attention", "cross_self_attention")
    if option := first_given(args, unsupported):
        raise UserError(f"{option}: --arch t5 has no such thing; leave it out")


@register_model("t5")
class T5Model(SharedStoredOnce, TransformerModel):
    """T5's encoder-decoder; --share-all-embeddings ties the output layer, too.

    It differs from T5 in its training only, where nothing is dropped behind the last norms.
    """

    sharing_options = "--share-all-embeddings and --relative-bias-per-layer"
    fits_float16 = False  # states grow beyond 65,504
    no_plain_form = (
        "fairseq's transformer has no relative positions and no RMSNorm; distil it into a student "
        "and export that"
    )

    @classmethod
    def add_args(cls, parser):
        # no defaults here: the architecture's function below fills them in
        gen_parser_from_dataclass(parser, T5Config(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args, task):
        """Build the model.

        Raises:
            UserError: as `check_options`, `RelativeBias` and `check_backend`.
        """
        set_t5_defaults(args)
        check_options(args, task)
        for name in ALWAYS:
            setattr(args, name, True)
        if args.share_decoder_input_output_embed:  # its input is the encoder's matrix
            args.share_all_embeddings = True
        model = super().build_model(args, task)
        check_backend(args, model)
        words = task.target_dictionary
        model.decoder.embed_tokens = StartEmbedding(
            model.encoder.embed_tokens, words.pad(), words.eos()
        )
        return model

    @classmethod
    def build_encoder(cls, args, src_dict, embed_tokens):
        return T5Encoder(args, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, args, tgt_dict, embed_tokens):
        return T5Decoder(args, tgt_dict, embed_tokens)


@register_model_architecture("t5", "t5")
def set_t5_defaults(args) -> None:
    """Set options that are not given to the values of T5 1.0, small."""
    set_defaults(
        args,
        dropout=0.1,
        attention_dropout=0.1,
        activation_dropout=0.1,
        **{name: T5Config.__dataclass_fields__[name].default for name in T5Config.__annotations__},
    )
    base_architecture(args)
