"""Criterion `pet_distillation`: word-level knowledge distillation from a frozen teacher.

    loss = (1 - alpha) CE(student, gold) + alpha T^2 KL(teacher_T || student_T)

summed over the target tokens that are not padding, with p_T = softmax(logits / T) over the
vocabulary (PET, section 2.2; Kim and Rush, 2016).
"""

import logging
import math
from dataclasses import dataclass, field

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.logging import metrics
from torch import Tensor, nn

from pet_fairseq.distillation.chunks import ChunkSize, chunked_sums
from pet_fairseq.distillation.loss import TokenSums, distillation_sums
from pet_fairseq.distillation.outputs import run_student
from pet_fairseq.distillation.teacher import TEACHER_CACHE_HELP, TEACHER_PATH_HELP, Teacher
from pet_fairseq.distillation.token_positions import Positions, real_positions
from pet_fairseq.errors import UserError
from pet_fairseq.nn.parameter_counts import compression_rate, count_parameters
from pet_fairseq.nn.to_device import move_like

logger = logging.getLogger(__name__)


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
        metadata={
            "help": "temperature that softens both distributions in the distillation term, above 0"
        },
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
        self.chunk_size = ChunkSize(len(task.target_dictionary))
        self.rate_is_logged = False

    def forward(self, model, sample, reduce=True):
        """Loss summed over tokens, its denominator, and what to log."""
        at = real_positions(sample["target"], self.padding_idx, self.ignore_prefix_size)
        return self.forward_at(model, sample, at)

    def forward_at(self, model: nn.Module, sample: dict, at: Positions) -> tuple[Tensor, int, dict]:
        """What `forward` returns, for the target tokens at these positions."""
        self.log_rate_once(model)
        move_like(self, next(model.parameters()))
        sums = self.compute_sums(model, sample, at)
        tokens = len(at[0])
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

    def compute_sums(self, model: nn.Module, sample: dict, at: Positions) -> TokenSums:
        """The sums over a batch's target tokens at some positions."""
        target = sample["target"][at]
        student = run_student(model, sample["net_input"])
        teacher = self.teacher.ask(model, sample, at)

        def chunk_sums(features: Tensor, rows: slice) -> TokenSums:
            return distillation_sums(
                student.output_layer(features),
                teacher.log_probs(rows, self.temperature),
                target[rows],
                self.alpha,
                self.temperature,
                self.eps,
            )

        parameters = [p for p in student.parameters if p.requires_grad]
        features = student.features[at]
        chunk_tokens = self.chunk_size.on(features.device)
        return chunked_sums(chunk_sums, features, parameters, chunk_tokens, TokenSums)

    def log_rate_once(self, model: nn.Module) -> None:
        """Log the student's compression rate against this teacher, at the first call."""
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
        # two students may differ in the third decimal
        metrics.log_scalar("kl", kl / tokens / math.log(2), tokens, round=5)
        metrics.log_scalar("agreement", 100.0 * agreement / tokens, tokens, round=2)


def check_options(alpha: float, temperature: float, label_smoothing: float) -> None:
    """Raise UserError for values outside their ranges."""
    if not 0 <= alpha <= 1:
        raise UserError(f"--distillation-alpha {alpha}: give a number from 0 to 1")
    if not temperature > 0:
        raise UserError(f"--distillation-temperature {temperature}: give a number above 0")
    if not 0 <= label_smoothing < 1:
        raise UserError(f"--label-smoothing {label_smoothing}: give a number from 0 to below 1")
