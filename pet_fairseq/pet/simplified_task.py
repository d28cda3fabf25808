"""Criterion `pet_simplified_task`: warm-up of a student on a four-class task (PET, section 3.3).

For each target token, what the teacher does decides the class (PET, Table 2): 0 right and
confident, 1 right, not confident, 2 wrong and confident, 3 wrong, not confident. The student's
probabilities of these classes come from its own distribution (PET, eq. 3.1-3.3), so the warm-up
trains exactly the parameters that distillation goes on with.
"""

import logging
import math
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import FairseqModel
from omegaconf import II
from torch import Tensor, nn

from pet_fairseq.distillation.chunks import chunk_size, chunked_sums
from pet_fairseq.distillation.outputs import run_model
from pet_fairseq.distillation.teacher import TEACHER_CACHE_HELP, TEACHER_PATH_HELP, Teacher
from pet_fairseq.errors import UserError

logger = logging.getLogger(__name__)

CLASSES = ("confidently right", "right", "confidently wrong", "wrong")
# the values of the thesis's released code; the thesis itself gives none
DEFAULT_THRESHOLDS = (0.9, 0.7)
SAMPLE_SENTENCES = 1000  # of the training set: for `auto` and for the class shares in the log

# --- the task -------------------------------------------------------------------------------------


class Judgement(NamedTuple):
    """What the teacher does with N tokens."""

    top: Tensor  # N, log of its highest probability
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


def median_confidence(judgement: Judgement) -> Tuple[Optional[float], Optional[float]]:
    """The median top probability where the teacher is right, and where it is wrong.

    None for a side without any token.
    """
    top, right = judgement.top.exp(), judgement.right
    return tuple(part.median().item() if len(part) else None for part in (top[right], top[~right]))


def log_complement(logits: Tensor, index: Tensor) -> Tensor:
    """log(1 - softmax(logits)[index]): N, exact also where that probability rounds to 1.

    Args:
        logits: N x V; index: N.
    """
    others = logits.scatter(-1, index[:, None], -math.inf)
    return others.logsumexp(dim=-1) - logits.logsumexp(dim=-1)


