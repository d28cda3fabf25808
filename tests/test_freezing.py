"""Frozen models: what is not trained, the layout of the first layers' inputs, the same outputs."""

import copy

import pytest
import torch
from torch import nn

from pet_fairseq.checkpoints.frozen_models import FrozenModels
from pet_fairseq.freezing import freeze
from tests.translation import make_batch, make_model, make_task

ARCHITECTURES = ["transformer_tiny", "pet_transformer_tiny", "transformer_lm"]
LM = {
    **{"decoder_layers": 2, "decoder_embed_dim": 16, "decoder_ffn_embed_dim": 24},
    **{"decoder_attention_heads": 2, "decoder_output_dim": 16, "decoder_input_dim": 16},
    **{"tokens_per_sample": 64, "max_target_positions": 64},
}


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path)


def seen_by(model: nn.Module, batch: dict) -> tuple[torch.Tensor, list[bool]]:
    """A model's output, and for the input of each of its attentions whether it is contiguous."""
    seen = []

    def look(_module, _args, options):
        seen.append(options["query"].is_contiguous())

    attentions = [m for m in model.modules() if hasattr(m, "k_proj")]
    hooks = [m.register_forward_pre_hook(look, with_kwargs=True) for m in attentions]
    inputs = batch["net_input"]
    if not hasattr(model, "encoder"):
        inputs = {"src_tokens": inputs["src_tokens"]}
    with torch.no_grad():
        output = model(**inputs)[0]
    for hook in hooks:
        hook.remove()
    return output, seen


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("freezer", [freeze, lambda model: FrozenModels([model])])
def test_layers_read_what_is_in_the_order_of_its_shape(task, architecture, freezer):
    """Otherwise torch copies the weights once for each position."""
    options = LM if architecture == "transformer_lm" else {}
    model = make_model(task, architecture, **options)[0].eval()
    batch = make_batch(task, [5, 3, 7])
    expected, before = seen_by(model, batch)
    assert not all(before)
    frozen = copy.deepcopy(model)
    freezer(frozen)
    output, after = seen_by(frozen, batch)
    assert all(after) and len(after) == len(before)
    torch.testing.assert_close(output, expected)


def test_nothing_is_trained_and_no_layer_has_two_hooks(task):
    model, _ = make_model(task, "transformer_tiny")
    model.wrapped = nn.Module()  # answers for the stack, as a wrapper does
    model.wrapped.layers = model.encoder.layers
    freeze(model)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert [len(layer._forward_pre_hooks) for layer in model.encoder.layers] == [1, 0]
