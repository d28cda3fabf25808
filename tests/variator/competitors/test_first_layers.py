"""A student made of the first layers against the model whose other layers do nothing."""

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.variator.competitors.first_layers import FirstLayersConfig, FirstLayersModel
from pet_fairseq.variator.costs import Shape
from tests.translation import make_batch, make_model, make_task, save_model
from tests.variator.test_decoder_only import KINDS, TINY, make_lm, make_tokens
from tests.variator.test_decoder_only import task as lm_task  # noqa: F401  fixture


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


def make_student(task, path, kept, **options):
    cfg = FirstLayersConfig(backbone_path=str(path), kept_layers=kept, **options)
    return FirstLayersModel.build_model(cfg, task).eval()


class Nothing(torch.nn.Module):
    """In the place of a layer."""

    def forward(self, x, *args, **options):
        return x


@pytest.mark.parametrize("kept", [1, 2])
def test_the_first_layers_of_the_encoder_are_left(kept, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task, encoder_layers=3)
    student = make_student(task, path, kept)
    backbone, _ = make_model(task, encoder_layers=3)
    backbone.load_state_dict(torch.load(path, weights_only=True)["model"])
    decoder_layers = len(backbone.decoder.layers)
    for i in range(kept, 3):
        backbone.encoder.layers[i] = Nothing()
    net_input = make_batch(task, [3, 7, 5])["net_input"]
    with torch.no_grad():
        torch.testing.assert_close(student(**net_input)[0], backbone.eval()(**net_input)[0])
    assert len(student.encoder.layers) == kept and len(student.decoder.layers) == decoder_layers


def test_the_first_layers_of_a_language_model(lm_task, tmp_path):  # noqa: F811
    make_lm(lm_task, tmp_path, "gpt2")  # writes the file
    arch, sizes = KINDS["gpt2"]
    backbone, _ = make_model(lm_task, arch, **TINY | sizes)
    backbone.load_state_dict(torch.load(tmp_path / "lm.pt", weights_only=True)["model"])
    student = make_student(lm_task, tmp_path / "lm.pt", 1)
    assert len(student.decoder.layers) == 1 < len(backbone.decoder.layers)
    kept = backbone.decoder.layers[0].fc1.weight
    assert torch.equal(student.decoder.layers[0].fc1.weight, kept)
    assert student(make_tokens(lm_task, [(5, 4)]))[0].isfinite().all()


def test_saved_and_loaded_it_is_the_same(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task, encoder_layers=3)
    first = make_student(task, path, 2)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    then = make_student(task, path, 2)
    then.load_state_dict(first.state_dict(), strict=True)
    net_input = make_batch(task, [3, 7])["net_input"]
    with torch.no_grad():
        torch.testing.assert_close(then(**net_input)[0], first(**net_input)[0])
    assert not any("encoder.layers.2." in name for name in first.state_dict())


def test_all_is_trained_but_the_teacher(task, tmp_path):
    student = make_student(task, save_model(tmp_path / "b.pt", task, encoder_layers=2), 1).train()
    student(**make_batch(task, [3, 7])["net_input"])[0].square().sum().backward()
    assert all(p.grad is not None for p in student.parameters())
    with student.frozen() as teacher:
        assert len(teacher.encoder.layers) == 2
        assert not any(p.requires_grad for p in teacher.parameters())


def test_cost():
    shape = Shape(layers=6, embed_dim=8, ffn_embed_dim=16, ratio=4, bottleneck_dim=2)
    cfg = FirstLayersConfig(kept_layers=2)
    cost = FirstLayersModel.encoder_cost(FirstLayersModel.shape_for(cfg, shape), 5)
    layer = 4 * 5 * 8 * 8 + 2 * 5 * 5 * 8 + 2 * 5 * 8 * 16
    assert cost == 2 * layer


def test_refused(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task, encoder_layers=3)
    for kept in (0, 3, 4):
        message = f"--kept-layers {kept}: the model has 3 layers; give 1 to 2"
        with pytest.raises(UserError, match=message):
            make_student(task, path, kept)
    with pytest.raises(UserError, match="--dropout 1: give 0 or more, less than 1"):
        make_student(task, path, 1, dropout=1)
