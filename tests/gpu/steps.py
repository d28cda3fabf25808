"""One training step of every criterion, on any device and in any of fairseq's precisions."""

from contextlib import nullcontext

import torch
from fairseq.utils import apply_to_sample
from torch import Tensor

from pet_fairseq.selfcp.criterion import SelfCpCriterion
from pet_fairseq.variator.criterion import VariatorDistillationCriterion
from tests.selfcp.test_model import make_sample, make_selfcp
from tests.selfcp.test_model import task as make_language_task
from tests.strict.steps import Setup
from tests.strict.test_translation_steps import CRITERIONS, make_setup, ragged_batch
from tests.translation import make_task, save_model
from tests.variator.test_model import make_variator

PRECISIONS = ("fp32", "fp16", "bf16", "amp")
LOSS_SCALE = 128  # fairseq's first one


def variator(folder) -> Setup:
    task = make_task(folder / "data")
    model = make_variator(task, save_model(folder / "t.pt", task), compression_ratio=2)
    criterion = VariatorDistillationCriterion(task, False, 0.5, "x", False)
    return Setup(task, criterion, model, ragged_batch(task))


def selfcp(folder) -> Setup:
    task = make_language_task.__wrapped__(folder)
    model = make_selfcp(task, folder).float()
    sample = make_sample(task, [(2, 5), (1, 14), (3, 23)])
    sample["ntokens"] = int(sample["target"].ne(task.dictionary.pad()).sum())
    return Setup(task, SelfCpCriterion(task, sentence_avg=False), model, sample)


CASES = {
    **{name: lambda folder, name=name: make_setup(folder, "pet", name) for name in CRITERIONS},
    "variator_distillation": variator,
    "selfcp_lm": selfcp,
}


def train_step(case: str, folder, device: str, precision: str) -> tuple[float, Tensor]:
    """The loss of a batch and all gradients in one vector, as float64 on the CPU."""
    folder.mkdir()
    torch.manual_seed(11)
    setup = CASES[case](folder)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)

    def prepare(tensor: Tensor) -> Tensor:  # as fairseq's trainer does
        return tensor.to(device, dtype if tensor.is_floating_point() else None)

    batch = apply_to_sample(prepare, setup.batch)
    model = setup.model.to(device=device, dtype=dtype).train()
    criterion = setup.criterion.to(device=device, dtype=dtype).train()
    half = torch.float16 if device == "cuda" else torch.bfloat16
    mixed = torch.autocast(device, half) if precision == "amp" else nullcontext()
    with mixed:
        loss, _, _ = criterion(model, batch)
    scale = 1 if precision == "fp32" else LOSS_SCALE
    (loss * scale).backward()
    trained = [p for p in (*model.parameters(), *criterion.parameters()) if p.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    vector = torch.cat([g.detach().double().cpu().flatten() for g in gradients])
    return float(loss), vector / scale
