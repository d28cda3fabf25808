"""Criterion `variator_distillation`: plugins learn to leave the frozen model's outputs as they are.

    loss = MSE(outputs with plugins, without) + lambda * task loss

(Variator, eq. 1, and appendix B). The outputs are those of the stacks: what the decoder and the
output layer read, after the last layer norm of a stack that has one (Variator, section 3.3: "output
vectors", 4.2: "from the last layers"). A `variator` model is its own teacher, at ratio 1: it is in
memory once.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import II
from torch import Tensor, nn

from pet_fairseq.checkpoints.backbone import check_gives_logits
from pet_fairseq.checkpoints.dictionaries import check_class_numbers
from pet_fairseq.errors import UserError
from pet_fairseq.nn.gradients import zero_with_gradients
from pet_fairseq.nn.hooks import forward_hooks, given_arguments
from pet_fairseq.variator.backbone_wrapper import BackboneWrapper, find_encoder
from pet_fairseq.variator.stack_wrappers import left_aligned_order


class Outputs(NamedTuple):
    """The output vectors of a stack for a batch."""

    vectors: Tensor  # B x T x C
    padding: Tensor  # B x T, True = padding


@dataclass
class VariatorDistillationConfig(FairseqDataclass):
    task_loss_weight: float = field(
        default=0.0, metadata={"help": "lambda, weight of the task's own loss; 0 or more"}
    )
    classification_head_name: str = field(
        default="sentence_classification_head",
        metadata={"help": "the head that classifies sentences (--task sentence_prediction)"},
    )
    # fairseq's sentence_prediction task reads this option of its criterion
    regression_target: bool = field(
        default=False, metadata={"help": "not supported: targets are classes"}
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@contextmanager
def stack_outputs(model: nn.Module, sample: dict, padding_idx: int) -> Iterator[dict[str, Outputs]]:
    """Inside the block, a run of the model puts the outputs of its stacks into the dictionary."""
    outputs: dict[str, Outputs] = {}

    def keep_encoder(module, inputs, output) -> None:
        vectors = output["encoder_out"][0].transpose(0, 1)
        outputs["encoder"] = left_align(vectors, output["encoder_padding_mask"][0])

    def keep_decoder(module, inputs, output) -> None:
        padding = decoder_tokens(sample).eq(padding_idx)
        # in front there may be language tokens, which are no part of the sample
        vectors = output[1]["inner_states"][-1][-padding.size(1) :]
        norm = getattr(module, "layer_norm", None)
        if norm is not None:
            vectors = norm(vectors)
        outputs["decoder"] = Outputs(vectors.transpose(0, 1), padding)

    watched = []
    decoder = getattr(model, "decoder", None)
    if decoder is not None:
        watched.append((decoder, keep_decoder))
    if hasattr(model, "encoder"):
        holder, name = find_encoder(model)
        watched.append((getattr(holder, name), keep_encoder))
    with forward_hooks(*watched):
        yield outputs


def left_align(vectors: Tensor, padding: Tensor) -> Outputs:
    """Move the real positions of each sentence (B x T x C) to the left edge, in their order.

    The model with plugins moves sources that are padded on the left; its teacher does not.
    """
    order = left_aligned_order(padding)
    moved = vectors.gather(1, order[..., None].expand_as(vectors))
    return Outputs(moved, padding.gather(1, order))


def decoder_tokens(sample: dict) -> Tensor:
    """The decoder's input, B x T: a decoder-only model has it where others have the source."""
    net_input = sample["net_input"]
    return net_input.get("prev_output_tokens", net_input["src_tokens"])


def mean_distance(student: Outputs, teacher: Outputs) -> Tensor:
    """Mean squared difference over real positions and width; float32.

    The positions are masked, not selected: selecting would wait for the device.
    """
    difference = student.vectors.float() - teacher.vectors.float()
    difference = difference.masked_fill(teacher.padding[..., None], 0)
    real = teacher.padding.numel() - teacher.padding.sum()
    return difference.square().sum() / (real * difference.size(-1))


def percent_correct(meters: dict) -> float:
    """The accuracy in percent over all targets since the meters were reset."""
    correct, total = (float(meters[f"_{key}"].sum) for key in ("n_correct", "total"))
    return round(100 * correct / total, 2) if total else 0.0


NO_CLASS = -100  # never a target of classification, so that no target is ignored


