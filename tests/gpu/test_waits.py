"""What waits for the GPU in training steps and in decoding, by CUDA's own count."""

import warnings
from pathlib import Path

import pytest
import torch
from fairseq.utils import apply_to_sample

import pet_fairseq
from pet_fairseq.decoding.generator import FastGenerator
from tests.gpu.steps import CASES
from tests.strict.test_generators import MODELS

PACKAGE = str(Path(pet_fairseq.__file__).parent)

pytestmark = pytest.mark.gpu


def own_waits(work) -> list[str]:
    """`file:line` of the lines of this package at which the host waits for the GPU."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    lines = [(w.filename, w.lineno) for w in caught if "synchronizing" in str(w.message)]
    return [f"{file}:{line}" for file, line in lines if file.startswith(PACKAGE)]


def test_a_wait_is_counted(monkeypatch):
    monkeypatch.setattr("tests.gpu.test_waits.PACKAGE", str(Path(__file__).parent))
    assert len(own_waits(lambda: torch.ones(3, device="cuda").sum().item())) == 1


@pytest.mark.parametrize("case", CASES)
def test_training_step(case, tmp_path):
    torch.manual_seed(11)
    setup = CASES[case](tmp_path)
    model, criterion = setup.model.cuda().train(), setup.criterion.cuda().train()
    batch = apply_to_sample(lambda tensor: tensor.cuda(), setup.batch)

    def step():
        loss, _, _ = criterion(model, batch)
        loss.backward()

    step()  # the first one loads kernels and logs
    assert len(own_waits(step)) <= 2


@pytest.mark.parametrize("name", ["plain", "pet", "can", "ensemble"])
def test_decoding(name, tmp_path):
    """Two looks in eight steps, one copy of the result, and what indexing may add to a look."""
    case = MODELS[name](tmp_path)
    models = [model.cuda() for model in case.models]
    options = {"beam_size": 3, "max_len_a": 0, "max_len_b": 8, "min_len": 8}
    generator = FastGenerator(models, case.words, **options).cuda()
    sample = apply_to_sample(lambda tensor: tensor.cuda(), case.sample)
    generator.generate(models, sample)
    assert len(own_waits(lambda: generator.generate(models, sample))) <= 4
