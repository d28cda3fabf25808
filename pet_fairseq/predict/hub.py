"""`pet_fairseq.from_pretrained`: translate or classify text from Python, with any model here."""

import os
from pathlib import Path
from typing import Any, Optional, Union

from fairseq import checkpoint_utils, tasks
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks import TASK_REGISTRY, FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, open_dict
from torch import Tensor

from pet_fairseq.checkpoints.dictionaries import check_dictionaries, own_data
from pet_fairseq.checkpoints.known_models import check_architecture, naming_mismatch
from pet_fairseq.checkpoints.loading import load_task
from pet_fairseq.checkpoints.model_files import find_model_files
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.text_files import SIDES, folders_around
from pet_fairseq.checkpoints.translation_checks import check_one_language_pair
from pet_fairseq.decoding.task import PetTranslationTask
from pet_fairseq.errors import UserError
from pet_fairseq.predict.load_model import build_to_answer, is_classification, make_predictor
from pet_fairseq.predict.predictor import Predictor
from pet_fairseq.predict.text import (
    build_text_of,
    find_subword_file,
    join_bytes_of,
    languages_of,
    options_of_text,
)

TRANSLATION = (TranslationTask, PetTranslationTask)
REMEDY = "give as data the folder that it was trained on, or one made with its dictionaries"


def from_pretrained(
    path: str,
    data: Optional[str] = None,
    segmentation: Optional[str] = None,
    tokenizer: Optional[str] = None,
    **options: Any,
) -> Union[GeneratorHubInterface, Predictor]:
    """Load a model that takes text: a translator, a language model or a classifier.

    A translator is fairseq's hub interface, with `translate(sentences, beam=5)`; so is a language
    model, with `sample(prompts, beam=1)`. A classifier has
    `predict(texts, compression_ratio=None)`, in which a pair of sentences is a tuple; it answers
    with a label and probabilities.

    Args:
        path: a checkpoint, a folder from pet-fairseq import-hf, an ensemble `a.pt:b.pt`, or plugin
            files `a.pt:b.pt` of a classifier.
        data: the folder with its dictionaries; by default the one that the checkpoint names.
        segmentation: a file of BPE codes (subword-nmt), a SentencePiece model (`*.model`, `*.spm`)
            or a tokenizer.json, "" for none; by default the first of bpe.codes, codes, code,
            bpecodes, spm.model, sentencepiece.bpe.model, source.spm and tokenizer.json that goes
            with the dictionary's words and is in the data folder, above it, or beside the
            checkpoint, its backbone or its teacher.
        tokenizer: the name of one of fairseq's tokenizers, "space" for none; by default "moses"
            with BPE codes, else none.
        options: other values for options of the model, such as `compression_ratio=8`; unless it is
            a classifier, also for those of its task or of generation, such as `add_bos_token=True`
            or `lenpen=0.6`.
    Raises:
        UserError: a file that is missing or unreadable, dictionaries that are not the model's, a
            model of subwords without a subword model, a multilingual model, one that
            generates no text and has no classes, or an option that neither the model nor its task
            nor generation has.
    """
    paths, data = find_model_files(path, data, "path")
    state = _load(paths[0])
    data = data or own_data(state["cfg"].task.data, paths[0]).split(os.pathsep)[0]
    if not Path(data).is_dir():
        raise UserError(f"data {data}: no such folder; give one made by fairseq-preprocess")
    if is_classification(state["cfg"].task._name):
        return _classifier(state, paths, data, segmentation, tokenizer, options)
    return _translator(state, paths, data, segmentation, tokenizer, options)


def _load(path: str) -> dict:
    state = load_checkpoint(path, "path")
    check_architecture(state["cfg"], path, "path")
    check_one_language_pair(state, path, "path")
    return state


def _classifier(
    state: dict,
    paths: list[str],
    data: str,
    segmentation: Optional[str],
    tokenizer: Optional[str],
    options: dict,
) -> Predictor:
    model, task = build_to_answer(state, paths, "path", data, **options)
    folders = folders_around(paths[0], state["cfg"])
    text = build_text_of(*_text_options(task, segmentation, tokenizer, folders))
    return make_predictor(model, task, text, "path")


