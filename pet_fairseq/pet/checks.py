"""Checks for options with which no `pet_transformer` can be built or trained."""

from argparse import Namespace
from functools import partial
from typing import Any

from pet_fairseq.errors import UserError, check_at_least, check_positive, first_given
from pet_fairseq.nn.architectures import is_encoder_decoder
from pet_fairseq.nn.layers import STACKS
from pet_fairseq.pet.heads import read_kept_heads
from pet_fairseq.pet.pairs import parse_pairs

# fairseq's options that PET's attention does not follow
UNSUPPORTED = ("cross_self_attention", "encoder_xformers_att_config", "decoder_xformers_att_config")


def _stack_option(args: Namespace, stack: str, name: str) -> Any:
    return getattr(args, f"{stack}_{name}")


def check_options(args: Namespace) -> None:
    """Refuse options from which no model can be built, before anything is.

    Raises:
        UserError: names the option, its value and the way out.
    """
    for stack in STACKS:
        width, heads, head_dim, layers = (
            getattr(args, f"{stack}_{name}")
            for name in ("embed_dim", "attention_heads", "head_dim", "layers")
        )
        sizes = {
            f"{stack}_embed_dim": width,
            f"{stack}_ffn_embed_dim": getattr(args, f"{stack}_ffn_embed_dim"),
            f"{stack}_attention_heads": heads,
        }
        check_positive(**sizes, **({} if head_dim is None else {f"{stack}_head_dim": head_dim}))
        check_at_least(0, **{f"{stack}_layers": layers})
        if head_dim is None and width % heads:
            raise UserError(
                f"--{stack}-embed-dim {width} is not divisible by --{stack}-attention-heads "
                f"{heads}; change one of them or set --{stack}-head-dim"
            )
        parse_pairs(getattr(args, f"{stack}_pairs"), stack, layers)
        kept = read_kept_heads(partial(_stack_option, args, stack), stack)
        if kept and args.quant_noise_pq > 0:
            raise UserError(
                f"--{stack}-kept-heads: cannot be combined with --quant-noise-pq; use one of them"
            )
    check_noise(args)
    if unsupported := first_given(args, UNSUPPORTED):
        raise UserError(f"{unsupported} is not supported by pet_transformer; leave it out")
    if not is_encoder_decoder(args.compression_reference):
        raise UserError(
            f"--compression-reference {args.compression_reference}: not an encoder-decoder "
            "Transformer that --arch knows; give a name such as transformer_iwslt_de_en"
        )


def check_noise(args: Namespace) -> None:
    """Refuse fairseq's quantisation noise in a model whose slots share parameters.

    fairseq adds scalar noise at the first use of a shared module only, and the noise of product
    quantisation at every use, on top of that of the use before.

    Raises:
        UserError: names the option and what to use instead.
    """
    shared = any(
        parse_pairs(getattr(args, f"{stack}_pairs"), stack, getattr(args, f"{stack}_layers"))
        for stack in STACKS
    )
    for kind in ("scalar", "pq"):
        noise = getattr(args, f"quant_noise_{kind}")
        if noise > 0 and shared:
            raise UserError(
                f"--quant-noise-{kind} {noise}: fairseq treats the uses of a shared layer "
                "differently; use --optimizer quantised_adam, or share nothing: --encoder-pairs "
                "none --decoder-pairs none"
            )
