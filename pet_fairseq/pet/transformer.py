"""Model `pet_transformer`: fairseq's Transformer with replaceable pairs (PET, section 3.1)."""

import logging
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModel,
)
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from fairseq.models.transformer.transformer_legacy import base_architecture
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import nn

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.huggingface.marian_model import MarianStudent, set_marian_defaults
from pet_fairseq.nn.architectures import set_defaults
from pet_fairseq.nn.layers import attentions_of, check_backend, wrap_layer
from pet_fairseq.nn.parameter_counts import architecture_counts, compression_rate, count_parameters
from pet_fairseq.pet.attention import PetAttention
from pet_fairseq.pet.checks import check_options
from pet_fairseq.pet.heads import cut_heads, read_kept_heads
from pet_fairseq.pet.pairs import share

logger = logging.getLogger(__name__)

HEAD_DIM_HELP = "width of one attention head (default: embedding width / heads)"
KEPT_HEADS_HELP = (
    "which heads of the {} are kept, layer by layer: '1,4/2,3/1,2/1,4' keeps two of --{}-attention-"
    "heads in each of four layers (default: all); pet-fairseq sample-heads chooses them"
)


@dataclass
class PetEncoderConfig(EncDecBaseConfig):
    pairs: str = field(
        default="pet",
        metadata={
            "help": "which slots of the encoder share parameters: a preset (pet, layers, none) or "
            "a list such as 'L1=L3 Q1=K3', in which the right slot uses the left one's parameters"
        },
    )
    head_dim: Optional[int] = field(default=None, metadata={"help": HEAD_DIM_HELP})
    kept_heads: Optional[str] = field(
        default=None, metadata={"help": KEPT_HEADS_HELP.format("encoder", "encoder")}
    )


@dataclass
class PetDecoderConfig(DecoderConfig):
    pairs: str = field(
        default="pet",
        metadata={
            "help": "which slots of the decoder share parameters: a preset (pet, layers, qk, "
            "qk_crosswise, kv, none) or a list such as 'L1=L3 Qself=Qenc'"
        },
    )
    head_dim: Optional[int] = field(default=None, metadata={"help": HEAD_DIM_HELP})
    kept_heads: Optional[str] = field(
        default=None,
        metadata={"help": KEPT_HEADS_HELP.format("decoder's self-attention", "decoder")},
    )
    kept_cross_heads: Optional[str] = field(
        default=None,
        metadata={"help": KEPT_HEADS_HELP.format("decoder's encoder attention", "decoder")},
    )


@dataclass
class PetTransformerConfig(TransformerConfig):
    """Options of `--arch pet_transformer`; fairseq flattens the nested ones: --encoder-pairs."""

    encoder: PetEncoderConfig = field(default_factory=PetEncoderConfig)
    decoder: PetDecoderConfig = field(default_factory=PetDecoderConfig)
    compression_reference: str = field(
        default="transformer_iwslt_de_en",
        metadata={"help": "architecture whose layer parameters are 100%% for the rate in the log"},
    )


def build_self_attention(embed_dim: int, stack: EncDecBaseConfig, cfg: TransformerConfig):
    """The self-attention of a layer; `stack` is the encoder's or the decoder's part of `cfg`."""
    return PetAttention(
        embed_dim,
        stack.attention_heads,
        head_dim=stack.head_dim,
        dropout=cfg.attention_dropout,
        self_attention=True,
        q_noise=cfg.quant_noise.pq,
        qn_block_size=cfg.quant_noise.pq_block_size,
    )


class PetEncoderLayer(TransformerEncoderLayerBase):
    def build_self_attention(self, embed_dim, cfg):
        return build_self_attention(embed_dim, cfg.encoder, cfg)


class PetDecoderLayer(TransformerDecoderLayerBase):
    def build_self_attention(self, embed_dim, cfg, add_bias_kv=False, add_zero_attn=False):
        return build_self_attention(embed_dim, cfg.decoder, cfg)

    def build_encoder_attention(self, embed_dim, cfg):
        return PetAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            head_dim=cfg.decoder.head_dim,
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
            q_noise=cfg.quant_noise.pq,
            qn_block_size=cfg.quant_noise.pq_block_size,
        )


def keep_heads(layers: nn.ModuleList, cfg: EncDecBaseConfig, stack: str) -> None:
    """Cut the attention heads that the stack's options do not keep."""
    kept = read_kept_heads(lambda name: getattr(cfg, name), stack)
    if kept:
        cut_heads(attentions_of(layers), kept)


