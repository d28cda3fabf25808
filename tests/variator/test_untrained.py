"""Trainings in which nothing is to be trained end in one line that names the option."""

import pytest
from fairseq.trainer import Trainer

from pet_fairseq.errors import one_line
from tests.distributed.cases import CASES, build, prepare, read_options


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    prepare(folder)
    return folder


def make_trainer(folder, options):
    cfg = read_options(CASES["variator, translation"], folder, options)
    task, model = build(cfg)
    return Trainer(cfg, task, model, task.build_criterion(cfg.criterion))


@pytest.mark.parametrize("precision", ["", "--fp16", "--fp16 --memory-efficient-fp16"])
@pytest.mark.parametrize(
    "options, message",
    [
        (
            "--compression-ratio 1",
            "--compression-ratio 1: without plugins nothing is to be trained; give 2 or more",
        ),
        (
            "--compression mean --decompression copy",
            "--compression mean: with --decompression copy plugins have no parameters to train; "
            "make them with pet-fairseq new-plugins",
        ),
    ],
)
def test_one_line(folder, options, precision, message):
    trainer = make_trainer(folder, f"{options} {precision}")
    with pytest.raises(Exception) as error:  # whichever the optimizer raises
        _ = trainer.optimizer
    assert one_line(error.value, error.value.__traceback__) == message


def test_other_models(folder, monkeypatch):
    trainer = make_trainer(folder, "--compression-ratio 1")
    monkeypatch.delattr(type(trainer.get_model()), "why_untrained")
    with pytest.raises(ValueError, match="empty parameter list") as error:
        _ = trainer.optimizer
    line = one_line(error.value, error.value.__traceback__)
    assert line == "nothing is to be trained: the model is frozen"


def test_errors_of_a_training_are_no_such(folder):
    trainer = make_trainer(folder, "")
    with pytest.raises(TypeError) as error:
        trainer.train_step([{"net_input": {}}])
    assert one_line(error.value, error.value.__traceback__) is None
