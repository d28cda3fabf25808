"""Factorised embeddings: against a Transformer with their products; sharing, sizes, options."""

from argparse import Namespace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from pet_fairseq.baselines.factorised import FactorisedEmbedding, factorised_transformer
from pet_fairseq.errors import UserError
from pet_fairseq.parameters import architecture_counts, count_parameters
from tests.helpers import batch, build, dictionary

RANK, WIDTH = 5, 12
WORDS = len(dictionary())
TIED = dict(share_decoder_input_output_embed=True)


def factorised(**options):
    options = dict(decoder_output_dim=RANK) | options
    return build("factorised_transformer", **options).double().eval()


def multiplied_out(model):
    """A plain Transformer with the products as its embeddings and its output layer."""
    plain = build("transformer").double().eval()
    weights = {name: p for name, p in model.state_dict().items() if "projec" not in name}
    for stack in ("encoder", "decoder"):
        words = getattr(model, stack).embed_tokens
        weights[f"{stack}.embed_tokens.weight"] = words.weight @ words.projection.weight.T
    decoder = model.decoder
    output = decoder.output_projection.weight @ decoder.project_out_dim.weight
    weights["decoder.output_projection.weight"] = output
    plain.load_state_dict(weights)
    return plain


@pytest.mark.parametrize("options", [{}, TIED, dict(share_all_embeddings=True)])
@torch.no_grad()
def test_computes_what_its_products_compute(options):
    model, sentences = factorised(**options), batch()
    torch.testing.assert_close(model(**sentences)[0], multiplied_out(model)(**sentences)[0])


@torch.no_grad()
def test_translates_as_its_products_do():
    model, sample = factorised(**TIED), {"net_input": batch()}
    ours, theirs = (
        SequenceGenerator([m], dictionary(), beam_size=3).generate([m], sample)
        for m in (model, multiplied_out(model))
    )
    for one, other in zip(ours, theirs):
        assert [h["tokens"].tolist() for h in one] == [h["tokens"].tolist() for h in other]


def test_stores_narrow_matrices():
    """V x R for each language, shared by input and output; the layers are fairseq's."""
    plain, model = build("transformer", **TIED), factorised(**TIED)
    layers = count_parameters(model).layers
    assert layers == count_parameters(plain).layers
    embeddings = 2 * WORDS * RANK + 3 * RANK * WIDTH  # into both stacks, out of one
    assert count_parameters(model).total == layers + embeddings
    assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight
    one = factorised(share_all_embeddings=True)
    assert count_parameters(one).total == layers + WORDS * RANK + 2 * RANK * WIDTH
    assert architecture_counts("factorised_transformer").layers == (
        architecture_counts("transformer").layers
    )


def test_starts_with_the_variance_of_plain_embeddings():
    words = FactorisedEmbedding(5000, 32, 64, padding_idx=1)
    vectors = words(torch.arange(5000))
    assert vectors.std().item() == pytest.approx(64**-0.5, rel=0.1)
    assert vectors[1].abs().sum() == 0


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(decoder_output_dim=12), "--decoder-output-dim 12: the inner width of factorised"),
        (dict(decoder_output_dim=0), "--decoder-output-dim 0: the inner width of factorised"),
        (dict(encoder_embed_path="x"), "--encoder-embed-path: not supported by factorised"),
        (dict(adaptive_softmax_cutoff="9"), "--adaptive-softmax-cutoff: not supported"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(UserError, match=message):
        factorised(**options)


def test_half_the_width_is_the_default():
    model = build("factorised_transformer")
    assert model.decoder.embed_tokens.weight.size(1) == WIDTH // 2


def test_half_of_a_width_that_follows_the_encoder_is_the_default():
    args = Namespace(encoder_embed_dim=64)
    factorised_transformer(args)
    assert (args.decoder_embed_dim, args.decoder_output_dim) == (64, 32)
