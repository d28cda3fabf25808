"""`--arch bilingual_transformer` and `bilingual_bart`: a multilingual model of one language pair.

They read plain sentences, as any bilingual model does, and put the language tokens around them
themselves. So whatever runs or asks a bilingual model runs and asks them.
"""

from typing import Optional

from fairseq.models import register_model, register_model_architecture
from fairseq.models.bart import BARTModel
from fairseq.models.bart.model import bart_large_architecture, mbart_large_architecture
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.models.transformer.transformer_decoder import TransformerDecoderBase
from fairseq.models.transformer.transformer_encoder import TransformerEncoderBase
from torch import Tensor

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.multilingual.language_tokens import (
    LanguageTokens,
    add_language_options,
    find_words,
    replace_first_token,
    wrap_source,
)


class EncoderWithLanguageTokens(TransformerEncoderBase):
    """fairseq's encoder, which puts words around every sentence."""

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        words = LanguageTokens.of_options(cfg)
        prefix = find_words(words.source_prefix, dictionary, "--source-prefix")
        end = find_words(words.source_end, dictionary, "--source-end")
        self.register_buffer("prefix", prefix, persistent=False)
        self.register_buffer("end", end, persistent=False)

    @property
    def added(self) -> int:
        """How many words a sentence gets."""
        return len(self.prefix) + len(self.end) - 1

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **options):
        tokens = wrap_source(src_tokens, self.prefix, self.end, self.padding_idx)
        lengths = None if src_lengths is None else src_lengths + self.added
        return super().forward(tokens, lengths, **options)

    def max_positions(self) -> int:
        return super().max_positions() - self.added


class DecoderWithLanguageTokens(TransformerDecoderBase):
    """fairseq's decoder, which starts from words of its own; it answers from the last one on."""

    def __init__(self, cfg, dictionary, embed_tokens, no_encoder_attn=False):
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=no_encoder_attn)
        words = LanguageTokens.of_options(cfg).decoder_start
        start = find_words(words, dictionary, "--decoder-start")
        self.register_buffer("start", start, persistent=False)

    @property
    def added(self) -> int:
        """How many positions come before the first that is asked for."""
        return len(self.start) - 1

    def forward(
        self, prev_output_tokens: Tensor, encoder_out=None, incremental_state=None, **options
    ):
        tokens = replace_first_token(prev_output_tokens, self.start)
        if incremental_state is None:
            x, extra = super().forward(tokens, encoder_out, **options)
            return x[:, self.added :], extra
        if prev_output_tokens.size(1) == 1:
            for length in range(1, len(self.start)):
                super().forward(tokens[:, :length], encoder_out, incremental_state, **options)
        return super().forward(tokens, encoder_out, incremental_state, **options)

    def max_positions(self) -> int:
        return super().max_positions() - self.added


class Bilingual(SharedStoredOnce):
    """For models of fairseq's Transformer: the options, and stacks that read the words in them."""

    sharing_options = "--share-all-embeddings and --share-decoder-input-output-embed"
    no_plain_form = (
        "it puts language tokens around sentences, which fairseq's transformer does not; give --to "
        "ctranslate2 or --to onnx, or distil it into a student and export that"
    )

    @classmethod
    def add_args(cls, parser):
        super().add_args(parser)
        add_language_options(parser)

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return EncoderWithLanguageTokens(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        no_attention = cfg.no_cross_attention
        return DecoderWithLanguageTokens(cfg, tgt_dict, embed_tokens, no_encoder_attn=no_attention)


@register_model("bilingual_transformer")
class BilingualTransformer(Bilingual, TransformerModel):
    """fairseq's `transformer` for one pair of its languages."""


@register_model("bilingual_bart")
class BilingualBart(Bilingual, BARTModel):
    """fairseq's `bart`, such as mBART fine-tuned for translation, for one pair of its languages."""

    @staticmethod
    def add_args(parser):
        BARTModel.add_args(parser)
        add_language_options(parser)


register_model_architecture("bilingual_transformer", "bilingual_transformer")(base_architecture)
register_model_architecture("bilingual_bart", "bilingual_bart")(bart_large_architecture)
register_model_architecture("bilingual_bart", "bilingual_mbart")(mbart_large_architecture)
