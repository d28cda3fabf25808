"""Merged models as files: of every kind of task, and with a backbone that has moved."""

import shutil
from argparse import Namespace

import pytest
import torch

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.cli import main
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from tests.predict.made import (
    HEAD,
    LABELS,
    classification_task,
    make_translator,
    save_low_rank,
    save_with_task,
)
from tests.results.score.test_prompts import folder as lm_folder  # noqa: F401  fixture
from tests.results.score.test_prompts import load_task as load_lm_task
from tests.results.score.test_prompts import save_lm
from tests.translation import make_model
from tests.variator.test_imported import CLASSIFIERS
from tests.variator.test_low_rank import make as make_low_rank

TOKENS = torch.tensor([[4, 7, 5, 9, 2], [6, 6, 8, 4, 2]])


@pytest.fixture
def translator(tmp_path):
    made = make_translator(tmp_path)
    return made, save_low_rank(made, "translation", tmp_path)


def export_and_load(checkpoint, out):
    """The merged model in the folder that export writes."""
    export(str(checkpoint), None, "fairseq", out)
    return load_model(str(out / "model.pt"), "CHECKPOINT")[0]


@torch.no_grad()
def check_the_same(checkpoint, merged, backbone, *inputs, **options):
    """The file's model gives the same logits as the merged one, and others than the backbone."""
    model, _ = load_model(str(checkpoint), "CHECKPOINT")
    expected, found, before = (m(*inputs, **options)[0] for m in (model, merged, backbone))
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(before, expected, atol=1e-3)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_classifier_with_a_new_head(kind, tmp_path):
    arch, options = CLASSIFIERS[kind]
    task = classification_task(tmp_path / "data")
    backbone, args = make_model(task, arch, **{**options, "max_positions": 40})
    args._name = arch
    path = save_with_task(tmp_path / "b.pt", "sentence_prediction", backbone, args, task)
    model = make_low_rank(task, path)
    model.register_classification_head(HEAD, num_classes=len(LABELS))
    with torch.no_grad():
        model.heads[HEAD].out_proj.bias.normal_()
    low_rank = tmp_path / "l.pt"
    options = Namespace(**vars(model.cfg))
    save_with_task(low_rank, "sentence_prediction", model, options, task)
    merged = export_and_load(low_rank, tmp_path / "out")
    plain, _ = load_model(path, "CHECKPOINT")  # its head is another one
    words = {"features_only": True, "classification_head_name": HEAD}
    check_the_same(low_rank, merged, plain, TOKENS, **words)


@pytest.mark.parametrize("kind", ["post-norm", "llama"])
def test_a_language_model(kind, lm_folder, tmp_path):  # noqa: F811
    path = save_lm(lm_folder, kind)
    task = load_lm_task(lm_folder)
    low_rank = lm_folder / "l.pt"
    model = make_low_rank(task, path)
    shutil.copy(path, low_rank)
    state = torch.load(low_rank, weights_only=False)
    state["cfg"]["model"], state["model"] = Namespace(**vars(model.cfg)), model.state_dict()
    torch.save(state, low_rank)
    merged = export_and_load(low_rank, tmp_path / "out")
    check_the_same(low_rank, merged, load_model(path, "CHECKPOINT")[0], TOKENS)
    assert (tmp_path / "out/dict.txt").read_bytes() == (lm_folder / "dict.txt").read_bytes()


def test_a_moved_backbone(translator, tmp_path):
    made, low_rank = translator
    expected = export_and_load(low_rank, tmp_path / "before").state_dict()
    moved = shutil.move(made.backbone, tmp_path / "moved.pt")
    with pytest.raises(UserError, match=rf"^--backbone-path {made.backbone}: no such file"):
        export(low_rank, None, "fairseq", tmp_path / "out")
    words = ("--to", "fairseq", "--out", str(tmp_path / "after"), "--backbone-path", str(moved))
    assert main(["export", low_rank, *words]) == 0
    found = load_model(str(tmp_path / "after/model.pt"), "CHECKPOINT")[0].state_dict()
    torch.testing.assert_close(found, expected)


def test_a_backbone_of_a_model_that_has_none(translator, tmp_path):
    made, _ = translator
    with pytest.raises(UserError, match=r"^--backbone-path x.pt: CHECKPOINT .* has no low-rank up"):
        export(made.plugins[0], None, "fairseq", tmp_path / "out", backbone_path="x.pt")
    assert not (tmp_path / "out").exists()
