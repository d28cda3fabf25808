"""The plain form of a PET model computes what the model does."""

import copy
import random
from argparse import Namespace

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.export.fairseq import check_plain_form, plain_model
from tests.decoding.setups import random_sample
from tests.helpers import task
from tests.translation import make_model

CASES = {
    "preset": {},
    "fewer pairs": {"encoder_pairs": "L1=L2 Q3=K4", "decoder_pairs": "kv"},
    "other widths": {"decoder_embed_dim": 18, "decoder_ffn_embed_dim": 10},
    "one embedding": {"share_all_embeddings": True, "encoder_normalize_before": True},
    "sampled heads": {
        **{"encoder_attention_heads": 4, "decoder_attention_heads": 5},
        **{"encoder_head_dim": 6, "decoder_head_dim": 4},
        **{
            "encoder_kept_heads": "1,3/2,4/1,2/3,4",
            "decoder_kept_heads": "1,2,5/1,3,4/2,3,5/1,2,3",
        },
        "decoder_kept_cross_heads": "3,4,5/1,2,3/1,3,5/2,4,5",
    },
    "plain already": {"arch": "transformer", "decoder_learned_pos": True},
}


def build_with_args(**options):
    model, args = make_model(task(), options.pop("arch", "pet_transformer"), **options)
    args._name = args.arch
    return model.double().eval(), args


@pytest.mark.parametrize("case", CASES)
def test_the_same_logits(case):
    sizes = {}
    for stack in ("encoder", "decoder"):
        sizes |= {f"{stack}_embed_dim": 12, f"{stack}_ffn_embed_dim": 20, f"{stack}_layers": 4}
        sizes[f"{stack}_attention_heads"] = 3
    model, args = build_with_args(**{**sizes, **CASES[case]})
    sample = random_sample(random.Random(1), 16)["net_input"]
    sample["prev_output_tokens"] = torch.randint(4, 20, (len(sample["src_tokens"]), 7))
    expected = model(**sample)[0]
    plain, plain_args = plain_model(copy.deepcopy(model), args, task())
    assert type(plain).__module__.startswith("fairseq.")
    assert plain_args.arch == "transformer"
    assert not any("pairs" in name or "kept" in name for name in vars(plain_args))
    torch.testing.assert_close(plain.double()(**sample)[0], expected)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"decoder_head_dim": 8}, "decoder layer 1 self_attn: 3 heads of 8 are 24 wide, .* be 12"),
        (
            {
                **{"encoder_attention_heads": 4, "encoder_head_dim": 4},
                "encoder_kept_heads": "1,2/1,2,3/1,2,3/1,2,3",
            },
            "encoder layer 1 self_attn: 2 heads of 4 are 8 wide",
        ),
    ],
)
def test_heads_that_do_not_fit(options, message):
    sizes = {"encoder_attention_heads": 3, "decoder_attention_heads": 3} | options
    for stack in ("encoder", "decoder"):
        sizes |= {f"{stack}_embed_dim": 12, f"{stack}_ffn_embed_dim": 20, f"{stack}_layers": 4}
    with pytest.raises(UserError, match=message):
        plain_model(*build_with_args(**sizes), task())


@pytest.mark.parametrize(
    "arch, message",
    [
        ("variator", "holds variator: plugins need this package; export their --backbone-path"),
        ("selfcp", "holds selfcp: memory needs this package"),
        ("can_iwslt_de_en", "holds can_transformer: a plain Transformer has no compressed"),
        ("roberta_base", "holds roberta, not a translation model"),
        (
            "fconv_iwslt_de_en",
            "holds fconv, which has no form as fairseq's transformer; fairseq itself reads the "
            "checkpoint as it is, and pet-fairseq compress makes a student of it",
        ),
        ("token_pruning", "holds token_pruning, not a translation model"),
        ("unheard_of", "holds unheard_of, not a translation model"),
    ],
)
def test_models_without_a_plain_form(arch, message):
    with pytest.raises(UserError, match=f"CHECKPOINT x.pt: {message}"):
        check_plain_form(Namespace(arch=arch), "x.pt")


@pytest.mark.parametrize("arch", ["transformer", "pet_transformer_tiny", "deep_shallow_6_1"])
def test_models_with_a_plain_form(arch):
    check_plain_form(Namespace(arch=arch), "x.pt")
