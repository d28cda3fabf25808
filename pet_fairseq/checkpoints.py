"""Checkpoints: safe loading, shared tensors stored once, frozen models, repair after a crash."""

import argparse
import collections
import logging
import os
import pickle
import struct
import typing
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary, data_utils
from fairseq.models import FairseqModel
from fairseq.tasks import FairseqTask
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import Tensor, nn

from pet_fairseq.errors import UnsafeCheckpointError, UserError, is_refusal, why_unreadable
from pet_fairseq.files import write_whole

logger = logging.getLogger(__name__)

# plain containers of options: what fairseq puts into a checkpoint beside tensors
FAIRSEQ_TYPES = [
    argparse.Namespace,
    omegaconf.DictConfig,
    omegaconf.ListConfig,
    ContainerMetadata,
    Metadata,
    AnyNode,
    typing.Any,
    collections.defaultdict,
    dict,
    list,
    int,
]


# what torch and fairseq raise for a file that is no checkpoint, or half of one
UNREADABLE = (
    pickle.UnpicklingError,
    struct.error,
    RuntimeError,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
)


def allow_fairseq_types() -> None:
    """Let torch's safe loading accept fairseq's options; everything else stays refused."""
    torch.serialization.add_safe_globals(FAIRSEQ_TYPES)


def load_checkpoint(path: str, option: str) -> dict:
    """Read a fairseq checkpoint to the CPU, under torch's safe loading.

    Args:
        option: what the user typed to name the file, for the error message.
    Raises:
        UserError: no such file, not a checkpoint, damaged, or refused as unsafe.
    """
    if not os.path.isfile(path):
        raise UserError(f"{option} {path}: no such file")
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
    except UNREADABLE as error:
        kind = UnsafeCheckpointError if is_refusal(error, path) else UserError
        raise kind(f"{option} {path}: {why_unreadable(error, path)}") from error
    if "model" not in state or (state.get("cfg") is None and state.get("args") is None):
        raise UserError(f"{option} {path}: not a fairseq checkpoint; give one that it wrote")
    return state


# --- shared tensors -------------------------------------------------------------------------------


def tied_names(model: nn.Module) -> Dict[str, str]:
    """Second and further names of shared parameters -> the first name, in the model's order."""
    first: Dict[int, str] = {}
    tied = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = first.setdefault(id(parameter), name)
        if owner != name:
            tied[name] = owner
    return tied


def drop_tied_entries(model: nn.Module, state_dict: Dict, prefix: str, _metadata: dict) -> None:
    """State-dict hook: keep every shared tensor under its first name only.

    fairseq copies each entry to the CPU before saving, so a second name would be a second copy.
    """
    for name in tied_names(model):
        state_dict.pop(prefix + name, None)


def restore_tied_entries(model: nn.Module, state_dict: Dict[str, Tensor]) -> None:
    """Fill in the names that `drop_tied_entries` left out, so that strict loading succeeds.

    Raises:
        UserError: the state holds different values for parameters that this model shares.
    """
    for name, owner in tied_names(model).items():
        if owner not in state_dict:
            continue  # loading reports it
        if name in state_dict and not torch.equal(state_dict[name], state_dict[owner]):
            raise UserError(
                f"checkpoint: {name} and {owner} differ, but this model shares them; load it with "
                "the --encoder-pairs and --decoder-pairs it was trained with"
            )
        state_dict[name] = state_dict[owner]


def unique_tensors(state_dict: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """The entries of a loaded state, each stored tensor once, without fairseq's version marks."""
    seen = set()
    unique = {}
    for name, tensor in state_dict.items():
        key = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape)
        if key in seen or name.endswith((".version", "._float_tensor")):
            continue
        seen.add(key)
        unique[name] = tensor
    return unique


# --- frozen models --------------------------------------------------------------------------------


class FrozenModels:
    """Models that are only asked, never trained.

    Not an nn.Module, so that nothing inside reaches a state_dict, an optimizer or DDP.
    """

    def __init__(self, models: List[FairseqModel]):
        self.models = models
        for model in models:
            model.eval()
            model.requires_grad_(False)

    def like(self, parameter: Tensor) -> List[FairseqModel]:
        """The models on the parameter's device and in its dtype, moved at the first call only."""
        ours = next(self.models[0].parameters())
        if ours.device != parameter.device or ours.dtype != parameter.dtype:
            for model in self.models:
                model.to(device=parameter.device, dtype=parameter.dtype)
        return self.models


def load_frozen_models(paths: str, option: str, task: FairseqTask) -> FrozenModels:
    """Load one checkpoint or an ensemble `a.pt:b.pt` with the same dictionaries as `task`.

    Raises:
        UserError: a file that is missing, damaged or unsafe, or made for other dictionaries.
    """
    models = []
    for path in paths.split(os.pathsep):
        state = load_checkpoint(path, option)
        check_dictionaries(state, path, option, task)
        loaded, _ = checkpoint_utils.load_model_ensemble([path], task=task, state=state)
        models += loaded
    return FrozenModels(models)


