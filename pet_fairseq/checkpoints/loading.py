"""From files to a model and its task: what commands start from."""

import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional, Union

from fairseq import checkpoint_utils, tasks
from fairseq.data.data_utils import infer_language_pair
from fairseq.models import BaseFairseqModel
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import DictConfig, open_dict
from torch import nn

from pet_fairseq.checkpoints.dictionaries import (
    check_dictionaries,
    check_labels,
    first_folder,
    load_dictionary,
    own_data,
    trained_languages,
)
from pet_fairseq.checkpoints.known_models import check_architecture, check_task, naming_mismatch
from pet_fairseq.checkpoints.model_files import find_model_files
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.translation_checks import (
    check_one_language_pair,
    check_translation_model,
)
from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import architecture_name, model_class


def load_model(
    path: str, option: str, data: str = "", **options: Any
) -> tuple[BaseFairseqModel, FairseqTask]:
    """Load any model, in eval mode, and its task.

    Args:
        path: a checkpoint, a folder of pet-fairseq import-hf, or plugin files `a.pt:b.pt`.
        option: names the path in errors. data: a folder in place of the one it was trained on.
        options: new values for options of the model.
    Raises:
        UserError: not a checkpoint that can be loaded safely, no such data folder, one with other
            dictionaries than the checkpoint's, files that do not fit together, or an option that
            the model does not have.
    """
    paths, data = find_model_files(path, data, option)
    return build_from_state(load_checkpoint(paths[0], option), paths, option, data, **options)


def build_from_state(
    state: dict, paths: list[str], option: str, data: str, **options: Any
) -> tuple[BaseFairseqModel, FairseqTask]:
    """Build model and task from a loaded checkpoint, in eval mode.

    Args:
        paths: the checkpoint, and more plugin files for the same model.
        option: names the paths in errors.
        data: the folder with the dictionaries, "" for the one that the checkpoint names.
        options: new values for options of the model.
    Raises:
        UserError: no such data folder, one with other dictionaries than the checkpoint's, files
            that do not fit together, a multilingual model, one of another plugin's architecture
            or task, parameters that are not the model's, or an option that the model lacks.
    """
    path, cfg = paths[0], state["cfg"]
    check_architecture(cfg, path, option)
    check_task(cfg, path, option)
    if len(paths) > 1:
        options["plugin_path"] = os.pathsep.join(paths[1:])
    override_model_options(cfg, options, option)
    if options.get("plugin_path"):
        files = [path, *options["plugin_path"].split(os.pathsep)]
        model_class(cfg.model).check_files(files, option)
    check_one_language_pair(state, path, option)
    state["args"] = None  # fairseq has made cfg of it
    trained = own_data(cfg.task.data, path)
    with open_dict(cfg):
        cfg.task.data = data or trained
    if not data:
        check_own_data(trained, path, option)
    elif not Path(first_folder(data)).is_dir():
        raise UserError(f"--data {data}: no such folder; give one made by fairseq-preprocess")
    if data and "source_lang" in cfg.task:
        with open_dict(cfg):
            cfg.task.update(find_languages(cfg.task, trained, data, "--data"))
    with naming_dictionaries(cfg.task.data, "--data"):
        task = tasks.setup_task(cfg.task, from_checkpoint=True)
    check_dictionaries(state, path, option, task, DATA_REMEDY, trained)
    check_labels(path, option, task, DATA_REMEDY, trained)
    with naming_mismatch(cfg, path, option):
        (model,), _ = checkpoint_utils.load_model_ensemble([path], task=task, state=state)
    return model.eval(), task


def check_own_data(data: str, path: str, option: str) -> None:
    """Raise UserError if the data folder that a checkpoint names is not there.

    Args:
        data: as `own_data` gives it. path, option: of the checkpoint, for errors.
    """
    if not Path(first_folder(data)).is_dir():
        raise UserError(
            f"{option} {path}: {data}, the data folder named in it, is not there; give --data"
        )


