"""Models that CTranslate2's converter would change, or crash on."""

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.export.ctranslate2 import check_for_ctranslate2
from tests.helpers import task
from tests.translation import make_model

PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def check(**options):
    sizes = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    for stack in ("encoder", "decoder"):
        sizes |= {f"{stack}_embed_dim": 8, f"{stack}_ffn_embed_dim": 8, f"{stack}_layers": 1}
    check_for_ctranslate2(make_model(task(), "transformer", **sizes, **options)[1])


@pytest.mark.parametrize(
    "options, named",
    [
        ({"activation_fn": "tanh"}, "--activation-fn tanh"),
        ({"activation_fn": "relu_squared"}, "--activation-fn relu_squared"),
        ({"no_token_positional_embeddings": True}, "--no-token-positional-embeddings"),
        ({"no_decoder_final_norm": True, **PRE_NORM}, "--no-decoder-final-norm"),
        ({"cross_self_attention": True}, "--cross-self-attention"),
        ({"no_cross_attention": True}, "--no-cross-attention"),
        ({"quant_noise_pq": 0.1}, "--quant-noise-pq"),
        (
            {"adaptive_softmax_cutoff": "6,9", "adaptive_softmax_dropout": 0.0},
            "--adaptive-softmax-cutoff",
        ),
    ],
)
def test_what_it_cannot_hold_is_named(options, named):
    with pytest.raises(UserError, match=f"--to ctranslate2: .* {named}; use --to fairseq"):
        check(**options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        PRE_NORM,
        {"no_decoder_final_norm": True},  # layers that normalise after themselves have none
        {"activation_fn": "gelu"},
        {"activation_fn": "gelu_accurate"},
        {"activation_fn": "gelu_fast"},
        {"layernorm_embedding": True, "encoder_learned_pos": True},
    ],
)
def test_what_it_can_hold(options):
    check(**options)
