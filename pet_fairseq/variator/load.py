"""A model with plugins from its files, and batches of a data folder, for any of fairseq's tasks."""

import os
from pathlib import Path
from typing import Iterator, Tuple

from fairseq import checkpoint_utils, tasks
from fairseq.data import FairseqDataset
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from fairseq.utils import move_to_cuda
from omegaconf import open_dict

from pet_fairseq.checkpoints import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.variator.model import VariatorModel, read_plugins


def load_variator(paths: str, option: str, data: str = "") -> Tuple[VariatorModel, FairseqTask]:
    """The model of one or more plugin files `a.pt:b.pt` for one backbone, in eval mode.

    Args:
        option: names the paths in errors. data: a folder in place of the one it was trained on.
    Raises:
        UserError: a file that holds no plugins or does not fit the others, or no such data.
    """
    path, *more = paths.split(os.pathsep)
    state, cfg = read_plugins(path, option)
    if more:
        cfg.plugin_path = os.pathsep.join(more)
    return build_loaded(state, path, data)


def load_any(path: str, option: str, data: str = "") -> Tuple[BaseFairseqModel, FairseqTask]:
    """The model of any checkpoint, in eval mode, and its task; else as `load_variator`."""
    return build_loaded(load_checkpoint(path, option), path, data)


def build_loaded(state: dict, path: str, data: str) -> Tuple[BaseFairseqModel, FairseqTask]:
    """Model and task of a loaded checkpoint, with a data folder in place of its own if given."""
    state["args"] = None  # fairseq has made cfg of it
    cfg = state["cfg"]
    with open_dict(cfg):
        cfg.task.data = data or cfg.task.data
    if not Path(cfg.task.data.split(os.pathsep)[0]).is_dir():
        raise UserError(
            f"--data {cfg.task.data}: no such folder; give one made by fairseq-preprocess"
        )
    task = tasks.setup_task(cfg.task, from_checkpoint=True)
    (model,), _ = checkpoint_utils.load_model_ensemble([path], task=task, state=state)
    return model.eval(), task


def read_batches(
    task: FairseqTask, subset: str, sentences: int, max_tokens: int, device: str = "cpu"
) -> Iterator[dict]:
    """Batches of a subset until at least so many sentences were given.

    Raises:
        UserError: no such subset, or a number that allows no batch.
    """
    if sentences < 1:
        raise UserError(f"--sentences {sentences}: give 1 or more")
    dataset = load_subset(task, subset)
    batches = task.get_batch_iterator(dataset, max_tokens=max_tokens)
    given = 0
    for sample in batches.next_epoch_itr(shuffle=False):
        if given >= sentences:
            return
        given += len(sample["net_input"]["src_tokens"])
        yield move_to_cuda(sample) if device == "cuda" else sample


def load_subset(task: FairseqTask, subset: str) -> FairseqDataset:
    """Raises UserError if the task's data has no such subset."""
    try:
        task.load_dataset(subset)
    except (FileNotFoundError, AssertionError) as error:  # sentence_prediction asserts
        raise UserError(f"--subset {subset}: not in {task.cfg.data}") from error
    return task.dataset(subset)
