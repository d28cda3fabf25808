"""Loads the files that the user names into a model that answers texts."""

import argparse
import math
import os
from pathlib import Path
from typing import Optional

import torch
from fairseq.tasks import TASK_REGISTRY, FairseqTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import DictConfig
from torch import nn

from pet_fairseq.checkpoints.loading import build_loaded, locate
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.predict.classifier import Classifier
from pet_fairseq.predict.predictor import Predictor
from pet_fairseq.predict.text import (
    LANGUAGES,
    Text,
    build_text,
    build_text_of,
    find_dividing_file,
    options_of_text,
    parse_text_options,
)
from pet_fairseq.predict.translator import Translator


def load(
    args: argparse.Namespace,
    text_options: list[str],
    max_tokens: float = math.inf,
    cut_all: bool = False,
    **limits,
) -> Predictor:
    """Load the model of a command, with everything that a text needs.

    Args:
        args: see options.py. text_options: the other words of the command line.
        max_tokens, cut_all: as for Predictor. limits: as for Text.
    Raises:
        UserError: files that are missing or do not fit, a task that answers no texts, a ratio that
            the model lacks, a device that torch cannot use, or a precision that does not fit it.
    """
    check_device(args.device)
    dtype = chosen_precision(args)
    paths, data = locate(args.path, args.data, args.path_option)
    state = load_checkpoint(paths[0], args.path_option)
    options = {"backbone_path": args.backbone_path} if args.backbone_path else {}
    model, task = build_loaded(state, paths, args.path_option, data, **options)
    predictor_class(model, task, args.path_option)  # refuses what no tokenizer would help
    folders = folders_around(paths[0], state["cfg"])
    text = choose_text(text_options, task, folders, f"pet-fairseq {args.command}", **limits)
    predictor = make_predictor(
        model.to(device=args.device, dtype=dtype),
        *(task, text, args.path_option),
        beam=args.beam,
        lenpen=args.lenpen,
        max_tokens=max_tokens,
        cut=args.long_texts == "cut",
        cut_all=cut_all,
    )
    predictor.check_ratio(None if args.ratio == "auto" else args.ratio, "--ratio")
    if args.int8:
        predictor.to_int8()
    return predictor


def chosen_precision(args: argparse.Namespace) -> Optional[torch.dtype]:
    """The precision of the model; None: that of its file.

    Raises:
        UserError: float16 on a CPU, or 8 bits on a GPU.
    """
    if args.int8 and args.device != "cpu":
        raise UserError("--int8: is for CPUs; give --device cpu, or --fp16 in its place")
    if args.fp16 and args.device == "cpu":
        raise UserError("--fp16: is for GPUs; give --device cuda too, or --bf16 in its place")
    if args.fp16:
        return torch.float16
    return torch.bfloat16 if args.bf16 else None


def folders_around(path: str, cfg: DictConfig) -> list[Path]:
    """The folders in which a tokenizer's files may be.

    These are the data folder, the folder above it and its folder `text`, where recipes put it, and
    those of the checkpoint, of its backbone and of the model that it was fine-tuned from.
    """
    folder = Path(cfg.task.data.split(os.pathsep)[0])
    origins = (
        path,
        getattr(cfg.model, "backbone_path", None),
        getattr(cfg.get("checkpoint"), "finetune_from_model", None),
    )
    above = folder.resolve().parent
    return [folder, above, above / "text", *(Path(file).parent for file in origins if file)]


def choose_text(
    words: list[str], task: FairseqTask, folders: list[Path], prog: str, **limits
) -> Text:
    """The tokenizer and BPE of the command line; without any, those of the file that is found.

    Args:
        words: of the command line. folders: where to look for a file that divides words.
        prog: the command, for errors. limits: as for Text.
    Raises:
        SystemExit: a wrong option, after a message. UserError, OSError: unreadable files, or none
            for a model whose words are pieces.
    """
    if not words:
        remedy = (
            "give --bpe with its options, as for fairseq-interactive, or --tokenizer space for "
            "text that is in pieces already"
        )
        file = find_dividing_file(task.source_dictionary, folders, "--bpe", remedy)
        return build_text_of(*options_of_text(task, file), **limits)
    languages = {name: getattr(task.cfg, name, None) for name in LANGUAGES}
    return build_text(parse_text_options(words, prog, **languages), **limits)


def is_classification(task_name: str) -> bool:
    """Whether a task of this name gives classes to texts."""
    return issubclass(TASK_REGISTRY.get(task_name, object), SentencePredictionTask)


def make_predictor(
    model: nn.Module,
    task: FairseqTask,
    text: Text,
    option: str,
    beam: int = 5,
    lenpen: float = 1.0,
    **options,
) -> Predictor:
    """Wrap a model in the predictor for its task.

    Args:
        option: names the model's path in errors. beam, lenpen: for translation.
        options: as for Predictor.
    Raises:
        UserError: the task answers no texts.
    """
    kind = predictor_class(model, task, option)
    if kind is Translator:
        options |= {"beam": beam, "lenpen": lenpen}
    return kind(model, task, text, **options)


def predictor_class(model: nn.Module, task: FairseqTask, option: str) -> type[Predictor]:
    """The class of the predictor for a task; option: names the model's path in errors.

    Raises:
        UserError: the task answers no texts.
    """
    if isinstance(task, SentencePredictionTask):
        return Classifier
    if getattr(model, "decoder", None) is not None and getattr(model, "encoder", None) is not None:
        return Translator
    raise UserError(
        f"{option}: a model of the task {type(task).__name__}, which has no head for classes and "
        "does not translate; give one that was fine-tuned with --task sentence_prediction, or an "
        "encoder-decoder"
    )
