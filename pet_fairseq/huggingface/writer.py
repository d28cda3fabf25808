"""What an import writes: a checkpoint, dictionaries, the tokenizer and model_options."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from pet_fairseq.checkpoints.model_files import CHECKPOINT
from pet_fairseq.checkpoints.saving import new_state, save_state
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder, check_new_folder

MODEL_OPTIONS, TASK_OPTIONS = "model_options", "task_options"
# what fairseq expects in every checkpoint, though there was no training
NO_OPTIMIZER = {"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}


@dataclass
class Import:
    """A model as it is to be written for fairseq.

    Args:
        task: options of fairseq-train for the task and its criterion.
        arch: options of fairseq-train that build the model.
        files: texts of files, the dictionaries, by their names in the new folder.
        tensors: pairs of a name in fairseq's model and its tensor, read one after the other.
        description: a few words for the terminal about what the model has.
        write_tokenizer: writes the tokenizer's files into a folder.
        text_options: options that turn text into the dictionary's words; `{}` is the new folder.
        may_be_random: prefixes of the names of tensors that may keep their random initialisation.
    """

    task: list[str]
    arch: list[str]
    files: dict[str, str]
    tensors: Iterable[tuple[str, Tensor]]
    description: str
    write_tokenizer: Callable[[Path], object]
    text_options: list[str] = field(default_factory=list)
    may_be_random: tuple[str, ...] = ()


def option_words(values: dict[str, object]) -> list[str]:
    """Options and their values as the words of a command."""
    return [str(word) for pair in values.items() for word in pair]


def write_import(model: Import, out: Path, weights: Path) -> None:
    """Write the folder `out`, which appears whole or not at all.

    Args:
        weights: the file that the tensors come from, for errors.
    Raises:
        UserError: it exists already, or the tensors do not fit the model.
    """
    check_new_folder(out, "--out")
    with atomic_folder(out) as new:
        for name, text in model.files.items():
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_text(text, encoding="utf-8")
        model.write_tokenizer(new)
        (new / MODEL_OPTIONS).write_text(" ".join(model.arch) + "\n", encoding="utf-8")
        (new / TASK_OPTIONS).write_text(" ".join(model.task) + "\n", encoding="utf-8")
        save_state(make_checkpoint(model, new, out, weights), new / CHECKPOINT)


def make_checkpoint(model: Import, data: Path, out: Path, weights: Path) -> dict:
    """Make the checkpoint that fairseq-train would save.

    Each tensor is read once and copied over a random one.

    Args:
        data: the folder with the dictionaries. out: the name that it will have.
        weights: the file that the tensors come from, for errors.
    Raises:
        UserError: as `fill`.
    """
    text_options = [word.format(out) for word in model.text_options]
    words = [str(data), *model.task, *model.arch, *text_options]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    with quiet():
        cfg = convert_namespace_to_omegaconf(args)
        state = tasks.setup_task(cfg.task).build_model(cfg.model).state_dict()
    fill(state, model, weights)
    with open_dict(cfg):
        cfg.task.data = str(out)
        if hasattr(cfg.model, "data"):
            cfg.model.data = str(out)
    return new_state(OmegaConf.to_container(cfg, enum_to_str=True), state, [NO_OPTIMIZER], {})


@contextmanager
def quiet() -> Iterator[None]:
    """Hide hydra's warnings about fairseq, and the task's notes on its dictionary."""
    logger = logging.getLogger("fairseq.tasks")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def fill(state: dict[str, Tensor], model: Import, weights: Path) -> None:
    """Copy the tensors of the import over those of a random model's state.

    Raises:
        UserError: a tensor of another size than the model's, one that the model does not have, or
            one that is missing.
    """
    filled = set()
    for name, tensor in model.tensors:
        if name not in state:
            raise UserError(
                f"{weights}: has a tensor for {name}, which a model with the options in "
                "config.json does not have; give files that belong together"
            )
        if state[name].shape != tensor.shape:
            sizes = f"{name} is {tuple(tensor.shape)}, not {tuple(state[name].shape)}"
            raise UserError(f"{weights}: other sizes than in config.json: {sizes}")
        state[name].copy_(tensor)
        filled.add(state[name].data_ptr())  # so a tied tensor is filled under all of its names
    for name, tensor in state.items():
        may_stay = name.startswith(model.may_be_random) or name.endswith("version")
        if tensor.data_ptr() not in filled and not may_stay:
            raise UserError(f"{weights}: has no tensor for {name}; give all of the model's files")