@register_criterion("variator_distillation", dataclass=VariatorDistillationConfig)
class VariatorDistillationCriterion(FairseqCriterion):
    """Trains the plugins of `variator`, or all weights of the models that it competes with.

    The teacher is the model before it was changed.
    """

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
        """The loss times the sample size, the sample size (target tokens), and what to log.

        The loss is that of a batch, whose terms are means: of distances over positions, of the task
        loss over the targets that count. The task loss is logged as the mean over all targets.
        """
        classes = self.check(model, sample)
        with (
            torch.no_grad(),
            model.frozen() as frozen,
            stack_outputs(frozen, sample, self.padding_idx) as wanted,
        ):
            self.run(frozen, sample, classes)
        with stack_outputs(model, sample, self.padding_idx) as outputs:
            output = self.run(model, sample, classes)
        distances = [mean_distance(outputs[stack], wanted[stack]) for stack in wanted]
        distance = torch.stack(distances).sum()
        loss = distance
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        log = {
            "distance": distance.detach() * sample_size,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        if classes or self.task_loss_weight > 0:
            task_loss, correct, total = self.task_loss(model, output, sample, classes)
            loss = loss + self.task_loss_weight * task_loss
            log["task_loss"] = task_loss.detach() * total
            log |= {"n_correct": correct, "total": total}
        else:
            loss = loss + zero_with_gradients(output[:1])
        log["loss"] = loss.detach() * sample_size
        return loss * sample_size, sample_size, log

    def run(self, model, sample: dict, classes: bool):
        """The model's output: classes of sentences, or features where nothing needs the logits."""
        net_input = sample["net_input"]
        if classes:
            return model(**net_input, features_only=True, classification_head_name=self.head_name)
        option = {"features_only": self.task_loss_weight == 0}
        decoder = getattr(model, "decoder", None)
        if decoder is None:
            return model(**net_input, **option)
        # told itself: transformer_align's `forward` hands on no options, and may run the decoder
        # once more, for alignments, in which a position sees the next ones
        with given_arguments(decoder, **option, full_context_alignment=False):
            return model(**net_input)

    def check(self, model: BackboneWrapper, sample: dict) -> bool:
        """Check what a batch needs; returns whether the targets are classes of sentences.

        Raises:
            UserError: not a model around a backbone, or one without the logits of a task loss.
        """
        if not getattr(model, "has_teacher", False):  # of the model: its class may be that of DDP
            kinds = [n for n, c in MODEL_REGISTRY.items() if getattr(c, "has_teacher", False)]
            raise UserError(f"--arch: variator_distillation trains {', '.join(sorted(kinds))} only")
        if not isinstance(self.task, SentencePredictionTask):
            if self.task_loss_weight > 0:
                check_gives_logits(model, f"--task-loss-weight {self.task_loss_weight:g}")
            return False
        self.check_classes(model, sample)
        return True

    def check_classes(self, model: BackboneWrapper, sample: dict) -> None:
        """Check what is needed to classify sentences.

        Raises:
            UserError: the model has no such head, its decoder no input, or a sentence no class that
                the head knows; the latter is looked for on CPUs only, since a GPU would be waited
                for, and says so itself.
        """
        if self.head_name not in model.classification_heads:
            heads = ", ".join(model.classification_heads) or "those of another backbone"
            raise UserError(
                f"--classification-head-name {self.head_name}: not in the backbone; give one of "
                f"{heads}"
            )
        if model.decoder is not None and "prev_output_tokens" not in sample["net_input"]:
            raise UserError(
                "--add-prev-output-tokens: missing; an encoder-decoder classifies by its decoder"
            )
        if sample["target"].device.type == "cpu":
            classes = model.classification_heads[self.head_name].out_proj.out_features
            check_class_numbers(sample["target"].view(-1).tolist(), classes, self.task.cfg.data)

    def task_loss(
        self, model, output, sample: dict, classes: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Mean cross-entropy (nats), right answers, and how many targets count."""
        target = model.get_targets(sample, output)
        ignored = NO_CLASS if classes else self.padding_idx
        if "prompt" in (output[1] or {}):  # groups have seen its targets, except for the last one
            seen = output[1]["prompt"].roll(-1, dims=1)
            seen[:, -1] = False
            target = target.masked_fill(seen, ignored)
        target = target.view(-1)
        logits = output[0].reshape(len(target), -1).float()
        real = target.ne(ignored)
        total = real.sum()
        correct = ((logits.argmax(dim=-1) == target) & real).sum()
        loss = F.cross_entropy(logits, target, ignore_index=ignored, reduction="sum")
        return loss / total.clamp(min=1), correct, total

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
        """Log loss and distance; with a task loss also that (bits) and the accuracy (percent)."""

        def total(key: str) -> float:
            return sum(log.get(key, 0) for log in logging_outputs)

        size = total("sample_size")
        for key in ("loss", "distance"):
            metrics.log_scalar(key, total(key) / size, size, round=5)
        if not any("total" in log for log in logging_outputs):
            return
        targets = total("total")
        mean = total("task_loss") / (targets + (targets == 0)) / math.log(2)  # 0 for no targets
        metrics.log_scalar("task_loss", mean, targets, round=3)
        for key in ("n_correct", "total"):
            metrics.log_scalar_sum(f"_{key}", total(key))
        metrics.log_derived("accuracy", percent_correct)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
