"""A frozen teacher, which gives its distributions over the next token for a batch."""

import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from fairseq.models import FairseqModel
from fairseq.models.lstm import LSTMEncoder
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from pet_fairseq.checkpoints.frozen_models import FrozenModels, load_frozen_models
from pet_fairseq.distillation.cache import TeacherCache
from pet_fairseq.distillation.loss import ensemble_log_probs
from pet_fairseq.distillation.outputs import Outputs, has_output_layer, run_model
from pet_fairseq.distillation.token_positions import Positions
from pet_fairseq.errors import UserError

logger = logging.getLogger(__name__)

TEACHER_PATH_HELP = "checkpoint of the teacher, or an ensemble a.pt:b.pt (required)"
TEACHER_CACHE_HELP = (
    "MiB of memory in which to keep the teacher's last hidden states by sentence pair, so that it "
    "is run once for a pair and not in every epoch; 0 keeps nothing; used on the CPU only"
)


@dataclass(frozen=True)
class TeacherOutput:
    """What a teacher computed for N target positions, short of its distributions.

    Attributes:
        features: of each model, N x C. output_layers: turn them into logits, N x V.
    """

    features: Sequence[Tensor]
    output_layers: Sequence[Callable[[Tensor], Tensor]]

    @torch.no_grad()
    def log_probs(self, rows: slice, temperature: float) -> Tensor:
        """The teacher's log-probabilities for some of the N, in float32: rows x V."""
        both = zip(self.features, self.output_layers)
        return ensemble_log_probs([layer(part[rows]) for part, layer in both], temperature)


class Teacher(FrozenModels):
    """One frozen model or an ensemble, in the device and dtype of the student.

    Args:
        paths: a checkpoint, or an ensemble `a.pt:b.pt`; task: must have the same dictionaries.
        cache_mb: MiB of features to keep in memory, see TeacherCache.
    Raises:
        UserError: a task without pairs of sentences, no path, an unusable checkpoint, a teacher
            that is no encoder-decoder or cannot read the task's batches (longer sentences, targets
            padded on the left), a size of the cache that is none, or a cache for a teacher without
            features.
    """

    def __init__(self, paths: str, task, cache_mb: float = 0):
        if not paths:
            raise UserError("--teacher-path: missing; give the checkpoint of the teacher")
        if not 0 <= cache_mb < math.inf:
            raise UserError(f"--teacher-cache-mb {cache_mb:g}: give a number of MiB, 0 or more")
        check_task(task)
        super().__init__(load_frozen_models(paths, "--teacher-path", task).models)
        check_encoder_decoders(self.models, paths)
        check_positions(self.models, task)
        check_padding(self.models, task, paths)
        self.cache = TeacherCache(cache_mb, task.target_dictionary.pad())
        self.has_warned = False
        if self.cache.enabled and not all(map(has_output_layer, self.models)):
            raise UserError(
                f"--teacher-cache-mb {cache_mb:g}: {paths.split(os.pathsep)[0]} is no Transformer "
                "with a plain output layer; leave the option out"
            )

    def ask(self, student: FairseqModel, sample: dict, at: Positions) -> TeacherOutput:
        """Run the teacher on a batch.

        Args:
            student: its device and dtype are taken over. sample: fairseq's batch. at: the N target
            positions to answer for.
        """
        parameter = next(student.parameters())
        models, net_input = self.like(parameter), sample["net_input"]
        with torch.no_grad():
            if not self.keeps_features_of(parameter.device):
                outputs = [self.run(model, net_input) for model in models]
                features = [output.features[at] for output in outputs]
                return TeacherOutput(features, [output.output_layer for output in outputs])
            decoders = [model.decoder for model in models]
            joined = self.cache.lookup(
                sample,
                at,
                lambda: torch.cat([self.run(m, net_input).features[at] for m in models], dim=-1),
            )
            features = joined.split([decoder.output_embed_dim for decoder in decoders], dim=-1)
            return TeacherOutput(features, [decoder.output_layer for decoder in decoders])

    def keeps_features_of(self, device: torch.device) -> bool:
        """Whether the cache is used on a device; the first time that it cannot be, it says so."""
        if not self.cache.enabled:
            return False
        if device.type == "cpu":
            return True
        if not self.has_warned:
            self.has_warned = True
            logger.warning(
                f"--teacher-cache-mb: not used on {device.type}; the cache is in main memory, and "
                "every lookup would stall the device"
            )
        return False

    def run(self, model: FairseqModel, net_input: dict) -> Outputs:
        """Run one model on a batch."""
        if isinstance(model.encoder, LSTMEncoder):  # fails where a batch is wider than its longest
            net_input = without_empty_columns(net_input, self.cache.padding_idx)
        return run_model(model, net_input)


def check_task(task) -> None:
    """Raise UserError if the task gives one text in place of a source and a target."""
    if not isinstance(task.max_positions(), tuple):
        raise UserError(
            "--task: gives no pairs of source and target, which distillation needs; give "
            "translation"
        )


def check_encoder_decoders(teachers: list[nn.Module], paths: str) -> None:
    """Raise UserError for a teacher that reads one text in place of a source and a target."""
    for teacher, path in zip(teachers, paths.split(os.pathsep)):
        if not isinstance(teacher.max_positions(), tuple):
            raise UserError(
                f"--teacher-path {path}: not an encoder-decoder; give a model that was trained "
                "with --task translation"
            )


def check_positions(teachers: list[nn.Module], task) -> None:
    """Raise UserError if the task lets longer sentences through than a teacher can read."""
    for teacher in teachers:
        for side, limit, wanted in zip(
            ("source", "target"), teacher.max_positions(), task.max_positions()
        ):
            if wanted > limit:
                raise UserError(
                    f"--max-{side}-positions {wanted}: the teacher reads {limit} tokens at most; "
                    f"give --max-{side}-positions {limit}"
                )


def check_padding(teachers: list[nn.Module], task, paths: str) -> None:
    """Raise UserError if the task pads targets on the left, and a teacher does not mask that.

    Only Transformers do; others rely on padding that stands behind the words. In the source all
    kinds take it on either side.
    """
    if not getattr(task.cfg or task.args, "left_pad_target", False):
        return
    for teacher, path in zip(teachers, paths.split(os.pathsep)):
        if not isinstance(teacher.decoder, TransformerDecoderBase):
            raise UserError(
                f"--left-pad-target: --teacher-path {path} holds {type(teacher).__name__}, which "
                "reads right-padded targets only; leave the option out"
            )


def without_empty_columns(net_input: dict, padding_idx: int) -> dict:
    """A batch without the source columns that are padding in all of its sentences."""
    source = net_input["src_tokens"]
    return {**net_input, "src_tokens": source[:, source.ne(padding_idx).any(dim=0)]}
