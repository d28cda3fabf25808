"""One training and one validation step of a criterion and a model, on any device."""

from argparse import Namespace
from collections.abc import Callable
from typing import NamedTuple

import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch.testing import assert_close

from tests.strict_device import DEVICE, Wait, move, strict_device, to_cpu


class Setup(NamedTuple):
    """What a step takes; everything is on the CPU at first."""

    task: object
    criterion: torch.nn.Module
    model: torch.nn.Module
    batch: dict


def build_criterion(name: str, task, **options):
    """A criterion with its default options but for those given."""
    cfg = Namespace(**{"sentence_avg": False, **options})
    dataclass = CRITERION_DATACLASS_REGISTRY[name]()
    for field, value in vars(dataclass).items():
        if field not in options and not str(value).startswith("${"):
            setattr(cfg, field, value)
    return CRITERION_REGISTRY[name].build_criterion(cfg, task)


def adam(parameters: list[torch.nn.Parameter]) -> FairseqAdam:
    return FairseqAdam(FairseqAdamConfig(lr=[1e-3], adam_betas="(0.9, 0.98)"), parameters)


def run_steps(setup: Setup, device: str, optimise: Callable = adam) -> tuple[dict, list[Wait]]:
    """Train twice and validate on one batch; returns results and the waits of the second step.

    In the first step some criterions log something once.
    """
    task = setup.task
    # in double precision, or Adam makes steps of rounding errors
    criterion, model = setup.criterion.double().to(device), setup.model.double().to(device)
    batch = setup.batch if device == "cpu" else move(setup.batch)
    trained = [p for p in (*model.parameters(), *criterion.parameters()) if p.requires_grad]
    optimizer = optimise(trained)
    criterion.train()
    logs = []
    for update in range(2):
        with strict_device() as waits:
            loss, size, log = task.train_step(batch, model, criterion, optimizer, update)
            optimizer.step()
        logs.append(
            (loss.detach(), size, log, [p.grad.clone() for p in trained if p.grad is not None])
        )
        optimizer.zero_grad()
    criterion.eval()
    logs.append(task.valid_step(batch, model, criterion))
    return {"steps": logs, "parameters": [p.detach() for p in trained]}, waits


def check_steps(make: Callable[[], Setup], optimise: Callable = adam) -> list[Wait]:
    """Assert that the strict device computes what the CPU does; returns the waits of a step."""
    with strict_device():  # for what is registered at the first use
        pass
    expected, _ = run_steps(make_seeded(make), "cpu", optimise)
    with strict_device():
        result, waits = run_steps(make_seeded(make), DEVICE, optimise)
    assert len(result["parameters"]) > 0 and len(result["steps"][0][3]) > 0
    assert_close(to_cpu(result), to_cpu(expected), rtol=1e-7, atol=1e-9)
    return waits


def check_validation(make: Callable[[], Setup]) -> None:
    """Assert that a validation step needs only the model on the device, in its precision."""
    results = []
    for device in ("cpu", DEVICE):
        with strict_device():
            task, criterion, model, batch = make_seeded(make)
            criterion.eval()
            batch = batch if device == "cpu" else move(batch)
            results.append(task.valid_step(batch, model.double().to(device), criterion))
    assert_close(to_cpu(results[1]), results[0], rtol=1e-7, atol=1e-9)


def make_seeded(make: Callable[[], Setup]) -> Setup:
    torch.manual_seed(11)
    return make()