def check_dictionaries(state: dict, path: str, option: str, task: FairseqTask) -> None:
    """Compare the dictionaries a checkpoint was trained with to the task's.

    A checkpoint names its data folder but holds no dictionary. If the folder is gone, the
    dictionary is looked for beside the checkpoint; failing that only the sizes are compared.

    Raises:
        UserError: names both files and the first difference.
    """
    cfg = state["cfg"].task
    if getattr(task.cfg, "source_lang", None) is None:
        check_single_dictionary(state, path, option, task)
        return
    ours = {"source_lang": task.source_dictionary, "target_lang": task.target_dictionary}
    our_folder = task.cfg.data.split(os.pathsep)[0]
    sizes = vocabulary_sizes(state["model"])
    folder = str(cfg.get("data") or "").split(os.pathsep)[0]
    languages = trained_languages(cfg, folder)
    for side, dictionary in ours.items():
        our_file = Path(our_folder, f"dict.{getattr(task.cfg, side)}.txt")
        name = f"dict.{languages.get(side) or getattr(task.cfg, side)}.txt"
        files = [Path(folder, name), Path(path).with_name(name)]
        file = next((f for f in files if f.is_file()), None)
        if file is not None:
            difference = first_difference(Dictionary.load(str(file)), dictionary)
        elif sizes[side] is not None and sizes[side] != len(dictionary):
            file = path
            difference = f"{sizes[side]} words against {len(dictionary)}"
        else:
            logger.warning(f"{option} {path}: its {files[0]} is gone; cannot compare dictionaries")
            continue
        if difference:
            raise UserError(
                f"{option} {path}: made with another dictionary: {file} and {our_file} differ: "
                f"{difference}; use a teacher trained on data made with the same dictionaries"
            )


def check_single_dictionary(state: dict, path: str, option: str, task: FairseqTask) -> None:
    """The same for tasks with one dictionary: of language models, of sentences with classes.

    Raises:
        UserError: names both files and the first difference.
    """
    ours, ours_from = task.source_dictionary, getattr(task, "args", task.cfg).data
    size = vocabulary_size(state["model"])
    folder = str(state["cfg"].task.get("data") or "").split(os.pathsep)[0]
    files = [Path(folder, name) for name in ("dict.txt", "input0/dict.txt")]
    file = next((f for f in files if f.is_file()), None)
    difference = ""
    if file is not None:
        theirs = Dictionary.load(str(file))
        for symbol in ours.symbols[len(theirs) :]:
            if symbol.startswith("<"):  # <mask>, which some tasks add
                theirs.add_symbol(symbol)
        difference = first_difference(theirs, ours)
    elif size is not None and size != len(ours):
        file, difference = path, f"{size} words against {len(ours)}"
    if difference:
        raise UserError(
            f"{option} {path}: made with another dictionary: {file} and that of {ours_from} "
            f"differ: {difference}; use data made with the same dictionary"
        )


def vocabulary_size(state_dict: Dict[str, Tensor]) -> int | None:
    """Rows of the embedding matrix of a model with one dictionary."""
    names = [name for name in state_dict if name.endswith("embed_tokens.weight")]
    return state_dict[names[0]].size(0) if names else None


def trained_languages(cfg: omegaconf.DictConfig, folder: str) -> Dict[str, str | None]:
    """The language pair of a checkpoint's task; fairseq infers it from the folder if not given."""
    pair = [cfg.get("source_lang"), cfg.get("target_lang")]
    if None in pair and os.path.isdir(folder):
        pair = data_utils.infer_language_pair(folder)
    return dict(zip(("source_lang", "target_lang"), pair))


def vocabulary_sizes(state_dict: Dict[str, Tensor]) -> Dict[str, int | None]:
    """Rows of the embedding matrices in a state, None where there is no such matrix.

    A shared matrix is stored under the encoder's name only.
    """
    source = state_dict.get("encoder.embed_tokens.weight")
    target = state_dict.get("decoder.embed_tokens.weight")
    if target is None and any(name.startswith("decoder.layers.") for name in state_dict):
        target = source
    return {
        "source_lang": None if source is None else source.size(0),
        "target_lang": None if target is None else target.size(0),
    }


def first_difference(theirs: Dictionary, ours: Dictionary) -> str:
    """Where two dictionaries part, "" if they hold the same words in the same order."""
    for i, (a, b) in enumerate(zip(theirs.symbols, ours.symbols)):
        if a != b:
            return f"entry {i} is {a!r} against {b!r}"
    if len(theirs) != len(ours):
        return f"{len(theirs)} words against {len(ours)}"
    return ""


# --- repair ---------------------------------------------------------------------------------------


class Repair(NamedTuple):
    """`damaged` was replaced by a copy of `source`; both None if nothing was wrong."""

    damaged: Path | None
    source: Path | None


def is_intact(path: Path) -> bool:
    """Whether a checkpoint can be read to its end.

    Raises:
        UnsafeCheckpointError: it is whole but holds more than a checkpoint should.
    """
    try:
        load_checkpoint(str(path), "checkpoint")
    except UnsafeCheckpointError:
        raise
    except UserError:
        return False
    return True


def repair_folder(folder: Path) -> Repair:
    """Put the newest readable checkpoint in the place of a damaged checkpoint_last.pt.

    fairseq writes a checkpoint to a temporary file and renames it, but then *copies* it to
    checkpoint_last.pt; a crash or a full disk during the copy leaves that name unreadable.

    Raises:
        UserError: no such folder, or no readable checkpoint in it.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    last = folder / "checkpoint_last.pt"
    if last.exists() and is_intact(last):
        return Repair(None, None)
    others = [p for p in folder.glob("checkpoint*.pt") if p != last]
    if not last.exists() and not others:
        return Repair(None, None)
    for candidate in _newest_first(others):
        if is_intact(candidate):
            write_whole(last, lambda file, source=candidate: file.write_bytes(source.read_bytes()))
            return Repair(last, candidate)
    raise UserError(
        f"{last}: damaged, and no other readable checkpoint in {folder}; delete it to start anew"
    )


def _newest_first(paths: List[Path]) -> List[Path]:
    def key(path: Path) -> Tuple[float, str]:
        return (path.stat().st_mtime, path.name)

    return sorted(paths, key=key, reverse=True)
