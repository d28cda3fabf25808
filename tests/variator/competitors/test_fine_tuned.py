"""What all competitors of plugins have in common."""

import pytest
import torch

from pet_fairseq.checkpoints.backbone import load_backbone
from pet_fairseq.variator.competitors import fine_tuned
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig
from pet_fairseq.variator.competitors.narrow_ffn import NarrowModel
from pet_fairseq.variator.competitors.token_pruning import TokenPruningModel
from tests.translation import make_batch, make_model, make_task, save_model


@pytest.mark.parametrize("kind", [NarrowModel, TokenPruningModel])
def test_the_teacher_is_loaded_when_it_is_asked_for(kind, tmp_path, monkeypatch):
    """Once, and without taking random numbers from the training."""
    task = make_task(tmp_path / "data")
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
