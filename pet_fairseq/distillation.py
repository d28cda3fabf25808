"""Criterion `pet_distillation`: word-level knowledge distillation from a frozen teacher.

    loss = (1 - alpha) CE(student, gold) + alpha T^2 KL(teacher_T || student_T)

summed over the target tokens that are not padding, with p_T = softmax(logits / T) over the
vocabulary (PET, section 3.4; Kim and Rush, 2016).
"""

import logging
import math
from dataclasses import dataclass, field
from typing import Callable, NamedTuple, Sequence, Tuple, Type

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.logging import metrics
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.parameters import compression_rate, count_parameters
from pet_fairseq.teacher import TEACHER_CACHE_HELP, TEACHER_PATH_HELP, Teacher, run_model

logger = logging.getLogger(__name__)

# numbers in one [tokens, vocabulary] block: 64 MB in float32
CHUNK_NUMBERS = 2**24

# --- the loss -------------------------------------------------------------------------------------


class TokenSums(NamedTuple):
    """Sums over tokens, in nats; agreement and correct are counts."""

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
        label_smoothing: epsilon, spread as fairseq does over the other V - 1 words.
    Returns:
        sums over the tokens. `kl` is KL(teacher_T || student_T) without its factor T^2.
    """
    logits = logits.to(teacher_log_probs.dtype)
    log_probs = F.log_softmax(logits, dim=-1)
    nll = -log_probs.gather(-1, target[:, None]).sum()
    spread = label_smoothing / (logits.size(-1) - 1)
    cross_entropy = (1 - label_smoothing - spread) * nll - spread * log_probs.sum()
    softened = log_probs if temperature == 1 else F.log_softmax(logits / temperature, dim=-1)
    kl = F.kl_div(softened, teacher_log_probs, reduction="sum", log_target=True)
    choice = logits.detach().argmax(dim=-1)
    return TokenSums(
        loss=(1 - alpha) * cross_entropy + alpha * temperature**2 * kl,
        nll=nll.detach(),
        kl=kl.detach(),
        agreement=(choice == teacher_log_probs.argmax(dim=-1)).sum(),
        correct=(choice == target).sum(),
    )


Sums = Sequence[Tensor]


class _ChunkedSums(torch.autograd.Function):
    """Sums over chunks of tokens, with the gradient taken chunk by chunk in the forward pass.

    No [tokens, vocabulary] tensor outlives its chunk, and nothing is computed twice: backward only
    multiplies the finished gradients by the incoming factor.
    """

    @staticmethod
    def forward(ctx, chunk_sums, chunk_tokens, features, *parameters):
        feature_grad = torch.zeros_like(features)
        # float32 at least: thousands of tokens add up here
        grads = [
            torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32))
            for p in parameters
        ]
        total = None
        for start in range(0, max(len(features), 1), chunk_tokens):
            rows = slice(start, start + chunk_tokens)
            with torch.enable_grad():
                chunk = features[rows].detach().requires_grad_()
                sums = chunk_sums(chunk, rows)
            found = torch.autograd.grad(sums.loss, [chunk, *parameters])
            feature_grad[rows] = found[0]
            for grad, more in zip(grads, found[1:]):
                grad += more
            total = _add(total, sums)
        ctx.save_for_backward(feature_grad, *grads)
        ctx.dtypes = [x.dtype for x in (features, *parameters)]
        ctx.mark_non_differentiable(*total[1:])
        return tuple(total)

    @staticmethod
    def backward(ctx, loss_grad, *_):
        grads = [(grad * loss_grad).to(dtype) for grad, dtype in zip(ctx.saved_tensors, ctx.dtypes)]
        return None, None, *grads


def _add(total: Sums | None, sums: Sums) -> Sums:
    sums = [value.detach() for value in sums]
    return sums if total is None else [a + b for a, b in zip(total, sums)]


def chunked_sums(
    chunk_sums: Callable[[Tensor, slice], Sums],
    features: Tensor,
    parameters: Sequence[Tensor],
    chunk_tokens: int,
    kind: Type[Sums] = TokenSums,
) -> Sums:
    """`chunk_sums(features, all rows)`, computed and differentiated in chunks of rows.

    Args:
        chunk_sums: takes some rows of the features and their slice, returns their sums as a
            `kind`, a named tuple with the loss first; may use `parameters` (and no other tensor
            that needs a gradient).
        features: N x C. parameters: every one takes part in the sums.
    """
    if torch.is_grad_enabled():
        return kind(*_ChunkedSums.apply(chunk_sums, chunk_tokens, features, *parameters))
    total = None
    for start in range(0, max(len(features), 1), chunk_tokens):
        rows = slice(start, start + chunk_tokens)
        total = _add(total, chunk_sums(features[rows], rows))
    return kind(*total)


def chunk_size(vocabulary: int) -> int:
    """How many tokens a chunk may have so that no block holds more than CHUNK_NUMBERS."""
    return max(1, CHUNK_NUMBERS // vocabulary)


# --- fairseq's side -------------------------------------------------------------------------------


@dataclass
class PetDistillationConfig(LabelSmoothedCrossEntropyCriterionConfig):
    label_smoothing: float = field(
        default=0.1, metadata={"help": "epsilon for label smoothing, 0 means no label smoothing"}
    )
    teacher_path: str = field(default="", metadata={"help": TEACHER_PATH_HELP})
    teacher_cache_mb: float = field(default=0, metadata={"help": TEACHER_CACHE_HELP})
    distillation_alpha: float = field(
        default=0.5,
        metadata={"help": "weight of the distillation term, 0 (only gold) to 1 (only teacher)"},
    )
    distillation_temperature: float = field(
        default=1.0,
        metadata={"help": "softens both distributions in the distillation term, above 0"},
    )


@register_criterion("pet_distillation", dataclass=PetDistillationConfig)
class PetDistillationCriterion(LabelSmoothedCrossEntropyCriterion):
    """Trains a student on the gold tokens and on a frozen teacher's distributions."""

    def __init__(
        self,
        task,
        sentence_avg,
        label_smoothing,
        ignore_prefix_size,
        report_accuracy,
        teacher_path,
        distillation_alpha,
        distillation_temperature,
        teacher_cache_mb=0,
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        check_options(distillation_alpha, distillation_temperature, label_smoothing)
        self.alpha = distillation_alpha
        self.temperature = distillation_temperature
        # no Module: the teacher stays out of state_dict, optimizer and DDP
        self.teacher = Teacher(teacher_path, task, teacher_cache_mb)
        self.rate_is_logged = False

    def forward(self, model, sample, reduce=True):
        """Loss summed over tokens, its denominator, and what to log."""
        self.log_rate_once(model)
        sums, tokens = self.compute_sums(model, sample)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": sums.loss.detach(),
            "nll_loss": sums.nll,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
            "kl": sums.kl,
            "agreement": sums.agreement,
            "compared": tokens,
        }
        if self.report_accuracy:
            logging_output["n_correct"] = sums.correct
            logging_output["total"] = tokens
        return sums.loss, sample_size, logging_output

    def compute_sums(self, model: nn.Module, sample: dict) -> Tuple[TokenSums, int]:
        """The sums over a batch's target tokens, and how many tokens those are."""
        real = sample["target"].ne(self.padding_idx)  # B x T
        real[:, : self.ignore_prefix_size] = False
        target = sample["target"][real]
        student = run_model(model, sample["net_input"])
        teacher_log_probs = self.teacher.ask(model, sample, real)

        def chunk_sums(features: Tensor, rows: slice) -> TokenSums:
            return distillation_sums(
                student.output_layer(features),
                teacher_log_probs(rows, self.temperature),
                target[rows],
                self.alpha,
                self.temperature,
                self.eps,
            )

        parameters = [p for p in student.parameters if p.requires_grad]
        chunk_tokens = chunk_size(len(self.task.target_dictionary))
        sums = chunked_sums(chunk_sums, student.features[real], parameters, chunk_tokens)
        return sums, len(target)

    def log_rate_once(self, model: nn.Module) -> None:
        if self.rate_is_logged:
            return
        self.rate_is_logged = True
        try:
            student, teacher = count_parameters(model), count_parameters(self.teacher.models[0])
        except AttributeError:  # a model without layers in the Transformer's sense
            return
        logger.info(
            f"layer parameters: student {student.layers:,}, teacher {teacher.layers:,}; "
            f"compression rate {compression_rate(student, teacher):.2f}% of the teacher"
        )

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log loss, nll_loss and ppl as fairseq does; kl in bits, agreement in percent."""
        super().reduce_metrics(logging_outputs)
        tokens = sum(log.get("compared", 0) for log in logging_outputs)
        if tokens == 0:
            return
        kl = sum(log.get("kl", 0) for log in logging_outputs)
        agreement = sum(log.get("agreement", 0) for log in logging_outputs)
        metrics.log_scalar("kl", kl / tokens / math.log(2), tokens, round=3)
        metrics.log_scalar("agreement", 100.0 * agreement / tokens, tokens, round=2)


def check_options(alpha: float, temperature: float, label_smoothing: float) -> None:
    """Raises UserError for values outside their ranges."""
    if not 0 <= alpha <= 1:
        raise UserError(f"--distillation-alpha {alpha}: give a number from 0 to 1")
    if not temperature > 0:
        raise UserError(f"--distillation-temperature {temperature}: give a number above 0")
    if not 0 <= label_smoothing < 1:
        raise UserError(f"--label-smoothing {label_smoothing}: give a number from 0 to below 1")