class PetEncoder(TransformerEncoderBase):
    def __init__(self, cfg, dictionary, embed_tokens, return_fc=False):
        super().__init__(cfg, dictionary, embed_tokens, return_fc=return_fc)
        share(self.layers, cfg.encoder.pairs, "encoder")
        keep_heads(self.layers, cfg.encoder, "encoder")

    def build_encoder_layer(self, cfg):
        return wrap_layer(PetEncoderLayer(cfg, return_fc=self.return_fc), cfg)


class PetDecoder(TransformerDecoderBase):
    def __init__(self, cfg, dictionary, embed_tokens, no_encoder_attn=False):
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=no_encoder_attn)
        share(self.layers, cfg.decoder.pairs, "decoder")
        keep_heads(self.layers, cfg.decoder, "decoder")

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(PetDecoderLayer(cfg, no_encoder_attn), cfg)


@register_model("pet_transformer")
class PetTransformerModel(SharedStoredOnce, TransformerModel):
    """Encoder-decoder Transformer in which slots of the stacks share parameters."""

    sharing_options = "--encoder-pairs and --decoder-pairs"

    @classmethod
    def add_args(cls, parser):
        # no defaults here: the architecture functions below fill them in
        gen_parser_from_dataclass(
            parser, PetTransformerConfig(), delete_default=True, with_prefix=""
        )

    @classmethod
    def build_model(cls, args, task):
        check_options(args)
        model = super().build_model(args, task)
        check_backend(args, model)
        log_compression(model, args.compression_reference)
        return model

    @classmethod
    def build_encoder(cls, args, src_dict, embed_tokens):
        return PetEncoder(args, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, args, tgt_dict, embed_tokens):
        return PetDecoder(args, tgt_dict, embed_tokens, no_encoder_attn=args.no_cross_attention)


@register_model("pet_marian_student")
class PetMarianStudent(MarianStudent, PetTransformerModel):
    """A `marian_student` in which slots of the stacks share parameters."""

    sharing_options = f"{MarianStudent.sharing_options}, {PetTransformerModel.sharing_options}"


def log_compression(model: nn.Module, reference: str) -> None:
    """Log the compression rate of a new model; `reference` is an architecture's name."""
    if next(model.parameters()).is_meta:  # built only to be counted
        return
    counts = count_parameters(model)
    rate = compression_rate(counts, architecture_counts(reference))
    logger.info(
        f"layer parameters: {counts.layers:,} stored, {counts.unshared_layers:,} without sharing; "
        f"compression rate {rate:.2f}% of {reference}"
    )


@register_model_architecture("pet_transformer", "pet_transformer")
def pet_transformer(args: Namespace) -> None:
    """fairseq's `transformer` with the `pet` pairs."""
    set_defaults(
        args,
        encoder_pairs=PetEncoderConfig.pairs,
        encoder_head_dim=PetEncoderConfig.head_dim,
        encoder_kept_heads=PetEncoderConfig.kept_heads,
        decoder_pairs=PetDecoderConfig.pairs,
        decoder_head_dim=PetDecoderConfig.head_dim,
        decoder_kept_heads=PetDecoderConfig.kept_heads,
        decoder_kept_cross_heads=PetDecoderConfig.kept_cross_heads,
        compression_reference=PetTransformerConfig.compression_reference,
    )
    base_architecture(args)


@register_model_architecture("pet_transformer", "pet_transformer_iwslt_de_en")
def pet_transformer_iwslt_de_en(args: Namespace) -> None:
    """The thesis's student: 9.5% of `transformer_iwslt_de_en`'s layer parameters (Table 4).

    The thesis gives no widths; these are those of its released code.
    """
    set_defaults(
        args,
        encoder_embed_dim=320,
        encoder_ffn_embed_dim=640,
        encoder_layers=4,
        encoder_attention_heads=4,
        decoder_embed_dim=240,
        decoder_ffn_embed_dim=480,
        decoder_layers=4,
        decoder_attention_heads=4,
        share_decoder_input_output_embed=True,
    )
    pet_transformer(args)


@register_model_architecture("pet_transformer", "pet_transformer_tiny")
def pet_transformer_tiny(args: Namespace) -> None:
    """A size for tests and the demo, trained in minutes on two CPU cores."""
    set_defaults(
        args,
        encoder_embed_dim=64,
        encoder_ffn_embed_dim=128,
        encoder_layers=4,
        encoder_attention_heads=4,
        decoder_embed_dim=64,
        decoder_ffn_embed_dim=128,
        decoder_layers=4,
        decoder_attention_heads=4,
        share_decoder_input_output_embed=True,
    )
    pet_transformer(args)


@register_model_architecture("pet_marian_student", "pet_marian_student")
def pet_marian_student(args: Namespace) -> None:
    """`marian_student` with the `pet` pairs."""
    set_marian_defaults(args)
    pet_transformer(args)
