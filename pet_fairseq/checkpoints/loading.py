"""From files to a model and its task, and batches of a data folder: what commands start from."""

import os
import struct
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from fairseq import checkpoint_utils, tasks
from fairseq.data import FairseqDataset
from fairseq.data.data_utils import infer_language_pair
from fairseq.models import BaseFairseqModel
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import DictConfig, open_dict
from torch import nn
from tqdm import tqdm

from pet_fairseq.checkpoints.dictionaries import (
    check_dictionaries,
    check_labels,
    first_folder,
    load_dictionary,
    own_data,
    trained_languages,
)
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.translation_checks import (
    check_one_language_pair,
    check_translation_model,
)
from pet_fairseq.errors import NO_SENTENCES, UserError, check_positive
from pet_fairseq.nn.architectures import architecture_name, model_class
from pet_fairseq.nn.to_device import move_batch

# in a folder of import-hf, in one of export --to fairseq, and in one of compress
CHECKPOINT = "checkpoint.pt"
CHECKPOINTS = (CHECKPOINT, "model.pt", "fairseq/model.pt")
# in a folder of fairseq-train, and in one of compress; their data are elsewhere
TRAINED = ("checkpoint_best.pt", "training/checkpoint_best.pt")
# what shows that a folder was exported for an engine
ENGINES = {
    "model.bin": "CTranslate2",
    "onnx/encoder_model.onnx": "ONNX Runtime",
    "onnx/encoder_model_quantized.onnx": "ONNX Runtime",
    "bergamot.yml": "Bergamot",
}


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


def find_model_files(path: str, data: Optional[str], option: str) -> tuple[list[str], str]:
    """The files that `a.pt[:b.pt...]` names, and the data folder, "" for the model's own.

    A folder that has one of CHECKPOINTS may take the place of the first file; where the file is, is
    the data folder, too.

    Args:
        path, data: as the user gave them. option: names the path in errors.
    Raises:
        UserError: a folder without a checkpoint.
    """
    first, *more = path.split(os.pathsep)
    if not Path(first).is_dir():
        return [first, *more], data or ""
    file = find_checkpoint(Path(first))
    if file is None:
        raise UserError(f"{option} {first}: {why_no_checkpoint(Path(first))}")
    return [str(file), *more], data or str(file.parent)


def find_checkpoint(folder: Path) -> Optional[Path]:
    """The first of CHECKPOINTS that a folder has, None if it has none."""
    return next((folder / name for name in CHECKPOINTS if (folder / name).is_file()), None)


def find_trained(folder: Path) -> Optional[Path]:
    """The best checkpoint of a training that a folder has, None if it has none."""
    return next((folder / name for name in TRAINED if (folder / name).is_file()), None)


