"""Loads the files that the user names into a model that answers texts."""

import argparse
import math
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.tasks import TASK_REGISTRY, FairseqTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation import TranslationTask
from omegaconf import OmegaConf
from torch import nn

from pet_fairseq.checkpoints.backbone import can_be_merged
from pet_fairseq.checkpoints.loading import build_from_state
from pet_fairseq.checkpoints.model_files import find_model_files
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.text_files import folders_around
from pet_fairseq.decoding.task import PetTranslationTask
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.predict.classifier import Classifier
from pet_fairseq.predict.predictor import Predictor
from pet_fairseq.predict.shared_options import BEAM_SEARCH, Search
from pet_fairseq.predict.text import (
    Text,
    build_text,
    build_text_of,
    find_subword_file,
    has_no_capitals,
    languages_of,
    options_of_text,
    parse_text_options,
)
from pet_fairseq.predict.translator import Translator

PATH = "CHECKPOINT"  # the argument, in errors
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def load(
    args: argparse.Namespace,
    text_options: list[str],
    max_tokens: float = math.inf,
    cut_all: bool = False,
    fast: bool = False,
    **limits,
) -> Predictor:
    """Load the model of a command, with everything that a text needs.

    Args:
        args: as `shared_options` declares them. text_options: the other words of the command line.
        max_tokens, cut_all: as for Predictor. fast: whether this package's beam search translates,
            if the task is translation. limits: as for Text.
    Raises:
        UserError: files that are missing or do not fit, a task that answers no texts, a ratio that
            the model lacks, a device that torch cannot use, or a precision that does not fit it.
    """
    device, dtype = choose_precision(args.device, args.precision)
    paths, data = find_model_files(args.checkpoint, args.data, PATH)
    state = load_checkpoint(paths[0], PATH)
    options = {"backbone_path": args.backbone_path} if args.backbone_path else {}
    model, task = build_to_answer(state, paths, PATH, data, **options)
    predictor_class(model, task, f"{PATH} {paths[0]}")  # refuses what no tokenizer would help
    folders = folders_around(paths[0], state["cfg"])
    words, languages = task.source_dictionary, languages_of(task)
    prog = f"pet-fairseq {args.command}"
    text = choose_text(text_options, words, languages, folders, prog, **limits)
    predictor = make_predictor(
        model.to(device=device, dtype=dtype),
        with_fast_decoding(task) if fast else task,
        text,
        PATH,
        search=Search.of(args),
        max_tokens=max_tokens,
        cut=args.long_texts == "cut",
        cut_all=cut_all,
    )
    predictor.check_ratio(None if args.ratio == "auto" else args.ratio, "--ratio")
    if args.precision == "int8":
        predictor.to_int8()
    return predictor


def build_to_answer(
    state: dict, paths: list[str], option: str, data: str, **options: Any
) -> tuple[nn.Module, FairseqTask]:
    """As `build_from_state`; a model with `merge` is merged, not computed anew for every batch."""
    model, task = build_from_state(state, paths, option, data, **options)
    return model.merge() if can_be_merged(type(model)) else model, task


def choose_precision(device: str, precision: str) -> tuple[str, Optional[torch.dtype]]:
    """The device and the type of the model's numbers, None for that of its file.

    Args:
        device, precision: as the user gave them; 8 bits are computed on a CPU, from its file's.
    Raises:
        UserError: float16 on a CPU, 8 bits on a GPU, or no such device.
    """
    if precision == "int8" and device == "cuda":
        raise UserError(
            "--precision int8: is for CPUs; give --device cpu, or --precision fp16 in its place"
        )
    device = "cpu" if precision == "int8" else check_device(device)
    if precision == "fp16" and device == "cpu":
        raise UserError(
            "--precision fp16: is for GPUs; give --device cuda too, or --precision bf16 in its "
            "place"
        )
    return device, DTYPES.get(precision)


def choose_text(
    words: list[str],
    dictionary: Dictionary,
    languages: dict[str, str],
    folders: list[Path],
    prog: str,
    **limits,
) -> Text:
    """The tokenizer and BPE of the command line; without any, those of the file that is found.

    Args:
        words: of the command line. dictionary: of the sources. languages: as `languages_of`.
        folders: where to look for a subword model.
        prog: the command, for errors. limits: as for Text.
    Raises:
        SystemExit: a wrong option, after a message. UserError, OSError: unreadable files, or none
            for a model whose words are pieces.
    """
    limits["no_capitals"] = has_no_capitals(dictionary)
    if not words:
        remedy = (
            "give --bpe with its options, as for fairseq-interactive, or --tokenizer space for "
            "text that is in pieces already"
        )
        file = find_subword_file(dictionary, folders, "--bpe", remedy)
        return build_text_of(*options_of_text(languages, file), **limits)
    return build_text(parse_text_options(words, prog, **languages), **limits)


def with_fast_decoding(task: FairseqTask) -> FairseqTask:
    """A translation task with this package's beam search; any other task as it is."""
    if type(task) is not TranslationTask:
        return task
    cfg = OmegaConf.to_container(task.cfg) if OmegaConf.is_config(task.cfg) else vars(task.cfg)
    return PetTranslationTask.like(task, cfg)


def is_classification(task_name: str) -> bool:
    """Whether a task of this name gives classes to texts."""
    return issubclass(TASK_REGISTRY.get(task_name, object), SentencePredictionTask)


def make_predictor(
    model: nn.Module,
    task: FairseqTask,
    text: Text,
    option: str,
    search: Search = BEAM_SEARCH,
    **options,
) -> Predictor:
    """Wrap a model in the predictor for its task.

    Args:
        option: names the model's path in errors. search: for translation.
        options: as for Predictor.
    Raises:
        UserError: the task answers no texts.
    """
    kind = predictor_class(model, task, option)
    if kind is Translator:
        options["search"] = search
    return kind(model, task, text, **options)


def predictor_class(model: nn.Module, task: FairseqTask, option: str) -> type[Predictor]:
    """The class of the predictor for a task; option: names the model's path in errors.

    Raises:
        UserError: the task answers no texts, or not lines as they are.
    """
    if isinstance(task, SentencePredictionTask):
        return Classifier
    if hasattr(task, "complete_line"):
        raise UserError(
            f"{option}: a model of the task {type(task).__name__}, whose lines are queries with "
            "prompts; ask it by fairseq-interactive or pet_fairseq.from_pretrained"
        )
    if getattr(model, "decoder", None) is not None and getattr(model, "encoder", None) is not None:
        return Translator
    raise UserError(
        f"{option}: a model of the task {type(task).__name__}, which has no head for classes and "
        "does not translate; give one that was fine-tuned with --task sentence_prediction, or an "
        "encoder-decoder"
    )
