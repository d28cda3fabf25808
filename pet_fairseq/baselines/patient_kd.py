"""Criterion `patient_kd`: distillation from a teacher's distributions and from its layers.

    loss = (1 - alpha) CE + alpha T^2 KL(teacher_T || student_T) + b patience

where patience is the mean squared distance between unit vectors of student and teacher states (S.
Sun et al., EMNLP 2019; see patience.py). If the widths differ, a linear map for each matched layer
takes the student's states to the teacher's width (as in TinyBERT, Jiao et al., 2020). The maps
belong to the criterion, not to the model.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Optional

import torch
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from fairseq.models.transformer import (
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from torch import Tensor, nn

from pet_fairseq.baselines.patience import patience_layers, unit_distance
from pet_fairseq.distillation.criterion import PetDistillationConfig, PetDistillationCriterion
from pet_fairseq.distillation.criterion_state import load_own_state
from pet_fairseq.distillation.token_positions import Positions, real_positions
from pet_fairseq.errors import UserError, option_of
from pet_fairseq.nn.hooks import forward_hooks, given_arguments
from pet_fairseq.nn.layers import STACKS

logger = logging.getLogger(__name__)


@dataclass
class PatientKdConfig(PetDistillationConfig):
    patience_weight: float = field(
        default=2.0,
        metadata={"help": "weight b of the distance between student and teacher states, 0 or more"},
    )
    patience_layers: str = field(
        default="skip",
        metadata={
            "help": "the teacher's layers that the student's layers follow, all but its last: skip "
            "(spread evenly), last (the ones below the teacher's last), or a list such as 2,3,5; "
            "ENCODER/DECODER, such as 2,3,5/last, for different ones in each stack"
        },
    )
    # fairseq fills a field from the option of the same name: these are the student's own
    encoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "width of the student's encoder"}
    )
    encoder_layers: Optional[int] = field(
        default=None, metadata={"help": "number of the student's encoder layers"}
    )
    decoder_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "width of the student's decoder"}
    )
    decoder_layers: Optional[int] = field(
        default=None, metadata={"help": "number of the student's decoder layers"}
    )


States = dict[str, list[Tensor]]  # by stack: the embedding and each layer's output, T x B x C


@contextmanager
def recorded_states(model: nn.Module) -> Iterator[States]:
    """Record the states of the model's latest run in the dictionary, without an extra run."""
    states: States = {}

    def keep_encoder(module, inputs, output) -> None:
        states["encoder"] = output["encoder_states"]

    def keep_decoder(module, inputs, output) -> None:
        states["decoder"] = output[1]["inner_states"]

    # transformer_align's `forward` does not ask its encoder for them
    asked = given_arguments(model.encoder, return_all_hiddens=True)
    with asked, forward_hooks((model.encoder, keep_encoder), (model.decoder, keep_decoder)):
        yield states


