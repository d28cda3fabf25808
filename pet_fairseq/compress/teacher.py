"""The model to compress: its checkpoint, checked against the data."""

import os
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig
from torch import nn

from pet_fairseq.checkpoints.dictionaries import check_dictionaries
from pet_fairseq.checkpoints.loading import DATA_REMEDY, load_task
from pet_fairseq.checkpoints.safe_loading import forget_embedding_files, read_checkpoint
from pet_fairseq.checkpoints.translation import check_translation_model
from pet_fairseq.decoding.ctranslate2_form import has_ctranslate2_form
from pet_fairseq.decoding.export import check_for_ctranslate2, has_ctranslate2, language_tokens
from pet_fairseq.decoding.plain import check_plain_form
from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import architecture_name, model_class
from pet_fairseq.nn.layers import STACKS
from pet_fairseq.pet.params import stored_model
from pet_fairseq.runner.options import Options


@dataclass(frozen=True)
class Teacher:
    """A trained translation model and the task of the data to train its student on.

    Attributes:
        trained: the checkpoint's configuration.
        model: its model on torch's meta device: shapes, no numbers.
        embedding_files: options that name files of embeddings that it was trained with.
        no_plain_form: why it cannot be exported, None if it can.
        no_ctranslate2: why it cannot be measured in CTranslate2, None if it can.
    """

    path: Path
    trained: DictConfig
    model: nn.Module
    task: TranslationTask
    embedding_files: list[str]
    no_plain_form: Optional[str]
    no_ctranslate2: Optional[str]

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

    @property
    def overrides(self) -> Options:
        """The options with which fairseq-generate needs no files of embeddings."""
        if not self.embedding_files:
            return ()
        return ("--model-overrides", str(dict.fromkeys(self.embedding_files)))

    @property
    def engines(self) -> list[str]:
        """What it can be exported to."""
        reasons = {"fairseq": self.no_plain_form, "ctranslate2": self.no_ctranslate2}
        return [engine for engine, why_not in reasons.items() if why_not is None]

    @property
    def max_positions(self) -> tuple[int, int]:
        """The longest source and target that it reads."""
        source, target = self.model.max_positions()
        return int(source), int(target)

    @property
    def width(self) -> int:
        """The width of its source embeddings; not all kinds have an option for it."""
        modules = self.model.encoder.modules()
        return next(m.embedding_dim for m in modules if isinstance(m, nn.Embedding))

    @property
    def layers(self) -> tuple[int, int]:
        """The number of layers, convolutions or LSTMs in its encoder and decoder."""
        encoder, decoder = (number_of_layers(getattr(self.model, stack)) for stack in STACKS)
        return encoder, decoder

    @property
    def embedding_options(self) -> Options:
        """The options of fairseq's Transformer that share embeddings as it does."""
        if getattr(self.options, "share_all_embeddings", False):
            return ("--share-all-embeddings",)
        # fconv has a name of its own for it
        names = ("share_decoder_input_output_embed", "share_input_output_embed")
        if any(getattr(self.options, name, False) for name in names):
            return ("--share-decoder-input-output-embed",)
        return ()


def number_of_layers(stack: nn.Module) -> int:
    """The layers of an encoder or a decoder, under the names of fairseq's kinds; else 0."""
    for name, module in stack.named_modules():
        if isinstance(module, nn.LSTM):
            return module.num_layers
        if name.split(".")[-1] in ("layers", "convolutions"):
            return len(module)
    return 0


def read_teacher(path: Path, data: Path, more_data: tuple[Path, ...] = ()) -> Teacher:
    """Read the checkpoint of a translation model, under safe loading.

    Args:
        more_data: further folders with training sets, whose dictionaries have to be those of data.
    Raises:
        UserError: it is unreadable or not an encoder-decoder that translates text from left to
            right, or the data are missing or made with other dictionaries.
    """
    state = read_checkpoint(str(path), "TEACHER", mapped=True)  # of its tensors only the shapes
    embedding_files = forget_embedding_files(state)
    check_translation_model(state, str(path), "TEACHER")
    options = state["cfg"]["model"]
    if not issubclass(model_class(options), FairseqEncoderDecoderModel):
        raise UserError(
            f"TEACHER {path}: its architecture {architecture_name(options)} is not an "
            "encoder-decoder; give a translation model such as fairseq's transformer"
        )
    trained = state["cfg"]["task"]
    task = load_task(trained, os.pathsep.join(map(str, (data, *more_data))))
    check_dictionaries(state, str(path), "TEACHER", task, DATA_REMEDY)
    for folder in more_data:
        check_same_dictionaries(load_task(trained, str(folder)), task, f"--data {folder}", data)
    model = stored_model(state, str(path), "TEACHER")
    reasons = why_not_exported(options, str(path))
    return Teacher(path, state["cfg"], model, task, embedding_files, *reasons)


def check_same_dictionaries(
    task: TranslationTask, ours: TranslationTask, folder: str, data: Path
) -> None:
    """Raise UserError if a task has other dictionaries than ours.

    Args:
        folder: its folder, and the option that named it. data: the folder of ours.
    """
    for name in ("source_dictionary", "target_dictionary"):
        if getattr(task, name) != getattr(ours, name):
            raise UserError(f"{folder}: made with other dictionaries than {data}")


def why_not_exported(options: Namespace, path: str) -> tuple[Optional[str], Optional[str]]:
    """Why a model has no plain form, and why it cannot be measured in CTranslate2; None if not."""
    no_plain_form = refusal(check_plain_form, options, path)
    if not has_ctranslate2():
        return no_plain_form, "CTranslate2 is missing (pip install 'pet-fairseq[ctranslate2]')"
    is_held = has_ctranslate2_form(options) or language_tokens(options) is not None
    if no_plain_form is not None and not is_held:
        return no_plain_form, no_plain_form
    not_held = refusal(check_for_ctranslate2, options)
    return no_plain_form, not_held and f"CTranslate2 cannot hold the teacher ({not_held})"


def refusal(check: Callable[..., object], *model: Any) -> Optional[str]:
    """What a check of a model refuses, None if nothing."""
    try:
        check(*model)
    except UserError as error:
        return str(error)
    return None
