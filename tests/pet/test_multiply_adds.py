"""Multiply-adds of the layers, against sums over their matrices written out by hand."""

import pytest

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.pet.multiply_adds import count_multiply_adds, format_saving
from pet_fairseq.pet.params import option_model

pet_fairseq.register()
WIDTHS = {"encoder": (24, 40), "decoder": (16, 56)}  # embedding, FFN
OPTIONS = [
    word
    for stack, sizes in WIDTHS.items()
    for name, value in zip(("embed-dim", "ffn-embed-dim"), sizes)
    for word in (f"--{stack}-{name}", str(value))
]


def by_hand(layers, length, heads=4, kept=4):
    """The products of every layer, token by token; each is (rows in) x (rows out)."""
    total = 0
    (e, g), (d, f) = WIDTHS["encoder"], WIDTHS["decoder"]
    inner_e, inner_d = e * kept // heads, d * kept // heads
    for _ in range(layers):
        for _ in range(length):  # a source token
            total += 3 * e * inner_e + inner_e * e + e * g + g * e
            for _ in range(length):  # that it looks at: a score and a weighted sum
                total += 2 * inner_e
        for _ in range(length):  # a target token
            total += 3 * d * inner_d + inner_d * d + d * f + f * d
            total += d * inner_d + inner_d * d + 2 * e * inner_d  # its share of the source
            for _ in range(2 * length):  # in both attentions
                total += 2 * inner_d
    return total


@pytest.mark.parametrize("arch", ["transformer", "pet_transformer"])
@pytest.mark.parametrize("length", [1, 7])
def test_equals_loops_whether_layers_share_or_not(arch, length):
    options = ["--encoder-layers", "4", "--decoder-layers", "4"]
    options += ["--encoder-attention-heads", "4", "--decoder-attention-heads", "4"]
    model = option_model(["--arch", arch, *OPTIONS, *options])
    assert count_multiply_adds(model, length) == by_hand(4, length)


def test_heads_that_were_cut_are_not_computed():
    options = ["--arch", "pet_transformer", *OPTIONS]
    options += ["--encoder-layers", "2", "--decoder-layers", "2"]
    options += ["--encoder-attention-heads", "4", "--decoder-attention-heads", "4"]
    for name in ("encoder-kept-heads", "decoder-kept-heads", "decoder-kept-cross-heads"):
        options += [f"--{name}", "1,3/2,4"]
    assert count_multiply_adds(option_model(options), 5) == by_hand(2, 5, kept=2)


def test_the_share_that_the_thesis_names():
    """80.16% (chapter 1): ours is within a tenth of a percent for sentences of IWSLT's length."""
    archs = ("pet_transformer_iwslt_de_en", "transformer_iwslt_de_en")
    ours, reference = (count_multiply_adds(option_model(["--arch", arch]), 25) for arch in archs)
    assert 100 * (1 - ours / reference) == pytest.approx(80.16, abs=0.1)
    assert format_saving(ours, reference, 25).endswith("80.09%")


@pytest.mark.parametrize(
    "length, advice", [(0, "give 1 or more"), (10**11, "give at most 1000000")]
)
def test_lengths_that_cannot_be_counted(length, advice):
    model = option_model(["--arch", "transformer", *OPTIONS])
    with pytest.raises(UserError, match=f"--length {length}: {advice}"):
        count_multiply_adds(model, length)
    assert count_multiply_adds(model, 10**6) > 10**14
