"""Criterion `pet_simplified_task`: warm-up of a student on a four-class task (PET, section 3.2).

The student's probabilities of the four classes come from its own distribution over the words, so
the warm-up trains exactly the parameters that distillation goes on with.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.data import FairseqDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import FairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import Tensor, nn

from pet_fairseq.checkpoints.subsets import batches_of_similar_length, even_steps
from pet_fairseq.distillation.chunks import ChunkSize, chunked_sums, chunks
from pet_fairseq.distillation.criterion_state import load_own_state
from pet_fairseq.distillation.outputs import has_output_layer, run_student
from pet_fairseq.distillation.teacher import TEACHER_CACHE_HELP, TEACHER_PATH_HELP, Teacher
from pet_fairseq.distillation.token_positions import real_positions
from pet_fairseq.errors import UserError
from pet_fairseq.nn.gradients import zero_with_gradients
from pet_fairseq.nn.to_device import move_batch, move_like
from pet_fairseq.pet.simplified_loss import (
    CLASSES,
    ClassSums,
    Judgement,
    class_counts,
    class_log_probs,
    class_sums,
    judge,
    median_confidence,
    teacher_classes,
)
from pet_fairseq.pet.simplified_thresholds import (
    DEFAULT_THRESHOLDS,
    fill_thresholds,
    log_classes,
    read_threshold,
)

SAMPLE_SENTENCES = 1000  # of the training set: for `auto` and for the class shares in the log
SAMPLE_TOKENS = 2000  # of a batch of these, padding included
REPLACE_NEEDS_TRANSFORMER = "--simplified-head replace: needs a Transformer student; give modelled"


@dataclass
class PetSimplifiedTaskConfig(FairseqDataclass):
    teacher_path: str = field(default="", metadata={"help": TEACHER_PATH_HELP})
    teacher_cache_mb: float = field(default=0, metadata={"help": TEACHER_CACHE_HELP})
    confident_correct: str = field(
        default=str(DEFAULT_THRESHOLDS[0]),
        metadata={
            "help": "the teacher's top probability from which it counts as confident where it is "
            "right, above 0 and up to 1; auto: the median on a sample of the training set"
        },
    )
    confident_wrong: str = field(
        default=str(DEFAULT_THRESHOLDS[1]),
        metadata={"help": "the same where the teacher is wrong: a number or auto"},
    )
    simplified_head: ChoiceEnum(["modelled", "project", "replace"]) = field(
        default="modelled",
        metadata={
            "help": "where the four class probabilities come from: modelled, the student's own "
            "distribution; project, a projection of its logits; replace, an output layer in place "
            "of its own (the last two are ablations; the layer that they add is not part of the "
            "model)"
        },
    )
    sentence_avg: bool = II("optimization.sentence_avg")
    # fairseq fills a field from the option of the same name: this is the student's own
    decoder_output_dim: Optional[int] = field(
        default=None, metadata={"help": "width of the student's decoder before its output layer"}
    )


@register_criterion("pet_simplified_task", dataclass=PetSimplifiedTaskConfig)
class PetSimplifiedTaskCriterion(FairseqCriterion):
    """Trains a student to predict which of four classes its teacher's answer belongs to."""

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
        self.given_thresholds = (
            read_threshold("--confident-correct", confident_correct),
            read_threshold("--confident-wrong", confident_wrong),
        )
        self.thresholds: Optional[tuple[float, float]] = None
        self.teacher = Teacher(teacher_path, task, teacher_cache_mb)
        self.chunk_size = ChunkSize(len(task.target_dictionary))
        self.head = simplified_head
        self.class_layer = build_class_layer(
            simplified_head, len(task.target_dictionary), decoder_output_dim
        )

    def forward(self, model, sample, reduce=True):
        """Loss summed over tokens, its denominator, and what to log."""
        move_like(self, next(model.parameters()))
        if self.thresholds is None:
            self.thresholds = self.choose_thresholds(model)
        sums = self.compute_sums(model, sample, self.thresholds)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": sums.loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
            "class_correct": sums.correct,
            **{f"class{i}": sums.counts[i] for i in range(len(CLASSES))},
        }
        return sums.loss, sample_size, logging_output

    def compute_sums(
        self, model: nn.Module, sample: dict, thresholds: tuple[float, float]
    ) -> ClassSums:
        """The sums over a batch's target tokens."""
        at = real_positions(sample["target"], self.padding_idx)
        target = sample["target"][at]
        if self.head == "replace" and not has_output_layer(model):
            raise UserError(REPLACE_NEEDS_TRANSFORMER)
        student = run_student(model, sample["net_input"])
        teacher = self.teacher.ask(model, sample, at)

        def chunk_sums(features: Tensor, rows: slice) -> ClassSums:
            judgement = judge(teacher.log_probs(rows, 1.0), target[rows])
            classes = teacher_classes(judgement, *thresholds)
            return class_sums(self.class_log_probs(student, features, target[rows]), classes)

        parameters = [] if self.head == "replace" else student.parameters
        if self.class_layer is not None:
            parameters = [*parameters, *self.class_layer.parameters()]
        parameters = [p for p in parameters if p.requires_grad]
        features = student.features[at]
        chunk_tokens = self.chunk_size.on(features.device)
        sums = chunked_sums(chunk_sums, features, parameters, chunk_tokens, ClassSums)
        if self.head != "replace":
            return sums
        return sums._replace(loss=sums.loss + zero_with_gradients(student.parameters))

    def class_log_probs(self, student, features: Tensor, target: Tensor) -> Tensor:
        """Logs of the student's four class probabilities by `--simplified-head`: N x 4."""
        if self.class_layer is None:  # --simplified-head modelled
            return class_log_probs(student.output_layer(features), target)
        inputs = features if self.head == "replace" else student.output_layer(features)
        return F.log_softmax(self.class_layer(inputs).float(), dim=-1)

    @torch.no_grad()
    def choose_thresholds(self, model: FairseqModel) -> tuple[float, float]:
        """The thresholds, those that are `auto` from a sample; logs the classes on the sample."""
        subset = self.task.cfg.train_subset
        if subset not in self.task.datasets:
            subset = list(self.task.datasets)[-1]
        parts = zip(*self.judge_sample(model, first_shard(self.task, subset)))
        judgement = Judgement(*map(torch.cat, parts))
        thresholds = fill_thresholds(self.given_thresholds, median_confidence(judgement))
        log_classes(thresholds, class_counts(teacher_classes(judgement, *thresholds)), subset)
        return thresholds

    def judge_sample(self, model: FairseqModel, dataset: FairseqDataset) -> Iterator[Judgement]:
        """Yield the teacher's judgements on a sample of a data set."""
        device = next(model.parameters()).device
        # not the training's own, which is chosen when a batch's activations are in memory
        chunk_tokens = ChunkSize(len(self.task.target_dictionary)).on(device)
        for batch, at in self.sample_batches(dataset, device):
            answer, target = self.teacher.ask(model, batch, at), batch["target"][at]
            for rows in chunks(len(target), chunk_tokens):
                yield judge(answer.log_probs(rows, 1.0), target[rows])

    def sample_batches(self, dataset: FairseqDataset, device: torch.device):
        """Yield small batches of a data set's sentences, evenly spread, and where targets are."""
        limits = self.task.max_positions()
        chosen = [
            i
            for i in even_steps(len(dataset), SAMPLE_SENTENCES)
            if all(size <= limit for size, limit in zip(dataset.size(i), limits))
        ]
        # a sentence that training takes may be longer
        max_tokens = max(SAMPLE_TOKENS, *map(dataset.num_tokens, chosen))
        for indices in batches_of_similar_length(dataset, chosen, max_tokens):
            batch = move_batch(dataset.collater([dataset[i] for i in indices]), device)
            yield batch, real_positions(batch["target"], self.padding_idx)

    def load_state_dict(self, state_dict, strict=True):
        """Load the class layer; it starts anew if another criterion wrote the checkpoint."""
        load_own_state(self, state_dict, "weights of the class layer")

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
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


def first_shard(task: FairseqTask, subset: str) -> FairseqDataset:
    """A data set as the first epoch has it, of several data folders the first one's.

    A training that is resumed in another folder gets the same thresholds so.
    """
    current = task.dataset(subset)
    if not task.has_sharded_data(subset):
        return current
    try:
        task.load_dataset(subset, epoch=1, combine=True)  # as fairseq's trainer does
        return task.dataset(subset)
    finally:
        task.datasets[subset] = current


def build_class_layer(head: str, vocabulary: int, width: Optional[int]) -> Optional[nn.Linear]:
    """The layer that `--simplified-head` adds in training: none, V -> 4 or C -> 4.

    Raises:
        UserError: `replace`, and the width of the student's decoder is not known.
    """
    if head == "modelled":
        return None
    if head != "replace":
        return nn.Linear(vocabulary, len(CLASSES))
    if width is None:
        raise UserError(REPLACE_NEEDS_TRANSFORMER)
    return nn.Linear(width, len(CLASSES))
