"""Criterion `variator_distillation`: plugins learn to leave the frozen model's outputs as they are.

    loss = MSE(last layer's vectors with plugins, without) + lambda * task loss

A `variator` model is its own teacher, at ratio 1: it is in memory once (Variator, section 3.3).
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import MODEL_REGISTRY
from omegaconf import II
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.hooks import forward_hooks
from pet_fairseq.variator.backbone import BackboneWrapper, find_encoder

Vectors = dict[str, Tensor]  # by stack: N x C, the real positions sentence by sentence


@dataclass
class VariatorDistillationConfig(FairseqDataclass):
    task_loss_weight: float = field(
        default=0.0, metadata={"help": "lambda, weight of the task's own loss; 0 or more"}
    )
    classification_head_name: str = field(
        default="sentence_classification_head",
        metadata={"help": "the head of an encoder whose sentences have classes as targets"},
    )
    # fairseq's sentence_prediction task asks its criterion for this
    regression_target: bool = field(
        default=False, metadata={"help": "not supported: targets are classes"}
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@contextmanager
def last_vectors(model: nn.Module, sample: dict, padding_idx: int) -> Iterator[Vectors]:
    """Inside the block the model leaves its last layers' outputs in the dictionary when it runs."""
    vectors: Vectors = {}

    def keep_encoder(module, inputs, output) -> None:
        real = ~output["encoder_padding_mask"][0]  # B x T
        vectors["encoder"] = output["encoder_out"][0].transpose(0, 1)[real]

    def keep_decoder(module, inputs, output) -> None:
        real = decoder_tokens(sample).ne(padding_idx)
        vectors["decoder"] = output[1]["inner_states"][-1].transpose(0, 1)[real]

    watched = []
    decoder = getattr(model, "decoder", None)
    if decoder is not None:
        watched.append((decoder, keep_decoder))
    if hasattr(model, "encoder"):
        holder, name = find_encoder(model)
        watched.append((getattr(holder, name), keep_encoder))
    with forward_hooks(*watched):
        yield vectors


def decoder_tokens(sample: dict) -> Tensor:
    """The decoder's input, B x T: a decoder-only model has it where others have the source."""
    net_input = sample["net_input"]
    return net_input.get("prev_output_tokens", net_input["src_tokens"])


def vector_distance(student: Vectors, teacher: Vectors) -> Tensor:
    """Mean squared difference over positions and width, added up over the stacks; float32."""
    distances = [F.mse_loss(student[s].float(), teacher[s].float()) for s in teacher]
    return torch.stack(distances).sum()


@register_criterion("variator_distillation", dataclass=VariatorDistillationConfig)
class VariatorDistillationCriterion(FairseqCriterion):
    """Trains the plugins of `variator`, or all weights of `token_pruning` and `narrow_ffn`."""

    def __init__(
        self, task, sentence_avg, task_loss_weight, classification_head_name, regression_target
    ):
        super().__init__(task)
        if regression_target:
            raise UserError("--regression-target: not supported by variator_distillation")
        if not task_loss_weight >= 0:
            raise UserError(f"--task-loss-weight {task_loss_weight:g}: give 0 or more")
        self.sentence_avg = sentence_avg
        self.task_loss_weight = task_loss_weight
        self.head_name = classification_head_name

    def forward(self, model, sample, reduce=True):
        """The loss times the sample size, the sample size (target tokens), and what to log."""
        options, classes = self.call_options(model, sample)
        with (
            torch.no_grad(),
            model.frozen() as frozen,
            last_vectors(frozen, sample, self.padding_idx) as wanted,
        ):
            frozen(**sample["net_input"], **options)
        with last_vectors(model, sample, self.padding_idx) as vectors:
            output = model(**sample["net_input"], **options)
        distance = vector_distance(vectors, wanted)
        loss = distance
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        log = {
            "distance": distance.detach() * sample_size,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        if classes or self.task_loss_weight > 0:
            task_loss, correct, counted = self.task_loss(model, output, sample, classes)
            loss = loss + self.task_loss_weight * task_loss
            log["task_loss"] = task_loss.detach() * sample_size
            log |= {"n_correct": correct, "total": counted}
        log["loss"] = loss.detach() * sample_size
        return loss * sample_size, sample_size, log

    def call_options(self, model: BackboneWrapper, sample: dict) -> tuple[dict, bool]:
        """Options for calling the model, and whether the targets are classes of sentences.

        Raises:
            UserError: not a model around a backbone.
        """
        if not isinstance(model, BackboneWrapper):
            kinds = [n for n, c in MODEL_REGISTRY.items() if issubclass(c, BackboneWrapper)]
            raise UserError(f"--arch: variator_distillation trains {', '.join(sorted(kinds))} only")
        if model.decoder is None and sample["target"].numel() == sample["target"].size(0):
            return {"features_only": True, "classification_head_name": self.head_name}, True
        return {"features_only": self.task_loss_weight == 0}, False

    def task_loss(self, model, output, sample: dict, classes: bool) -> tuple[Tensor, Tensor, int]:
        """Mean cross-entropy (nats), right answers, and how many there were."""
        target = model.get_targets(sample, output)
        if "prompt" in (output[1] or {}):  # but for the last, its targets are in its groups
            seen = output[1]["prompt"].roll(-1, dims=1)
            seen[:, -1] = False
            target = target.masked_fill(seen, self.padding_idx)
        target = target.view(-1)
        logits = output[0].reshape(len(target), -1)
        if not classes:
            logits, target = (x[target.ne(self.padding_idx)] for x in (logits, target))
        correct = (logits.argmax(dim=-1) == target).sum()
        return F.cross_entropy(logits.float(), target), correct, len(target)

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
        """Log loss and distance; with a task loss also that (bits) and the accuracy (percent)."""

        def total(key: str) -> float:
            return sum(log.get(key, 0) for log in logging_outputs)

        size = total("sample_size")
        for key in ("loss", "distance"):
            metrics.log_scalar(key, total(key) / size, size, round=5)
        counted = total("total")
        if counted:
            metrics.log_scalar("task_loss", total("task_loss") / size / math.log(2), size, round=3)
            metrics.log_scalar("accuracy", 100.0 * total("n_correct") / counted, counted, round=2)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
