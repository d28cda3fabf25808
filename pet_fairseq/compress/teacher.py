"""The model to compress: its checkpoint, checked against the data."""

import importlib.util
from argparse import Namespace
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Optional

from fairseq.models.nat import FairseqNATModel
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig
from torch import nn

from pet_fairseq.architectures import architecture_name, model_class
from pet_fairseq.checkpoints.dictionaries import check_dictionaries
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.compress.export_size import int8_bytes
from pet_fairseq.decoding.export import check_ctranslate2_form
from pet_fairseq.decoding.plain import check_plain_form
from pet_fairseq.errors import UserError
from pet_fairseq.loading import DATA_REMEDY, load_task
from pet_fairseq.parameters import ParameterCounts, count_parameters
from pet_fairseq.pet.params import stored_model


@dataclass(frozen=True)
class Teacher:
    """A trained translation model and the task of the data to train its student on.

    Attributes:
        trained: the checkpoint's configuration.
        model: its model on torch's meta device: shapes, no numbers.
    """

    path: Path
    trained: DictConfig
    model: nn.Module
    task: TranslationTask

    @property
    def options(self) -> Namespace:
        """The options of its model."""
        return self.trained["model"]

    @property
    def vocabularies(self) -> tuple[int, int]:
        """The sizes of the source and target dictionaries."""
        return len(self.task.source_dictionary), len(self.task.target_dictionary)

    @property
    def languages(self) -> tuple[str, ...]:
        """The options of fairseq's commands that name the languages."""
        cfg = self.task.cfg
        return ("--source-lang", cfg.source_lang, "--target-lang", cfg.target_lang)

    @cached_property
    def counts(self) -> ParameterCounts:
        return count_parameters(self.model)

    @cached_property
    def int8_bytes(self) -> int:
        return int8_bytes(self.model)

    @property
    def max_positions(self) -> tuple[int, int]:
        """The longest source and target that it reads."""
        return self.options.max_source_positions, self.options.max_target_positions

    def why_no_plain_form(self) -> Optional[str]:
        """Why it cannot be exported, None if it can."""
        try:
            check_plain_form(self.options, str(self.path))
        except UserError as error:
            return str(error)
        return None

    def why_no_ctranslate2(self) -> Optional[str]:
        """Why it cannot be measured in CTranslate2, None if it can."""
        if not has_ctranslate2():
            return "CTranslate2 is missing (pip install 'pet-fairseq[ctranslate2]')"
        try:
            check_ctranslate2_form(self.options, str(self.path))
        except UserError as error:
            return f"CTranslate2 cannot hold the teacher ({error})"
        return None


def has_ctranslate2() -> bool:
    """Whether CTranslate2 is installed."""
    return importlib.util.find_spec("ctranslate2") is not None


def read_teacher(path: Path, data: Path) -> Teacher:
    """Read the checkpoint of a translation model, under safe loading.

    Raises:
        UserError: it is unreadable or not a left-to-right encoder-decoder Transformer, or the data
            are missing or made with other dictionaries.
    """
    state = load_checkpoint(str(path), "TEACHER")
    options = state["cfg"]["model"]
    kind = model_class(options)
    if not issubclass(kind, TransformerModelBase) or issubclass(kind, FairseqNATModel):
        raise UserError(
            f"TEACHER {path}: its architecture {architecture_name(options)} is not an "
            "encoder-decoder Transformer; give a translation model such as fairseq's transformer"
        )
    task = load_task(state["cfg"]["task"], str(data))
    check_dictionaries(state, str(path), "TEACHER", task, DATA_REMEDY)
    return Teacher(path, state["cfg"], stored_model(state, str(path), "TEACHER"), task)