@register_criterion("patient_kd", dataclass=PatientKdConfig)
class PatientKdCriterion(PetDistillationCriterion):
    """pet_distillation plus a patience term, by which the student follows its teacher's layers.

    Maps between layers of different widths are trained and saved beside the model.
    """

    @classmethod
    def build_criterion(cls, cfg, task):
        check_options(cfg)
        criterion = super().build_criterion(cfg, task)
        criterion.match_layers(cfg)
        return criterion

    def match_layers(self, cfg: PatientKdConfig) -> None:
        """Decide which layers are compared, and make the maps between different widths.

        Raises:
            UserError: a teacher without such layers, or a wrong list of them.
        """
        teacher = only_transformer(self.teacher.models, cfg.teacher_path)
        self.patience_weight = cfg.patience_weight
        self.student_layers = {s: getattr(cfg, f"{s}_layers") for s in STACKS}
        self.layers = patience_layers(
            cfg.patience_layers,
            {s: len(getattr(teacher, s).layers) for s in STACKS},
            self.student_layers,
        )
        self.maps = nn.ModuleDict(
            {
                stack: nn.ModuleList(nn.Linear(ours, theirs, bias=False) for _ in layers)
                for stack, layers in self.layers.items()
                if (ours := getattr(cfg, f"{stack}_embed_dim"))
                != (theirs := getattr(teacher.cfg, stack).embed_dim)
            }
        )
        self.terms_are_logged = False
        logger.info(f"student layers 1, 2, ... follow the teacher's: {self.layers}")

    def forward_at(self, model: nn.Module, sample: dict, at: Positions) -> tuple[Tensor, int, dict]:
        """Loss summed over tokens, its denominator, and what to log."""
        if not self.terms_are_logged:
            check_student(model, self.student_layers)
        with recorded_states(model) as student, recorded_states(self.teacher.models[0]) as teacher:
            loss, sample_size, logging_output = super().forward_at(model, sample, at)
        source = real_positions(sample["net_input"]["src_tokens"], self.padding_idx)
        positions = {"encoder": source, "decoder": at}
        patience = self.patience(student, teacher, positions) * sample["ntokens"]
        loss = loss + self.patience_weight * patience
        logging_output["loss"] = loss.detach()
        logging_output["patience"] = patience.detach()
        self.log_terms_once(logging_output)
        return loss, sample_size, logging_output

    def patience(self, student: States, teacher: States, positions: dict[str, Positions]) -> Tensor:
        """Mean of the encoder's and the decoder's distance, each a mean over matched layers.

        Args:
            positions: by stack, where the states are compared.
        """
        distances = []
        for stack, layers in self.layers.items():
            at = positions[stack][::-1]  # states are T x B x C
            maps = self.maps[stack] if stack in self.maps else [nn.Identity()] * len(layers)
            per_layer = [
                unit_distance(to_teacher(student[stack][j][at]), teacher[stack][layer][at])
                for j, (layer, to_teacher) in enumerate(zip(layers, maps), start=1)
            ]
            if per_layer:
                distances.append(torch.stack(per_layer).mean())
        return torch.stack(distances).mean()

    def log_terms_once(self, log: dict) -> None:
        """Log the sizes of both distillation terms in the first batch, from which to set b."""
        if self.terms_are_logged:
            return
        self.terms_are_logged = True
        kl = self.alpha * self.temperature**2 * float(log["kl"]) / log["ntokens"]
        patience = self.patience_weight * float(log["patience"]) / log["ntokens"]
        logger.info(
            f"first batch, per token: distillation {kl:.3f} nats (alpha T^2 KL), patience term "
            f"{patience:.3f}; --patience-weight {self.patience_weight:g} sets their balance"
        )

    def load_state_dict(self, state_dict, strict=True):
        """Load the maps; they start anew if another criterion wrote the checkpoint."""
        load_own_state(self, state_dict, "patience maps")

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log what pet_distillation logs, and the mean patience, 0 to 4, without its weight."""
        super().reduce_metrics(logging_outputs)
        tokens = sum(log.get("ntokens", 0) for log in logging_outputs)
        if tokens:
            patience = sum(log.get("patience", 0) for log in logging_outputs)
            metrics.log_scalar("patience", patience / tokens, tokens, round=3)


def check_options(cfg: PatientKdConfig) -> None:
    """Raise UserError for values that cannot work, before the teacher is loaded."""
    if not cfg.patience_weight >= 0:
        raise UserError(f"--patience-weight {cfg.patience_weight:g}: give 0 or more")
    if cfg.teacher_cache_mb:
        raise UserError(
            f"--teacher-cache-mb {cfg.teacher_cache_mb:g}: the cache does not hold the layers' "
            "states that patient_kd compares; leave the option out"
        )
    for name in ("encoder_embed_dim", "encoder_layers", "decoder_embed_dim", "decoder_layers"):
        if getattr(cfg, name) is None:
            raise UserError(
                f"{option_of(name)}: patient_kd must know it; choose an --arch that has it"
            )


def only_transformer(teachers: list[nn.Module], path: str) -> TransformerModelBase:
    """The only teacher; raises UserError if there are several, or if it is not a Transformer."""
    if len(teachers) > 1:
        raise UserError(f"--teacher-path {path}: patient_kd takes one teacher, not an ensemble")
    if not isinstance(teachers[0], TransformerModelBase):
        raise UserError(
            f"--teacher-path {path}: patient_kd needs a Transformer encoder-decoder, not "
            f"{type(teachers[0]).__name__}; use --criterion pet_distillation"
        )
    return teachers[0]


def check_student(model: nn.Module, layers: dict[str, int]) -> None:
    """Raise UserError if a model does not give the states of all its layers in every batch."""
    for stack, kind in zip(STACKS, (TransformerEncoderBase, TransformerDecoderBase)):
        module = getattr(model, stack, None)
        if not isinstance(module, kind) or module.num_layers != layers[stack]:
            raise UserError(
                "--arch: patient_kd needs a Transformer encoder-decoder with --encoder-layers and "
                "--decoder-layers; use --criterion pet_distillation"
            )
        if getattr(module, f"{stack}_layerdrop") > 0:
            raise UserError(f"--{stack}-layerdrop: patient_kd needs every layer; leave it out")
