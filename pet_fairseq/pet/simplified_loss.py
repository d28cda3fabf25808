"""The four-class task of PET's warm-up, as pure functions (PET, section 3.2).

The teacher's prediction of a target token decides the token's class (PET, Table 2): 0 right and
confident, 1 right but not confident, 2 wrong and confident, 3 wrong but not confident. The
student's probabilities of these classes come from its own distribution (PET, eq. 3.1-3.3).
"""

import math
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

CLASSES = ("confidently right", "right", "confidently wrong", "wrong")


class Judgement(NamedTuple):
    """How confident a teacher is about N tokens, and whether it is right."""

    top: Tensor  # N, log of the teacher's highest probability
    right: Tensor  # N, whether that is the gold token's


def judge(log_probs: Tensor, target: Tensor) -> Judgement:
    """Judge the teacher's distributions (N x V, log) against the gold tokens (N)."""
    top, choice = log_probs.max(dim=-1)
    return Judgement(top, choice == target)


def teacher_classes(judgement: Judgement, correct: float, wrong: float) -> Tensor:
    """The class of each token, 0 to 3 (PET, Table 2): N.

    Args:
        correct, wrong: the top probability from which the teacher counts as confident where it is
            right, and where it is wrong (eps1, eps2).
    """
    top, right = judgement
    confident = top >= torch.where(right, math.log(correct), math.log(wrong)).to(top)
    return 2 * (~right).long() + (~confident).long()


def median_confidence(judgement: Judgement) -> tuple[Optional[float], Optional[float]]:
    """The median top probability where the teacher is right, and where it is wrong.

    None for a side without any token.
    """
    top, right = judgement.top.exp(), judgement.right
    return _median(top[right]), _median(top[~right])


def _median(values: Tensor) -> Optional[float]:
    return values.median().item() if len(values) else None


def log_complement(logits: Tensor, index: Tensor) -> Tensor:
    """log(1 - softmax(logits)[index]): N, accurate even where that probability rounds to 1.

    Args:
        logits: N x V; index: N.
    """
    others = logits.scatter(-1, index[:, None], -math.inf)
    return others.logsumexp(dim=-1) - logits.logsumexp(dim=-1)


def class_log_probs(logits: Tensor, target: Tensor) -> Tensor:
    """Logs of the student's four class probabilities (PET, eq. 3.1-3.3): N x 4.

    With c the student's top probability and r that of the gold token they are c r, (1 - c) r,
    c (1 - r) and (1 - c)(1 - r).

    Args:
        logits: N x V, of any precision; the result is in float32 at least. target: N.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probs = F.log_softmax(logits, dim=-1)
    choice = logits.detach().max(dim=-1).indices  # in half the time of argmax on a CPU
    c, r = (log_probs.gather(-1, index[:, None])[:, 0] for index in (choice, target))
    not_c, not_r = log_complement(logits, choice), log_complement(logits, target)
    return torch.stack([c + r, not_c + r, c + not_r, not_c + not_r], dim=-1)


class ClassSums(NamedTuple):
    """Sums over tokens: the loss in nats, tokens whose class is predicted, tokens per class (4)."""

    loss: Tensor
    correct: Tensor
    counts: Tensor


def class_sums(class_logits: Tensor, classes: Tensor) -> ClassSums:
    """The four-class task's loss and what is logged beside it.

    Args:
        class_logits: N x 4, log-probabilities; classes: N, 0 to 3.
    """
    # nll_loss, as they are normalised already: a log_softmax would lose precision near log(1)
    return ClassSums(
        loss=F.nll_loss(class_logits, classes, reduction="sum"),
        correct=(class_logits.detach().argmax(dim=-1) == classes).sum(),
        counts=class_counts(classes),
    )


def class_counts(classes: Tensor) -> Tensor:
    """How many tokens each class has: 4; unlike `bincount`, it does not wait for the device."""
    return (classes[:, None] == torch.arange(len(CLASSES), device=classes.device)).sum(dim=0)
