"""Loads the files that the user names, to a model that answers."""

import argparse
import os
from typing import Optional

from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import DictConfig, open_dict

from pet_fairseq.architectures import model_class
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.loading import build_loaded
from pet_fairseq.serve.model import Classifier, ServedModel, Translator, has_ratios
from pet_fairseq.serve.text import build_text, parse_text_options


def load(args: argparse.Namespace, text_options: list[str]) -> ServedModel:
    """Load the model of --path, with everything that a request needs.

    Args:
        args: see options.py. text_options: the other words of the command line.
    Raises:
        UserError: files that are missing or do not fit, a task that cannot be served, a ratio that
            is not there, or a device that torch cannot use.
    """
    check_device(args.device)
    path, *plugins = args.path.split(os.pathsep)
    state = load_checkpoint(path, "--path")
    override(state["cfg"], args.path, args.backbone_path, plugins)
    model, task = build_loaded(state, path, args.data or "")
    languages = {name: getattr(task.cfg, name, None) for name in ("source_lang", "target_lang")}
    text = build_text(
        parse_text_options(text_options, **languages),
        max_chars=args.max_text_chars,
        max_word_chars=args.max_word_chars,
    )
    served = serve_model(model, task, text, args)
    if args.ratio != "auto" and args.ratio not in served.ratios:
        raise UserError(f"--ratio {args.ratio}: --path holds {served.ratios}; give one of these")
    return served


def override(cfg: DictConfig, paths: str, backbone: Optional[str], plugins: list[str]) -> None:
    """Let the command line replace a plugin file's options.

    Raises:
        UserError: options of plugins for a model that has none.
    """
    given = {"backbone_path": backbone, "plugin_path": os.pathsep.join(plugins)}
    given = {name: value for name, value in given.items() if value}
    if given and not has_ratios(model_class(cfg.model)):
        raise UserError(
            f"--path {paths}: the first file holds no plugins; put one of --arch variator there, "
            "or give a single file without --backbone-path"
        )
    with open_dict(cfg):
        for name, value in given.items():
            setattr(cfg.model, name, value)


def serve_model(model, task, text, args: argparse.Namespace) -> ServedModel:
    """Wrap a model as the kind of service that fits its task.

    Raises:
        UserError: no kind fits.
    """
    options = {
        # a longer text would not fit into any batch
        "max_tokens": min(args.max_tokens_per_request, args.max_batch_tokens),
        "device": args.device,
    }
    if isinstance(task, SentencePredictionTask):
        return Classifier(model, task, text, **options)
    if getattr(model, "decoder", None) is not None and getattr(model, "encoder", None) is not None:
        return Translator(model, task, text, beam=args.beam, lenpen=args.lenpen, **options)
    raise UserError(
        f"--path: a model of the task {type(task).__name__}; give one that classifies sentences "
        "(sentence_prediction) or an encoder-decoder"
    )