def class_log_probs(logits: Tensor, target: Tensor) -> Tensor:
    """log of the student's four class probabilities (PET, eq. 3.1-3.3): N x 4.

    With c the student's top probability and r that of the gold token they are c r, (1 - c) r,
    c (1 - r) and (1 - c)(1 - r).

    Args:
        logits: N x V, in any precision, computed in float32 at least; target: N.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probs = F.log_softmax(logits, dim=-1)
    choice = logits.detach().argmax(dim=-1)
    c, r = (log_probs.gather(-1, index[:, None])[:, 0] for index in (choice, target))
    not_c, not_r = log_complement(logits, choice), log_complement(logits, target)
    return torch.stack([c + r, not_c + r, c + not_r, not_c + not_r], dim=-1)


class ClassSums(NamedTuple):
    """Sums over tokens: the loss in nats, tokens whose class is met, tokens per class (4)."""

    loss: Tensor
    correct: Tensor
    shares: Tensor


def class_sums(class_logits: Tensor, classes: Tensor) -> ClassSums:
    """The four-class task's loss and what is logged beside it.

    Args:
        class_logits: N x 4, log-probabilities up to a constant per token; classes: N.
    """
    # nll_loss where they are normalised already: log_softmax would lose what is near log(1)
    return ClassSums(
        loss=F.nll_loss(class_logits, classes, reduction="sum"),
        correct=(class_logits.detach().argmax(dim=-1) == classes).sum(),
        shares=torch.bincount(classes, minlength=len(CLASSES)),
    )


# --- fairseq's side -------------------------------------------------------------------------------


@dataclass
class PetSimplifiedTaskConfig(FairseqDataclass):
    teacher_path: str = field(default="", metadata={"help": TEACHER_PATH_HELP})
    teacher_cache_mb: float = field(default=0, metadata={"help": TEACHER_CACHE_HELP})
    confident_correct: str = field(
        default=str(DEFAULT_THRESHOLDS[0]),
        metadata={
            "help": "top probability from which the teacher counts as confident where it is right; "
            "auto: the median of those on a sample of the training set"
        },
    )
    confident_wrong: str = field(
        default=str(DEFAULT_THRESHOLDS[1]),
        metadata={"help": "the same where the teacher is wrong; a number or auto"},
    )
    simplified_head: ChoiceEnum(["modelled", "project", "replace"]) = field(
        default="modelled",
        metadata={
            "help": "where the four classes come from: modelled on the student's distribution, "
            "a projection of its logits, or an output layer in place of its own (the last two are "
            "ablations; what they add is not part of the model)"
        },
    )
    sentence_avg: bool = II("optimization.sentence_avg")
    # no help: taken from the model's options, not an option itself
    decoder_output_dim: Optional[int] = II("model.decoder_output_dim")


@register_criterion("pet_simplified_task", dataclass=PetSimplifiedTaskConfig)
class PetSimplifiedTaskCriterion(FairseqCriterion):
    """Trains a student to tell the teacher's four cases apart; a model for `pet_distillation`."""

    def __init__(
        self,
        task,
        sentence_avg,
        teacher_path,
        teacher_cache_mb,
        confident_correct,
        confident_wrong,
        simplified_head,
        decoder_output_dim,
    ):
        super().__init__(task)
        self.sentence_avg = sentence_avg
        self.given = (
            read_threshold("--confident-correct", confident_correct),
            read_threshold("--confident-wrong", confident_wrong),
        )
        self.thresholds: Optional[Tuple[float, float]] = None
        self.teacher = Teacher(teacher_path, task, teacher_cache_mb)
        self.head = simplified_head
        self.class_layer = build_class_layer(
            simplified_head, len(task.target_dictionary), decoder_output_dim
        )

    def forward(self, model, sample, reduce=True):
        """Loss summed over tokens, its denominator, and what to log."""
        if self.thresholds is None:
            self.thresholds = self.choose_thresholds(model)
        sums = self.compute_sums(model, sample)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": sums.loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
            "class_correct": sums.correct,
            **{f"class{i}": sums.shares[i] for i in range(len(CLASSES))},
        }
        return sums.loss, sample_size, logging_output

    def compute_sums(self, model: nn.Module, sample: dict) -> ClassSums:
        """The sums over a batch's target tokens."""
        real = sample["target"].ne(self.padding_idx)  # B x T
        target = sample["target"][real]
        student = run_model(model, sample["net_input"])
        teacher_log_probs = self.teacher.ask(model, sample, real)

        def chunk_sums(features: Tensor, rows: slice) -> ClassSums:
            judgement = judge(teacher_log_probs(rows, 1.0), target[rows])
            classes = teacher_classes(judgement, *self.thresholds)
            return class_sums(self.class_log_probs(student, features, target[rows]), classes)

        parameters = [] if self.head == "replace" else student.parameters
        if self.class_layer is not None:
            parameters = [*parameters, *self.class_layer.parameters()]
        parameters = [p for p in parameters if p.requires_grad]
        chunk_tokens = chunk_size(len(self.task.target_dictionary))
        features = student.features[real]
        return chunked_sums(chunk_sums, features, parameters, chunk_tokens, ClassSums)

    def class_log_probs(self, student, features: Tensor, target: Tensor) -> Tensor:
        """The student's four class probabilities, as `--simplified-head` says: N x 4, log."""
        if self.head == "modelled":
            return class_log_probs(student.output_layer(features), target)
        inputs = features if self.head == "replace" else student.output_layer(features)
        return F.log_softmax(self.class_layer(inputs).float(), dim=-1)

    @torch.no_grad()
    def choose_thresholds(self, model: FairseqModel) -> Tuple[float, float]:
        """The thresholds, `auto` ones from a sample of the training set; warns of empty classes."""
        judgements = [
            judge(self.teacher.ask(model, batch, real)(slice(None), 1.0), batch["target"][real])
            for batch, real in self.sample_batches(next(model.parameters()).device)
        ]
        judgement = Judgement(*(torch.cat(parts) for parts in zip(*judgements)))
        thresholds = fill_thresholds(self.given, median_confidence(judgement))
        shares = torch.bincount(teacher_classes(judgement, *thresholds), minlength=len(CLASSES))
        log_classes(thresholds, shares)
        return thresholds

    def sample_batches(self, device: torch.device):
        """Small batches of sentences spread over the training set, and where they are real."""
        name = "train" if "train" in self.task.datasets else next(iter(self.task.datasets))
        dataset = self.task.dataset(name)
        step = max(1, len(dataset) // SAMPLE_SENTENCES)
        limits = self.task.max_positions()
        chosen = [
            i
            for i in range(0, len(dataset), step)
            if all(size <= limit for size, limit in zip(dataset.size(i), limits))
        ][:SAMPLE_SENTENCES]
        for start in range(0, len(chosen), 50):
            batch = dataset.collater([dataset[i] for i in chosen[start : start + 50]])
            batch = utils.move_to_cuda(batch, device) if device.type == "cuda" else batch
            yield batch, batch["target"].ne(self.padding_idx)

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict]) -> None:
        """Log loss (bits), class_accuracy and the four class shares (percent)."""

        def total(key: str) -> float:
            return sum(log.get(key, 0) for log in logging_outputs)

        tokens = sum(total(f"class{i}") for i in range(len(CLASSES)))
        sample_size = total("sample_size")
        metrics.log_scalar("loss", total("loss") / sample_size / math.log(2), sample_size, round=3)
        accuracy = 100.0 * total("class_correct") / tokens
        metrics.log_scalar("class_accuracy", accuracy, tokens, round=2)
        for i in range(len(CLASSES)):
            metrics.log_scalar(f"class{i}", 100.0 * total(f"class{i}") / tokens, tokens, round=2)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def read_threshold(option: str, text: str) -> Optional[float]:
    """A threshold as a number, None for `auto`.

    Raises:
        UserError: not a number in (0, 1].
    """
    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise UserError(f"{option} {text}: give a number above 0 and up to 1, or auto")
    return value


