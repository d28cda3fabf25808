"""Sizes of fairseq's own `transformer` with many encoder and few decoder layers.

J. Kasai et al., "Deep Encoder, Shallow Decoder", ICLR 2021: a translation is decoded word by word,
so a layer costs much time in the decoder and little in the encoder. The widths below make each size
about as small as PET's student, 9.5% of `transformer_iwslt_de_en`'s layer parameters.
"""

from argparse import Namespace

from fairseq.models import register_model_architecture
from fairseq.models.transformer.transformer_legacy import base_architecture

from pet_fairseq.nn.architectures import set_defaults


def deep_shallow(args: Namespace, encoder_layers: int, decoder_layers: int, width: int) -> None:
    """Set what all sizes share: pre-norm, 4 heads, FFN of 2 x width, tied decoder embeddings."""
    set_defaults(
        args,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_embed_dim=width,
        encoder_ffn_embed_dim=2 * width,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_normalize_before=True,
        decoder_normalize_before=True,
        share_decoder_input_output_embed=True,
    )
    base_architecture(args)


@register_model_architecture("transformer", "deep_shallow_12_1")
def deep_shallow_12_1(args: Namespace) -> None:
    """12 + 1 layers: 9.74% of the layer parameters of `transformer_iwslt_de_en`."""
    deep_shallow(args, 12, 1, 168)


@register_model_architecture("transformer", "deep_shallow_6_1")
def deep_shallow_6_1(args: Namespace) -> None:
    """6 + 1 layers: 9.60% of the layer parameters of `transformer_iwslt_de_en`."""
    deep_shallow(args, 6, 1, 224)


@register_model_architecture("transformer", "deep_shallow_6_2")
def deep_shallow_6_2(args: Namespace) -> None:
    """6 + 2 layers: 9.19% of the layer parameters of `transformer_iwslt_de_en`."""
    deep_shallow(args, 6, 2, 200)
