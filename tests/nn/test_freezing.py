"""Frozen models: what is not trained, the layout of what linear functions read, the outputs."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from pet_fairseq.checkpoints.frozen_models import FrozenModels
from pet_fairseq.nn.freezing import freeze
from tests.translation import make_batch, make_model, make_task

LM = {
    **{"decoder_layers": 2, "decoder_embed_dim": 16, "decoder_ffn_embed_dim": 24},
    **{"decoder_attention_heads": 2, "decoder_output_dim": 16, "decoder_input_dim": 16},
    **{"tokens_per_sample": 64, "max_target_positions": 64},
}
KINDS = {
    "post-norm": ("transformer_tiny", {}),
    "pre-norm": ("transformer_tiny", {"decoder_normalize_before": True}),
    "pet": ("pet_transformer_tiny", {}),
    "language model": ("transformer_lm", LM),
}


class LinearInputs(TorchFunctionMode):
    """Inside the block, the shapes and strides of what linear functions read as a view."""

    def __init__(self):
        super().__init__()
        self.views = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.linear and not args[0].is_contiguous():
            self.views.append((args[0].shape, args[0].stride()))
        return function(*args, **(kwargs or {}))


def run(model: nn.Module, batch: dict) -> tuple[torch.Tensor, list]:
    """A model's output, and the views that its linear functions read."""
    inputs = batch["net_input"]
    if not hasattr(model, "encoder"):
        inputs = {"src_tokens": inputs["src_tokens"]}
    with torch.no_grad(), LinearInputs() as seen:
        output = model(**inputs)[0]
    return output, seen.views


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("freezer", [freeze, lambda model: FrozenModels([model])])
def test_linear_functions_read_no_views(task, kind, freezer):
    """For a view, torch would copy the weights once for each position."""
    arch, options = KINDS[kind]
    model = make_model(task, arch, **options)[0].eval()
    batch = make_batch(task, [5, 3, 7])
    expected, views = run(model, batch)
    assert views
    frozen = copy.deepcopy(model)
    freezer(frozen)
    output, views = run(frozen, batch)
    assert not views
    torch.testing.assert_close(output, expected)


def test_nothing_is_trained_and_no_module_has_two_hooks(task):
    model, _ = make_model(task, "transformer_tiny")
    model.wrapped = nn.Module()  # answers for the stack, as a wrapper does
    model.wrapped.layers = model.encoder.layers
    freeze(model)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    hooked = [name for name, module in model.named_modules() for _ in module._forward_pre_hooks]
    assert hooked == ["encoder.layers.0", "decoder.layers.0", "decoder.output_projection"]
