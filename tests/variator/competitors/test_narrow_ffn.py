"""Narrow feed-forward networks against a choice by hand."""

import math

import pytest
import torch
from fairseq.modules import FairseqDropout
from torch import nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.attention import replace_fairseq_attention
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig
from pet_fairseq.variator.competitors.narrow_ffn import NarrowModel
from tests.translation import make_batch, make_model, make_task, save_model, save_state
from tests.variator.test_decoder_only import KINDS, TINY, make_lm, make_tokens
from tests.variator.test_decoder_only import task as lm_task  # noqa: F401  fixture


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


def make_narrow(task, path, ratio, **options):
    cfg = FineTunedConfig(backbone_path=str(path), compression_ratio=ratio, **options)
    return NarrowModel.build_model(cfg, task).eval()


def silence_weak_units(layer, ratio):
    """Zero all inner units but the strongest: what is left computes the same as the narrow one."""
    units = range(layer.fc1.out_features)
    strength = [
        layer.fc1.weight[i].square().sum().sqrt() * layer.fc2.weight[:, i].square().sum().sqrt()
        for i in units
    ]
    kept = sorted(units, key=lambda i: -strength[i])[: -(-len(units) // ratio)]
    with torch.no_grad():
        for i in set(units) - set(kept):
            layer.fc1.weight[i] = 0
            layer.fc1.bias[i] = 0


@pytest.mark.parametrize("ratio", [1, 3, 4])
def test_the_strongest_units_are_left(ratio, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    backbone, _ = make_model(task)
    backbone.load_state_dict(torch.load(path, weights_only=True)["model"])
    replace_fairseq_attention(backbone)  # fairseq's takes a softmax in float32
    backbone.double().eval()
    model = make_narrow(task, path, ratio).double()
    layers = [*backbone.encoder.layers, *backbone.decoder.layers]
    narrow = [*model.encoder.layers, *model.decoder.layers]
    for layer, cut in zip(layers, narrow):
        silence_weak_units(layer, ratio)
        assert cut.fc1.weight.shape == (-(-layer.fc1.out_features // ratio), 64)
    net_input = make_batch(task, [3, 7, 5])["net_input"]
    with torch.no_grad():
        torch.testing.assert_close(model(**net_input)[0], backbone(**net_input)[0])


def test_all_is_trained_but_the_teacher(task, tmp_path):
    model = make_narrow(task, save_model(tmp_path / "b.pt", task), 4).train()
    model(**make_batch(task, [3, 7])["net_input"])[0].square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with model.frozen() as teacher:
        assert teacher.encoder.layers[0].fc1.out_features == 64
        assert not teacher.training and not any(p.requires_grad for p in teacher.parameters())
    assert not any("teacher" in name for name in model.state_dict())


def test_refused(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    with pytest.raises(UserError, match="--compression-ratio 0: give 1 or more"):
        make_narrow(task, path, 0)
    with pytest.raises(UserError, match="--dropout 1: give 0 or more, less than 1"):
        make_narrow(task, path, 2, dropout=1)
    pet = save_model(tmp_path / "pet.pt", task, "pet_transformer_tiny")
    with pytest.raises(UserError, match=r"pet.pt: its layers share weights, so narrow_ffn cannot"):
        make_narrow(task, pet, 2)


def test_goes_on_from_raw_text_with_the_head_of_the_fine_tuned_model(task, tmp_path):
    """As the recipe does it with --finetune-from-model: the first step has no classes."""
    options = {
        **{"encoder_layers": 1, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24},
        **{"encoder_attention_heads": 2, "max_positions": 64},
    }
    first = make_narrow(task, save_model(tmp_path / "a.pt", task, "roberta", **options), 4)
    model, args = make_model(task, "roberta", **options)
    model.register_classification_head("classes", num_classes=3)
    args._name = "roberta"
    save_state(tmp_path / "b.pt", model, args, {"_name": "sentence_prediction"})
    then = make_narrow(task, tmp_path / "b.pt", 4)
    then.load_state_dict(first.state_dict(), strict=True)
    ours, head = dict(then.backbone.named_parameters()), dict(model.named_parameters())
    assert sum(name.startswith("classification_heads.") for name in ours) == 4
    for name, parameter in ours.items():
        source = (
            head
            if name.startswith("classification_heads.")
            else dict(first.backbone.named_parameters())
        )
        assert torch.equal(parameter, source[name])


@pytest.mark.parametrize("ratio", [2, 5])
def test_a_gate_goes_with_what_it_lets_through(ratio, lm_task, tmp_path):  # noqa: F811
    """Of a gated network a neuron's row of the gate, row of up and column of down are one."""
    path = tmp_path / "lm.pt"
    make_lm(lm_task, tmp_path, "llama")  # writes the file
    arch, sizes = KINDS["llama"]
    backbone, _ = make_model(lm_task, arch, **TINY | sizes)
    backbone.load_state_dict(torch.load(path, weights_only=True)["model"])
    model = make_narrow(lm_task, path, ratio).double().eval()
    width = backbone.decoder.layers[0].fc2.in_features
    for layer, cut in zip(backbone.decoder.layers, model.decoder.layers):
        parts = [*layer.fc1.weight.detach().split(width), layer.fc2.weight.detach().T]
        strength = [math.prod(float(part[i].norm()) for part in parts) for i in range(width)]
        kept = sorted(range(width), key=lambda i: -strength[i])[: -(-width // ratio)]
        assert cut.fc1.weight.shape == (2 * len(kept), 16) and cut.fc1.bias is None
        with torch.no_grad():
            for i in set(range(width)) - set(kept):
                layer.fc2.weight[:, i] = 0
    tokens = make_tokens(lm_task, [(5, 4), (3, 3)])
    with torch.no_grad():
        torch.testing.assert_close(model(tokens)[0], backbone.double().eval()(tokens)[0])


def test_a_norm_between_the_two_maps_is_cut_with_them(lm_task, tmp_path):  # noqa: F811
    """Of a language model with --scale-fc: the norm is one of the units that are left."""
    path = save_model(tmp_path / "lm.pt", lm_task, "transformer_lm", **TINY, scale_fc=True)
    model = make_narrow(lm_task, path, 4)
    for layer in model.decoder.layers:
        assert layer.ffn_layernorm.normalized_shape == (layer.fc1.out_features,)
    with torch.no_grad():
        assert model(make_tokens(lm_task, [(5, 4), (3, 3)]))[0].isfinite().all()


def test_dropout_in_all_places(lm_task, tmp_path):  # noqa: F811
    """The attention of Llama's kind has a number in place of a module, heads have torch's own."""
    make_lm(lm_task, tmp_path, "llama")
    model = make_narrow(lm_task, tmp_path / "lm.pt", 2, dropout=0.25)
    dropouts = [m for m in model.backbone.modules() if isinstance(m, (FairseqDropout, nn.Dropout))]
    assert dropouts and {module.p for module in dropouts} == {0.25}
    assert {layer.self_attn.dropout for layer in model.decoder.layers} == {0.25}
