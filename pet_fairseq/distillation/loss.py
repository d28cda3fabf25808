"""The loss of word-level distillation, as pure functions (PET, section 2.2; Kim and Rush, 2016)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class TokenSums(NamedTuple):
    """Sums over tokens, in nats; agreement and correct are counts.

    Student and teacher agree where the student's best word is one of the teacher's best.
    """

    loss: Tensor
    nll: Tensor
    kl: Tensor
    agreement: Tensor
    correct: Tensor


def distillation_sums(
    logits: Tensor,
    teacher_log_probs: Tensor,
    target: Tensor,
    alpha: float,
    temperature: float,
    label_smoothing: float,
) -> TokenSums:
    """The loss of N tokens and what is logged beside it.

    Args:
        logits: N x V, the student's; teacher_log_probs: N x V, at the temperature; target: N.
        label_smoothing: epsilon, which is spread over the other V - 1 words, as in fairseq.
    Returns:
        sums over the tokens; `kl` is KL(teacher_T || student_T) without the factor T^2.
    """
    logits = logits.to(teacher_log_probs.dtype)
    log_probs = F.log_softmax(logits, dim=-1)
    nll = -log_probs.gather(-1, target[:, None]).sum()
    spread = label_smoothing / (logits.size(-1) - 1)
    cross_entropy = (1 - label_smoothing - spread) * nll - spread * log_probs.sum()
    softened = log_probs if temperature == 1 else F.log_softmax(logits / temperature, dim=-1)
    kl = F.kl_div(softened, teacher_log_probs, reduction="sum", log_target=True)
    choice = logits.detach().max(dim=-1).indices  # in half the time of argmax on a CPU
    teacher_of_choice = teacher_log_probs.gather(-1, choice[:, None])[:, 0]
    return TokenSums(
        loss=(1 - alpha) * cross_entropy + alpha * temperature**2 * kl,
        nll=nll.detach(),
        kl=kl.detach(),
        agreement=(teacher_of_choice == teacher_log_probs.amax(dim=-1)).sum(),
        correct=(choice == target).sum(),
    )


def ensemble_log_probs(logits: Sequence[Tensor], temperature: float) -> Tensor:
    """Log of the teachers' common distribution at a temperature: [N, V], float32.

    Several teachers count as one whose distribution is the mean of theirs (as in fairseq's
    ensembles); the temperature acts on that mean: p_T is proportional to p^(1/T).
    """
    if len(logits) == 1:
        return F.log_softmax(logits[0].float() / temperature, dim=-1)
    log_probs = torch.stack([F.log_softmax(z.float(), dim=-1) for z in logits])
    return F.log_softmax(log_probs.logsumexp(dim=0) / temperature, dim=-1)
