"""Costs: the paper's example, and the formula against what torch counts."""

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.variator.costs import Shape, ffn_parameters, paper_ffn_saving
from pet_fairseq.variator.flops_table import flops_report, measured_cost, shape_of
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import new_plugins
from pet_fairseq.variator.sites import SITES
from tests.translation import make_task, save_model
from tests.variator.test_model import make_variator


def test_the_papers_example():
    """k = 4, r = 64, d = 768: 71.7% of the FFN's cost saved, 3.4% parameters added."""
    shape = Shape(layers=12, embed_dim=768, ffn_embed_dim=3072, ratio=4, bottleneck_dim=64)
    assert round(100 * paper_ffn_saving(shape), 1) == 71.7
    assert round(100 * SITES["ffn"].plugin_parameters(shape) / ffn_parameters(shape), 1) == 3.4


FORMS = [
    {},
    {"compression_site": "attention"},
    {"compression_site": "attention-kv"},
    {"compression": "mean"},
    {"decompression": "copy"},
    {"compression": "mean", "decompression": "copy", "compression_site": "attention"},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ratio", [2, 3, 8])
@pytest.mark.parametrize("arch", ["transformer_tiny", "pet_transformer_tiny"])
def test_formula_and_measurement_agree(form, ratio, arch, tmp_path):
    task = make_task(tmp_path / "data")
    path = save_model(tmp_path / "b.pt", task, arch, encoder_ffn_embed_dim=96)
    model = make_variator(task, path, compression_ratio=ratio, **form)
    for length in (48, 50, 7):
        shape = shape_of(model)
        assert model.encoder_cost(shape, length) == pytest.approx(
            measured_cost(model, length), rel=0.01
        )
        with model.compression_ratio(1):
            plain = model.encoder_cost(shape_of(model), length)
            assert plain == pytest.approx(measured_cost(model, length), rel=0.01)
    numbers = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert numbers == shape.layers * SITES[shape.site].plugin_parameters(shape)


CONVOLUTIONS = {"weight_softmax": True} | {
    f"{stack}_{name}": value
    for stack in ("encoder", "decoder")
    for name, value in (
        *(("layers", 2), ("embed_dim", 16), ("ffn_embed_dim", 24), ("attention_heads", 2)),
        *(("kernel_size_list", [3, 7]), ("conv_type", "dynamic"), ("glu", True)),
    )
}

RECURRENT = {f"{part}_embed_dim": 8 for part in ("encoder", "decoder", "decoder_out")} | {
    f"{part}_hidden_size": 8 for part in ("encoder", "decoder")
}


def test_sentences_too_long_for_any_memory(tmp_path):
    """Attention to 10 million positions would need 400 terabytes for each head."""
    path = save_model(tmp_path / "b.pt", make_task(tmp_path / "data"), "transformer_tiny")
    report = flops_report(path, 4, 8, "ffn", [10**7])
    assert report.splitlines()[-1].startswith("| 10000000 |")


def test_refused(tmp_path):
    task = make_task(tmp_path / "data")
    path = save_model(tmp_path / "b.pt", task)
    new_plugins(VariatorConfig(backbone_path=path), tmp_path / "p.pt")
    convolutions = save_model(tmp_path / "c.pt", task, "lightconv", **CONVOLUTIONS)
    recurrent = save_model(tmp_path / "r.pt", task, "lstm", **RECURRENT)
    for checkpoint, ratio, message in (
        (path, 1, "--compression-ratio 1: give 2 or more"),
        (str(tmp_path / "p.pt"), 2, r"CHECKPOINT .*p.pt: holds a compressed model, not a backbone"),
        (convolutions, 2, "--compression-site ffn: LightConvEncoderLayer of the backbone has no"),
        (recurrent, 2, r"^\S*/r.pt: LSTMModel has no encoder of Transformer layers"),
    ):
        with pytest.raises(UserError, match=message):
            flops_report(checkpoint, ratio, 8, "ffn", [8])
