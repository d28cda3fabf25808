"""What all competitors of plugins have in common."""

import pytest
import torch

from pet_fairseq.checkpoints.backbone import load_backbone
from pet_fairseq.variator.competitors import fine_tuned
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig
from pet_fairseq.variator.competitors.first_layers import FirstLayersConfig, FirstLayersModel
from pet_fairseq.variator.competitors.narrow_ffn import NarrowModel
from pet_fairseq.variator.competitors.token_pruning import TokenPruningModel
from tests.translation import make_batch, make_model, make_task, save_model
from tests.variator.test_criterion import HEAD, make_sentences, save_classifier
from tests.variator.test_criterion import class_task as class_task  # fixture
from tests.variator.test_imported import CLASSIFIERS, TRANSLATORS


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


def make_cheaper(kind, task, path):
    if kind is FirstLayersModel:
        cfg = FirstLayersConfig(backbone_path=str(path), kept_layers=1)
    else:
        cfg = FineTunedConfig(backbone_path=str(path), compression_ratio=2)
    return kind.build_model(cfg, task).eval()


def check_it_loads_what_it_saved(kind, task, path, net_input, **options):
    first, again = (make_cheaper(kind, task, path) for _ in range(2))
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        expected = first(**net_input, **options)[0]
        assert not torch.equal(again(**net_input, **options)[0], expected)
        again.load_state_dict(dict(first.state_dict()), strict=True)
        assert torch.equal(again(**net_input, **options)[0], expected)


@pytest.mark.parametrize("kind", [FirstLayersModel, NarrowModel, TokenPruningModel])
@pytest.mark.parametrize("backbone", TRANSLATORS)
def test_saved_and_loaded_it_is_the_same(kind, backbone, task, tmp_path):
    arch, options = TRANSLATORS[backbone]
    path = save_model(tmp_path / "b.pt", task, arch, **options)
    check_it_loads_what_it_saved(kind, task, path, make_batch(task, [3, 7, 2, 6])["net_input"])


@pytest.mark.parametrize("kind", [FirstLayersModel, NarrowModel, TokenPruningModel])
@pytest.mark.parametrize("backbone", ["bart", *CLASSIFIERS])
def test_saved_and_loaded_a_classifier_is_the_same(kind, backbone, class_task, tmp_path):
    arch, options = (TRANSLATORS | CLASSIFIERS)[backbone]
    path = save_classifier(tmp_path / "b.pt", class_task, arch, **options)
    net_input = make_sentences(class_task, [3, 7, 2, 6])["net_input"]
    if backbone in CLASSIFIERS:
        del net_input["prev_output_tokens"]
    head = {"features_only": True, "classification_head_name": HEAD}
    check_it_loads_what_it_saved(kind, class_task, path, net_input, **head)


@pytest.mark.parametrize("kind", [NarrowModel, TokenPruningModel])
def test_the_teacher_is_loaded_when_it_is_asked_for(kind, task, tmp_path, monkeypatch):
    """Once, and without taking random numbers from the training."""
    path = save_model(tmp_path / "b.pt", task)
    loaded = []

    def load(*args):
        loaded.append(args[0])
        return load_backbone(*args)

    monkeypatch.setattr(fine_tuned, "load_backbone", load)
    cfg = FineTunedConfig(backbone_path=str(path), compression_ratio=2)
    model = kind.build_model(cfg, task).eval()
    net_input = make_batch(task, [3, 7])["net_input"]
    model(**net_input)
    assert loaded == [path]
    backbone, _ = make_model(task)
    backbone.load_state_dict(torch.load(path, weights_only=True)["model"])
    before = torch.get_rng_state()
    for _ in range(2):
        with torch.no_grad(), model.frozen() as teacher:
            torch.testing.assert_close(teacher(**net_input)[0], backbone.eval()(**net_input)[0])
    assert loaded == [path, path] and torch.equal(torch.get_rng_state(), before)