def why_no_checkpoint(folder: Path) -> str:
    """What is wrong with a folder that has none of CHECKPOINTS, and what to give."""
    if trained := find_trained(folder):
        return f"is a folder of trained checkpoints; give {trained}"
    engine = next((ENGINES[name] for name in ENGINES if (folder / name).is_file()), None)
    if engine is not None:
        return (
            f"is a model for {engine}, which pet-fairseq translate runs; give the checkpoint that "
            "was exported"
        )
    return (
        "has no checkpoint.pt or model.pt; give a checkpoint, or a folder that pet-fairseq "
        "import-hf, export --to fairseq or compress wrote"
    )


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
            that do not fit together, a multilingual model, or an option that the model lacks.
    """
    path, cfg = paths[0], state["cfg"]
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
        UserError: not a left-to-right encoder-decoder Transformer, or data that is not for it.
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


def load_subset(task: FairseqTask, subset: str, **options: Any) -> FairseqDataset:
    """Load a subset of the task's data.

    Args:
        options: of the task's load_dataset, such as its epoch.
    Raises:
        UserError: there is no such subset, or it is empty or damaged.
    """
    try:
        task.load_dataset(subset, **options)
    except UserError:
        raise
    except (ValueError, struct.error) as error:
        if NO_SENTENCES in str(error):
            raise UserError(f"--subset {subset}: is empty; give another one") from error
        raise UserError(
            f"--subset {subset}: its files in {_data_folder(task, options)} are cut short or "
            f"damaged ({error}); run fairseq-preprocess again"
        ) from error
    except (FileNotFoundError, AssertionError) as error:  # sentence_prediction asserts
        folder = _data_folder(task, options)
        present = ", ".join(sorted({path.name.split(".")[0] for path in folder.rglob("*.idx")}))
        line = f"--subset {subset}: not in {folder}, which has {present}"
        if not present:
            line = f"{folder}: holds no data; give a folder made by fairseq-preprocess"
        raise UserError(line) from error
    return task.dataset(subset)


def _data_folder(task: FairseqTask, options: dict[str, Any]) -> Path:
    """The folder from which the epoch among the options of `load_dataset` reads."""
    folders = (task.cfg or task.args).data.split(os.pathsep)  # language_modeling has args
    return Path(folders[(options.get("epoch", 1) - 1) % len(folders)])


def read_batches(
    task: FairseqTask,
    subset: str,
    sentences: int,
    max_tokens: int,
    device: str = "cpu",
    max_positions: Union[int, tuple[int, ...], None] = None,
) -> Iterator[dict]:
    """Yield batches of at most `sentences` sentences from all over a subset, in even steps.

    On a terminal standard error shows how far it is, after some seconds.

    Args:
        max_tokens: of a batch, padding included. max_positions: as the model gives them, None if it
            takes sentences of any length.
    Raises:
        UserError: no such subset, `sentences` or `max_tokens` below 1, or a sentence that is longer
            than a batch or than the model takes.
    """
    check_positive(sentences=sentences, max_tokens=max_tokens)
    dataset = load_subset(task, subset)
    indices = even_steps(len(dataset), sentences)
    batches = batches_of_similar_length(dataset, indices, max_tokens)
    with tqdm(desc=subset, total=len(indices), unit=" sentences", disable=None, delay=5) as bar:
        for batch in batches:
            sample = dataset.collater([dataset[i] for i in batch])
            check_sample_lengths(sample, subset, max_positions)
            yield move_batch(sample, device)
            bar.update(len(batch))


def check_sample_lengths(
    sample: dict, subset: str, max_positions: Union[int, tuple[int, ...], None]
) -> None:
    """Raise UserError if a batch has more columns than the model positions, as it gives them."""
    limits = max_positions if isinstance(max_positions, tuple) else (max_positions,)
    for name, limit in zip(("src_tokens", "prev_output_tokens"), limits):
        tokens = sample["net_input"].get(name)
        if tokens is not None and limit is not None and tokens.size(1) > limit:
            raise UserError(
                f"--subset {subset}: a sentence has {tokens.size(1)} tokens, and the model takes "
                f"{limit} at most; shorten the texts and run fairseq-preprocess again"
            )


def check_batch(longest: int, max_tokens: int) -> None:
    """Raise UserError if the longest sentence, in tokens, does not fit into a batch."""
    if max_tokens < longest:
        raise UserError(
            f"--max-tokens {max_tokens}: a sentence has {longest} tokens; give {longest} or more"
        )


def read_samples(
    task: TranslationTask,
    subset: str,
    sentences: int,
    max_tokens: int,
    max_positions: tuple[int, int],
    device: str = "cpu",
) -> list[dict]:
    """Read sentences from all over a subset, in even steps, as batches of similar lengths.

    Args:
        sentences: how many at most. max_tokens: of a batch, padding included.
        max_positions: longest source and target; longer sentences are left out.
    Raises:
        UserError: no such subset, no target side or no short enough sentence in it, `sentences`
            below 1, or `max_tokens` below the longest sentence.
    """
    check_positive(sentences=sentences)
    dataset = load_subset(task, subset)
    if dataset.tgt is None:
        raise UserError(f"--subset {subset}: has no target sentences in {task.cfg.data}")
    indices = spread_indices(dataset, subset, sentences, max_positions)
    samples = [
        dataset.collater([dataset[i] for i in batch])
        for batch in batches_of_similar_length(dataset, indices, max_tokens)
    ]
    return [move_batch(sample, device) for sample in samples]


def spread_indices(
    dataset: FairseqDataset, subset: str, sentences: int, max_positions: tuple[int, int]
) -> list[int]:
    """Choose sentences from all over a data set, in even steps; too long ones are left out.

    Raises:
        UserError: none is left.
    """
    indices = np.array(even_steps(len(dataset), sentences), dtype=np.int64)
    indices, _ = dataset.filter_indices_by_size(indices, max_positions)
    if not len(indices):
        raise UserError(
            f"--subset {subset}: none of its {len(dataset)} sentences can be read by the model, "
            f"which takes {max_positions[0]} source and {max_positions[1]} target tokens at most"
        )
    return list(indices)


def even_steps(total: int, number: int) -> list[int]:
    """At most `number` of the indices below `total`, in even steps from the first on."""
    number = min(number, total)
    return [i * total // number for i in range(number)]


def batches_of_similar_length(
    dataset: FairseqDataset, indices: list[int], max_tokens: int
) -> list[list[int]]:
    """Divide indices into batches of at most `max_tokens` tokens, padding included, short first.

    Raises:
        UserError: a single sentence is longer.
    """
    indices = sorted(indices, key=dataset.num_tokens)
    if indices:
        check_batch(dataset.num_tokens(indices[-1]), max_tokens)
    batches: list[list[int]] = []
    for index in indices:  # each is the longest of its batch so far
        if not batches or (len(batches[-1]) + 1) * dataset.num_tokens(index) > max_tokens:
            batches.append([])
        batches[-1].append(index)
    return batches
