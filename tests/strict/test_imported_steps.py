"""Models that other libraries define: the CPU's training and validation on another device."""

import pytest

from tests.distributed.cases import CASES, DATA, build, read_options
from tests.strict.steps import Setup, check_steps
from tests.strict_device import waits_of

MODELS = ["bert", "bert, no token types", "bilingual_marian", "bilingual_transformer", "gpt2"]
MODELS += ["llama", "llama, norms of heads", "marian", "marian_student"]
MODELS += ["pet_marian_student", "t5", "t5, gated, a bias for each layer"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_imported_models(name, prepared):
    case = CASES[name]
    cfg = read_options(case, prepared)

    def make():
        task, model = build(cfg)
        batch = DATA[case.data].batches(task)[1]
        return Setup(task, task.build_criterion(cfg.criterion), model, batch)

    waits = waits_of(check_steps(make))
    assert not waits, waits