def _translator(
    state: dict,
    paths: list[str],
    data: str,
    segmentation: Optional[str],
    tokenizer: Optional[str],
    options: dict,
) -> GeneratorHubInterface:
    cfg = state["cfg"]
    models, task = [], None
    for file in paths:
        state = state if file == paths[0] else _load(file)
        trained = own_data(state["cfg"].task.data, file)
        state["args"] = None  # fairseq has made cfg of it
        _override(state["cfg"], options)
        task = task or _build_task(cfg, data, file)
        check_dictionaries(state, file, "path", task, REMEDY, trained)
        with naming_mismatch(state["cfg"], file, "path"):
            loaded, _ = checkpoint_utils.load_model_ensemble([file], task=task, state=state)
        models += loaded
    with open_dict(cfg):
        cfg.task.data = data
        folders = folders_around(paths[0], cfg)
        cfg.tokenizer, cfg.bpe = _text_options(task, segmentation, tokenizer, folders)
    interface = CompletedLines if hasattr(task, "complete_line") else GeneratorHubInterface
    made = interface(cfg, task, models)
    made.bpe = join_bytes_of(made.bpe)
    return made


class CompletedLines(GeneratorHubInterface):
    """fairseq's interface for a task that puts text around each line."""

    def encode(self, sentence: str) -> Tensor:
        self.task.encode_template(lambda text: self.apply_bpe(self.tokenize(text)))
        return super().encode(self.task.complete_line(sentence))


def _build_task(cfg: DictConfig, data: str, path: str) -> FairseqTask:
    """Set up the checkpoint's task on a data folder; translation gets fast decoding.

    Other tasks that generate text from text say so by the class attribute `generates_text = True`.

    Raises:
        UserError: a task that generates no text, or no data for it.
    """
    kind = TASK_REGISTRY.get(cfg.task._name, object)
    if kind in TRANSLATION:
        return _translation_task(cfg.task, data)
    if _generates_text(kind):
        with open_dict(cfg):
            cfg.task.data = data
        return tasks.setup_task(cfg.task, from_checkpoint=True)
    usable = [
        name
        for name, task in TASK_REGISTRY.items()
        if task in TRANSLATION or _generates_text(task) or is_classification(name)
    ]
    raise UserError(
        f"path {path}: trained with --task {cfg.task._name}, which gives neither text nor "
        f"classes for text; give a model of --task {', '.join(usable[:-1])} or {usable[-1]}"
    )


def _generates_text(kind: type) -> bool:
    return issubclass(kind, LanguageModelingTask) or getattr(kind, "generates_text", False)


def _translation_task(trained: DictConfig, data: str) -> PetTranslationTask:
    """Set up a trained translation task on a data folder, with fast decoding."""
    plain = load_task(trained, data)
    place = {name: getattr(plain.cfg, name) for name in ("data", *SIDES)}
    return PetTranslationTask.like(plain, {**trained, **place})


def _override(cfg: DictConfig, options: dict) -> None:
    """Set options wherever the task, the model or generation has them.

    Raises:
        UserError: an option that none of them has.
    """
    for name, value in options.items():
        parts = (cfg.task, cfg.model, cfg.generation)
        holders = [part for part in parts if hasattr(part, name)]
        if not holders:
            raise UserError(
                f"{name}: neither this model nor its task nor generation has such an option"
            )
        for part in holders:
            if isinstance(part, DictConfig):
                with open_dict(part):
                    part[name] = value
            else:
                setattr(part, name, value)


def _text_options(
    task: FairseqTask, segmentation: Optional[str], tokenizer: Optional[str], folders: list[Path]
) -> tuple[Optional[dict], Optional[dict]]:
    """fairseq's options for the tokenizer and the BPE that turn text into tokens and back.

    Raises:
        UserError: no such file or tokenizer, or no file was given or found for a model of
            subwords.
    """
    if segmentation is None:
        remedy = 'give the subword model, or "" for text that is in pieces already'
        words = task.source_dictionary
        segmentation = find_subword_file(words, folders, "segmentation", remedy)
    if segmentation and not Path(segmentation).is_file():
        raise UserError(f"segmentation {segmentation}: no such file")
    return options_of_text(languages_of(task), segmentation, tokenizer)