def fill_thresholds(
    given: Tuple[Optional[float], Optional[float]],
    medians: Tuple[Optional[float], Optional[float]],
) -> Tuple[float, float]:
    """The given thresholds, the medians for those that are `auto`, defaults where there is none."""
    return tuple(
        next(value for value in choices if value is not None)
        for choices in zip(given, medians, DEFAULT_THRESHOLDS)
    )


def log_classes(thresholds: Tuple[float, float], shares: Tensor) -> None:
    """Log the class shares on the sample; a class without tokens is a warning."""
    percent = 100.0 * shares / shares.sum()
    listing = ", ".join(f"{name} {share:.1f}%" for name, share in zip(CLASSES, percent.tolist()))
    logger.info(
        f"thresholds {thresholds[0]:.4f} (right) and {thresholds[1]:.4f} (wrong); the teacher on "
        f"{int(shares.sum()):,} tokens of the training set: {listing}"
    )
    for i, (name, count) in enumerate(zip(CLASSES, shares.tolist())):
        if count == 0:
            option = "--confident-correct" if i < 2 else "--confident-wrong"
            logger.warning(
                f"{option} {thresholds[i // 2]:.4f}: no token of the sample is {name}; the student "
                "learns nothing about this class; try auto, or another teacher"
            )


def build_class_layer(head: str, vocabulary: int, width: Optional[int]) -> Optional[nn.Linear]:
    """What `--simplified-head` adds while training: nothing, V -> 4 or C -> 4.

    Raises:
        UserError: the model's output width is not known.
    """
    if head == "modelled":
        return None
    if head == "replace" and width is None:
        raise UserError("--simplified-head replace: needs a Transformer student; give modelled")
    return nn.Linear(width if head == "replace" else vocabulary, len(CLASSES))