def find_languages(
    trained: Union[DictConfig, Namespace], trained_on: Optional[str], data: str, option: str
) -> dict[str, Optional[str]]:
    """The languages of a trained task, or else of a data folder, which has their dictionaries.

    Args:
        trained: the task's options. trained_on: its data folder. option: names `data` in errors.
    Raises:
        UserError: the folder has not.
    """
    first = first_folder(data)
    languages = trained_languages(trained, first_folder(trained_on))
    if None in languages.values():
        languages = dict(zip(languages, infer_language_pair(first)))
    names = [lang for lang in languages.values() if lang is not None]
    if len(names) < 2:
        raise UserError(
            f"{option} {first}: holds no data; give a folder made by fairseq-preprocess"
        )
    for lang in names:
        if not Path(first, f"dict.{lang}.txt").is_file():
            raise UserError(
                f"{option} {first}: has no dict.{lang}.txt; give the folder that "
                f"fairseq-preprocess made for the checkpoint's languages, {' to '.join(names)}"
            )
    return languages


def override_model_options(cfg: DictConfig, options: dict[str, Any], option: str) -> None:
    """Give new values to options of a checkpoint's model; option: names its path in errors.

    Raises:
        UserError: the model has no such option.
    """
    with open_dict(cfg):
        for name, value in options.items():
            known = hasattr(cfg.model, name)
            if not known and name in ("plugin_path", "backbone_path"):
                raise UserError(
                    f"{option}: the first file holds no plugins; put one of --arch variator "
                    "there, or give a single file without --backbone-path"
                )
            if not known:
                raise UserError(f"{name}: this model has no such option")
            setattr(cfg.model, name, value)


DATA_REMEDY = (
    "give with --data the folder that it was trained on, or one made with its dictionaries"
)


def load_transformer(path: str, option: str, data: str) -> tuple[nn.Module, TranslationTask]:
    """Load a checkpoint's model, and the translation task of a data folder for its languages.

    Args:
        option: names the path in errors.
    Raises:
        UserError: not a left-to-right encoder-decoder Transformer, parameters that are not its own,
            or data that is not for it.
    """
    state = load_checkpoint(path, option)
    cfg = state["cfg"]
    check_translation_model(state, path, option)
    if not issubclass(model_class(cfg.model), TransformerModelBase):
        raise UserError(
            f"{option} {path}: its architecture {architecture_name(cfg.model)} is not an "
            "encoder-decoder Transformer; give one such as fairseq's transformer or pet_transformer"
        )
    task = load_task(cfg.task, data)
    check_dictionaries(state, path, option, task, DATA_REMEDY)
    with naming_mismatch(cfg, path, option):
        models, _ = checkpoint_utils.load_model_ensemble([path], task=task, state=state)
    return models[0], task


# options of a trained translation task that any data folder is read with, beside the languages
KEPT_OPTIONS = (
    *("left_pad_source", "left_pad_target"),
    *("max_source_positions", "max_target_positions", "truncate_source"),
)


def load_task(
    trained: Union[DictConfig, Namespace], data: str, option: str = "--data"
) -> TranslationTask:
    """Set up fairseq's translation task on a data folder, with the languages of a trained task.

    Padding and the lengths that sentences may have are those of the trained task, too.

    A task without languages gets those of the folder.

    Args:
        trained: its options, of older kinds of tasks a Namespace.
        data: a folder, or several as fairseq takes them, `a:b`: each epoch reads the training set
            of the next one, and everything else is in the first.
        option: names the folders in errors.
    Raises:
        UserError: no such folder, or no dictionaries of these languages in the first.
    """
    for folder in data.split(os.pathsep):
        if not Path(folder).is_dir():
            raise UserError(
                f"{option} {folder}: no such folder; give one made by fairseq-preprocess"
            )
    languages = find_languages(trained, getattr(trained, "data", None), data, option)
    cfg = TranslationConfig(
        data=data,
        train_subset="train",  # the only one of which each epoch has another folder
        upsample_primary=1,  # with fairseq's default, -1, the first of several sets is lost
        dataset_impl=None,
        required_seq_len_multiple=1,
        **languages,
        **{name: getattr(trained, name) for name in KEPT_OPTIONS if name in trained},
    )
    with naming_dictionaries(data, option):
        return TranslationTask.setup_task(cfg)


@contextmanager
def naming_dictionaries(data: str, option: str) -> Iterator[None]:
    """Let a task that cannot be set up say which of its folder's dictionaries is damaged.

    Raises:
        UserError: one is; otherwise what the block raised.
    """
    try:
        yield
    except UserError:
        raise
    except Exception:  # fairseq raises many kinds
        for file in sorted(Path(first_folder(data)).rglob("dict*.txt")):
            load_dictionary(file, option)
        raise
