"""Model `can_transformer`: a Transformer with compressed-attention decoder layers (CAN).

Y. Li et al., "An Efficient Transformer Decoder with Compressed Sub-layers", AAAI 2021.
"""

from argparse import Namespace
from typing import Optional

from fairseq import utils
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase, TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from fairseq.modules import FairseqDropout, LayerNorm
from torch import Tensor, nn

from pet_fairseq.baselines.compressed_attention import CompressedAttention, linear
from pet_fairseq.errors import UserError, check_positive, first_given, option_of
from pet_fairseq.nn.architectures import set_defaults
from pet_fairseq.nn.attention import IncrementalState
from pet_fairseq.nn.layers import wrap_layer


class CanDecoderLayer(nn.Module):
    """A decoder layer with a single sub-layer, in the place of fairseq's decoder layer.

        Xn = LN(X);  Z = attention of Xn over source and target, values v wide
        Y = X + dropout(dropout(ReLU(Z + dropout(Xn) W1 + b1)) W2 + b2)

    d is `--decoder-embed-dim`, v `--decoder-ffn-embed-dim`. The layer has 3d^2 + 4dv + 6d + 3v
    parameters if the encoder is d wide.
    """

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        embed_dim, inner_dim = cfg.decoder.embed_dim, cfg.decoder.ffn_embed_dim
        self.layer_norm = LayerNorm(embed_dim, export=cfg.export)
        self.attention = CompressedAttention(
            embed_dim,
            inner_dim,
            cfg.encoder.embed_dim,
            cfg.decoder.attention_heads,
            dropout=cfg.attention_dropout,
        )
        self.fc1 = linear(embed_dim, inner_dim)
        self.fc2 = linear(inner_dim, embed_dim)
        self.activation_fn = utils.get_activation_fn(cfg.activation_fn)
        self.dropout_module = FairseqDropout(cfg.dropout, module_name="CanDecoderLayer")
        self.activation_dropout_module = FairseqDropout(
            float(cfg.activation_dropout or cfg.relu_dropout or 0), module_name="CanDecoderLayer"
        )

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        self_attn_mask: Optional[Tensor] = None,
        self_attn_padding_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Optional[Tensor], None]:
        """The layer's output, T x B x C like its input, and the attention weights on the source.

        The weights are H x B x T x S, or None if neither `need_attn` nor `need_head_weights`.
        """
        normed = self.layer_norm(x)
        context, source_weights = self.attention(
            normed,
            encoder_out,
            encoder_padding_mask,
            incremental_state,
            attn_mask=self_attn_mask,
            padding_mask=self_attn_padding_mask,
        )
        inner = self.activation_fn(context + self.fc1(self.dropout_module(normed)))
        output = self.fc2(self.activation_dropout_module(inner))
        wanted = need_attn or need_head_weights
        return (
            x + self.dropout_module(output),
            source_weights.transpose(0, 1) if wanted else None,
            None,
        )


class CanDecoder(TransformerDecoderBase):
    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(CanDecoderLayer(cfg), cfg)


@register_model("can_transformer")
class CanTransformerModel(TransformerModel):
    """CAN: fairseq's Transformer with decoder layers that attend to source and target at once.

    It takes fairseq's options; `--decoder-ffn-embed-dim` is the width of the values.
    """

    no_plain_form = "a plain Transformer has no compressed attention; use fairseq with --user-dir"

    @classmethod
    def build_model(cls, args, task):
        check_options(args)
        return super().build_model(args, task)

    @classmethod
    def build_decoder(cls, args, tgt_dict, embed_tokens):
        return CanDecoder(args, tgt_dict, embed_tokens)


# fairseq options that a compressed decoder layer has no place for
UNSUPPORTED = """
    no_cross_attention cross_self_attention no_decoder_final_norm quant_noise_pq base_layers
    decoder_xformers_att_config
""".split()


def check_options(args: Namespace) -> None:
    """Refuse options from which no model can be built, before anything is.

    Raises:
        UserError: names the option, its value and the way out.
    """
    if option := first_given(args, UNSUPPORTED):
        raise UserError(f"{option} is not supported by can_transformer; leave it out")
    if not args.decoder_normalize_before:
        raise UserError(
            "can_transformer normalises before its decoder layers: give --decoder-normalize-before"
        )
    for stack in ("encoder", "decoder"):
        name = f"{stack}_attention_heads"
        check_positive(**{name: getattr(args, name)})
    for width in ("encoder_embed_dim", "decoder_embed_dim", "decoder_ffn_embed_dim"):
        heads_option = f"{width.split('_')[0]}_attention_heads"
        value, heads = getattr(args, width), getattr(args, heads_option)
        if value < 1 or value % heads:
            raise UserError(
                f"{option_of(width)} {value} is not a multiple of {option_of(heads_option)} "
                f"{heads}; change one of them"
            )


@register_model_architecture("can_transformer", "can_transformer")
def can_transformer(args: Namespace) -> None:
    """12 encoder and 2 decoder layers as in the paper, d 512 and v 2048."""
    set_defaults(
        args,
        encoder_layers=12,
        decoder_layers=2,
        encoder_normalize_before=True,
        decoder_normalize_before=True,
    )
    base_architecture(args)


@register_model_architecture("can_transformer", "can_iwslt_de_en")
def can_iwslt_de_en(args: Namespace) -> None:
    """As small as PET's student: 9.66% of `transformer_iwslt_de_en`'s layer parameters."""
    set_defaults(
        args,
        encoder_embed_dim=208,
        encoder_ffn_embed_dim=416,
        encoder_layers=6,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        share_decoder_input_output_embed=True,
    )
    can_transformer(args)
