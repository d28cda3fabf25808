"""Deep-shallow architectures: fairseq's own model in the sizes their documentation states."""

import pytest
from fairseq.models.transformer import TransformerModel

from pet_fairseq.nn.parameter_counts import architecture_counts, compression_rate
from tests.helpers import batch, build

SIZES = [
    ("deep_shallow_12_1", 12, 1, 168, 9.74),
    ("deep_shallow_6_1", 6, 1, 224, 9.60),
    ("deep_shallow_6_2", 6, 2, 200, 9.19),
]


@pytest.mark.parametrize(("arch", "encoder_layers", "decoder_layers", "d", "rate"), SIZES)
def test_sizes(arch, encoder_layers, decoder_layers, d, rate):
    f = 2 * d
    encoder = 4 * d**2 + 2 * d * f + 9 * d + f
    decoder = 8 * d**2 + 2 * d * f + 15 * d + f
    counts = architecture_counts(arch)
    assert counts.layers == encoder_layers * encoder + decoder_layers * decoder
    reference = architecture_counts("transformer_iwslt_de_en")
    assert reference.layers == 31_543_296
    assert compression_rate(counts, reference) == pytest.approx(rate, abs=0.005)

    model = build(arch, small=False)
    assert type(model) is TransformerModel
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (
        encoder_layers,
        decoder_layers,
    )
    assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight
    assert model.encoder.layer_norm is not None and model.decoder.layer_norm is not None
    heads = {layer.self_attn.num_heads for layer in (*model.encoder.layers, *model.decoder.layers)}
    assert heads == {4}
    assert model(**batch())[0].isfinite().all()


def test_options_override_the_size():
    model = build("deep_shallow_6_1", small=False, decoder_layers=3, encoder_ffn_embed_dim=100)
    assert len(model.decoder.layers) == 3
    assert model.encoder.layers[0].fc1.out_features == 100
