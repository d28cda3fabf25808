"""Trainings in which nothing is to be trained end in one line that names the option."""

import pytest
from fairseq.trainer import Trainer

from pet_fairseq.errors import one_line
from tests.distributed.cases import CASES, build, read_options


def make_trainer(prepared, options):
    cfg = read_options(CASES["variator, translation"], prepared, options)
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
def test_one_line(prepared, options, precision, message):
    trainer = make_trainer(prepared, f"{options} {precision}")
    with pytest.raises(Exception) as error:  # whichever the optimizer raises
        _ = trainer.optimizer
    assert one_line(error.value, error.value.__traceback__) == message


def test_other_models(prepared, monkeypatch):
    trainer = make_trainer(prepared, "--compression-ratio 1")
    monkeypatch.delattr(type(trainer.get_model()), "why_untrained")
    with pytest.raises(ValueError, match="empty parameter list") as error:
        _ = trainer.optimizer
    line = one_line(error.value, error.value.__traceback__)
    assert line == "nothing is to be trained: the model is frozen"


def test_errors_of_a_training_are_no_such(prepared):
    trainer = make_trainer(prepared, "")
    with pytest.raises(TypeError) as error:
        trainer.train_step([{"net_input": {}}])
    assert one_line(error.value, error.value.__traceback__) is None
