"""The model to compress: its checkpoint or its folder in CTranslate2, checked against the data."""

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, OmegaConf
from torch import nn

from pet_fairseq.checkpoints.dictionaries import check_dictionaries
from pet_fairseq.checkpoints.loading import DATA_REMEDY, load_task
from pet_fairseq.checkpoints.safe_loading import forget_embedding_files, read_checkpoint
from pet_fairseq.checkpoints.text_files import read_languages
from pet_fairseq.checkpoints.translation_checks import check_translation_model
from pet_fairseq.compress.engine import measure_engine
from pet_fairseq.errors import UserError
from pet_fairseq.export.ctranslate2 import (
    check_for_ctranslate2,
    has_ctranslate2_form,
    language_tokens,
)
from pet_fairseq.export.fairseq import check_plain_form
from pet_fairseq.export.size import int8_bytes
from pet_fairseq.multilingual.models import Bilingual
from pet_fairseq.nn.architectures import architecture_name, model_class
from pet_fairseq.nn.layers import STACKS
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.pet.params import stored_model
from pet_fairseq.predict.ctranslate2 import has_ctranslate2
from pet_fairseq.runner.fairseq_options import Options

POSITIONS = 1024  # fairseq's own number


@dataclass(frozen=True)
class Teacher:
    """A trained translation model and the task of the data to train its student on.

    Attributes:
        path: a checkpoint, or a folder in CTranslate2.
        trained: its configuration; of the model in CTranslate2 only the languages.
        layers: the number of layers, convolutions or LSTMs in its encoder and decoder.
        width: of its source embeddings.
        max_positions: the longest source and target that its student is to read.
        layer_parameters: as `count_parameters` counts them.
        int8_bytes: of its model.bin in int8, as predicted; None if it cannot be exported.
        embedding_options: of fairseq's Transformer, which share embeddings as it does.
        no_plain_form: why it cannot be exported to fairseq, None if it can.
        no_ctranslate2: why it cannot be measured in CTranslate2, None if it can.
        model: on torch's meta device: shapes, no numbers; None in CTranslate2, where a model gives
            translations and no distributions.
        embedding_files: options that name files of embeddings that it was trained with.
    """

    path: Path
    trained: DictConfig
    task: TranslationTask
    layers: tuple[int, int]
    width: int
    max_positions: tuple[int, int]
    layer_parameters: int
    int8_bytes: Optional[int]
    embedding_options: Options
    no_plain_form: Optional[str]
    no_ctranslate2: Optional[str]
    model: Optional[nn.Module] = None
    embedding_files: Sequence[str] = ()

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
    def fits_float16(self) -> bool:
        """Whether float16 holds its states."""
        return getattr(self.model, "fits_float16", True)

    @property
    def engines(self) -> list[str]:
        """What it can run in."""
        reasons = {"fairseq": self.no_plain_form, "ctranslate2": self.no_ctranslate2}
        return [engine for engine, why_not in reasons.items() if why_not is None]


def sharing_options(shares_all: bool, shares_target: bool) -> Options:
    """The options of fairseq's Transformer that share embeddings.

    Args:
        shares_all: of the source, the target and the output. shares_target: of the last two.
    """
    if shares_all:
        return ("--share-all-embeddings",)
    return ("--share-decoder-input-output-embed",) if shares_target else ()


def sharing_of(options: Namespace) -> Options:
    """The embeddings that a checkpoint shares, as `sharing_options` has it."""
    # fconv has a name of its own for it
    names = ("share_decoder_input_output_embed", "share_input_output_embed")
    shares_target = any(getattr(options, name, False) for name in names)
    return sharing_options(getattr(options, "share_all_embeddings", False), shares_target)


def width_of(model: nn.Module) -> int:
    """The width of a model's source embeddings; not all kinds have an option for it."""
    modules = model.encoder.modules()
    return next(m.embedding_dim for m in modules if isinstance(m, nn.Embedding))


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
    no_plain_form, no_ctranslate2 = why_not_exported(options, str(path))
    encoder, decoder = (number_of_layers(getattr(model, stack)) for stack in STACKS)
    source, target = map(int, model.max_positions())
    if issubclass(model_class(options), Bilingual):
        # language tokens make them differ; with one length an engine holds one table of positions
        source = target = min(source, target)
    return Teacher(
        path,
        state["cfg"],
        task,
        layers=(encoder, decoder),
        width=width_of(model),
        max_positions=(source, target),
        layer_parameters=count_parameters(model).layers,
        int8_bytes=int8_bytes(model) if no_plain_form is None else None,
        embedding_options=sharing_of(options),
        no_plain_form=no_plain_form,
        no_ctranslate2=no_ctranslate2,
        model=model,
        embedding_files=embedding_files,
    )


def read_engine_teacher(folder: Path, data: Path) -> Teacher:
    """Read a folder that `engine.take` wrote.

    Its student has nothing of its form: it reads as many words as models of fairseq do, and shares
    embeddings as far as the data's dictionaries are equal.

    Raises:
        UserError: it cannot be read, or the data are missing or of other languages.
    """
    trained = OmegaConf.create({"task": read_languages(folder)})
    task = load_task(trained.task, str(data))
    figures = measure_engine(folder)
    shares_all = task.source_dictionary == task.target_dictionary
    return Teacher(
        folder,
        trained,
        task,
        layers=figures.layers,
        width=figures.width,
        max_positions=(POSITIONS, POSITIONS),
        layer_parameters=figures.layer_parameters,
        int8_bytes=figures.bytes,
        embedding_options=sharing_options(shares_all, shares_target=True),
        no_plain_form=f"TEACHER {folder} is a model in CTranslate2",
        no_ctranslate2=None,
    )


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
