"""Every criterion and model in two processes: what one process gets with --update-freq 2."""

import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

from pet_fairseq.errors import UserError
from tests.distributed.cases import BACKENDS, CASES, build, read_options
from tests.distributed.comparison import compare, train_all


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return train_all(tmp_path_factory.mktemp("distributed"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_two_processes_equal_one(name, backend, results):
    found = compare(results, name, backend)
    assert found.between_processes == 0
    assert found.from_one < 1e-6
    assert found.logs < 1e-5
    assert found.moved > 1e-3  # it did train


def test_nothing_is_left_out():
    """Every criterion and every model of the package is in a case."""
    words = [case.options.split() for case in CASES.values()]
    criterions = {CRITERION_REGISTRY[w[w.index("--criterion") + 1]] for w in words}
    models = {ARCH_MODEL_REGISTRY[w[w.index("--arch") + 1]] for w in words}
    for registry, covered in ((CRITERION_REGISTRY, criterions), (MODEL_REGISTRY, models)):
        ours = {kind for kind in registry.values() if kind.__module__.startswith("pet_fairseq")}
        assert ours and ours <= covered


def test_what_torch_cannot_wrap_is_refused_before_it_is_trained(prepared):
    """Options as fairseq-train reads them; docs/reliability.md has what torch would say."""
    case = CASES["pet_distillation"]
    cfg = read_options(case, prepared, "--distributed-world-size 2 --checkpoint-activations")
    with pytest.raises(UserError, match=r"give --ddp-backend legacy_ddp$"):
        build(cfg)
