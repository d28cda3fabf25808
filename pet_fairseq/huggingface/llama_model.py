"""Llama-type language models: `--arch llama`.

They have an RMSNorm before attention and feed-forward network, rotary positions, grouped-query
attention and SwiGLU (H. Touvron et al., LLaMA, 2023). Everything around the layers is fairseq's:
caches, beam search, fairseq-eval-lm.
"""

from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from fairseq.models.transformer_lm import TransformerLanguageModel
from torch import nn

from pet_fairseq.checkpoints.tied_tensors import SharedStoredOnce
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.llama_layer import LlamaLayer
from pet_fairseq.huggingface.llama_options import LlamaConfig
from pet_fairseq.huggingface.rotary import RotaryPositions, angular_frequencies, parse_scaling
from pet_fairseq.nn.layers import wrap_layer
from pet_fairseq.nn.output_bias import add_output_bias


def head_width(args) -> int:
    return args.decoder_head_dim or args.decoder_embed_dim // args.decoder_attention_heads


def check_options(args) -> None:
    """Raises UserError for widths and numbers of heads, and other options, that cannot be."""
    heads, groups = args.decoder_attention_heads, args.decoder_key_value_heads
    if groups and (groups < 0 or heads % groups):
        raise UserError(
            f"--decoder-key-value-heads {groups}: give a divisor of --decoder-attention-heads "
            f"{heads}"
        )
    width = head_width(args)
    if width < 2 or width % 2:
        raise UserError(
            f"--decoder-head-dim {width}: rotary positions need heads of an even width; give such "
            "a one, or else a --decoder-embed-dim of an even multiple of --decoder-attention-heads"
        )
    if args.adaptive_softmax_cutoff:
        raise UserError(
            f"--adaptive-softmax-cutoff {args.adaptive_softmax_cutoff}: --arch llama has no "
            "adaptive softmax; leave it out"
        )


class LlamaDecoder(TransformerDecoderBase):
    """fairseq's decoder without position embeddings, with Llama's layers and norms."""

    def __init__(self, options, dictionary, embed_tokens):
        cfg = TransformerConfig.from_namespace(options)
        cfg.decoder.normalize_before = True
        cfg.no_token_positional_embeddings = True
        cfg.no_scale_embedding = True
        cfg.decoder.output_dim = cfg.decoder.input_dim = cfg.decoder.embed_dim
        self.options = options
        width = head_width(options)
        scaling = parse_scaling(options.rope_scaling, width)
        self.rotary = RotaryPositions(angular_frequencies(width, options.rope_theta, scaling))
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=True)
        self.layer_norm = nn.RMSNorm(cfg.decoder.embed_dim, options.rms_norm_eps)
        add_output_bias(self.output_projection)

    def build_decoder_layer(self, cfg, no_encoder_attn=True):
        return wrap_layer(LlamaLayer(cfg, self.options, self.rotary), cfg)


@register_model("llama", dataclass=LlamaConfig)
class LlamaModel(SharedStoredOnce, TransformerLanguageModel):
    """A decoder-only language model with Llama's layers."""

    sharing_options = "--share-decoder-input-output-embed"

    @classmethod
    def build_model(cls, args, task):
        """Build the model.

        Raises:
            UserError: as `check_options`, or --rope-scaling is not usable.
        """
        check_options(args)
        if args.max_target_positions is None:
            args.max_target_positions = args.tokens_per_sample
        dictionary = task.source_dictionary
        embed_tokens = cls.build_embedding(args, dictionary, args.decoder_embed_dim)
        return cls(LlamaDecoder(args, task.target_dictionary, embed_tokens))
