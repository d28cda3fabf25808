"""Reading checkpoints under torch's safe loading."""

import argparse
import collections
import os
import typing
import zipfile
from typing import Any, Union

import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.logging.meters import AverageMeter, StopwatchMeter, TimeMeter
from omegaconf import OmegaConf
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from pet_fairseq.checkpoints.numpy_types import NUMPY_TYPES
from pet_fairseq.errors import (
    UNREADABLE,
    UnavailableCheckpointError,
    UnsafeCheckpointError,
    UserError,
    is_refusal,
    why_unreadable,
)

METERS = (AverageMeter, StopwatchMeter, TimeMeter)  # until 0.9 as objects, under this module

# what fairseq puts into a checkpoint beside tensors and numbers: docs/checkpoints.md says where
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
    bytes,
    Dictionary,  # some tasks keep theirs in the checkpoint
    *((meter, f"fairseq.meters.{meter.__name__}") for meter in METERS),
    *NUMPY_TYPES,
    _TensorPlaceholder,  # an index that stands for a tensor in a checkpoint sent between processes
]


def allow_fairseq_types() -> None:
    """Let torch's safe loading accept what fairseq writes; everything else stays refused."""
    torch.serialization.add_safe_globals(FAIRSEQ_TYPES)


# options of a model that name files from which it took its embeddings before it was trained
EMBEDDING_FILES = ("encoder_embed_path", "decoder_embed_path")


def load_checkpoint(path: str, option: str, mapped: bool = False) -> dict:
    """Read a fairseq checkpoint to the CPU, under torch's safe loading.

    Its model is built without the files of --encoder-embed-path and --decoder-embed-path, which may
    be gone: the trained embeddings are in the checkpoint. Otherwise as `read_checkpoint`.
    """
    state = read_checkpoint(path, option, mapped)
    forget_embedding_files(state)
    return state


def load_options(path: str, option: str) -> omegaconf.DictConfig:
    """The options in a fairseq checkpoint, as `load_checkpoint` gives them; no tensor is read."""
    return load_checkpoint(path, option, mapped=True)["cfg"]


def forget_embedding_files(state: dict) -> list[str]:
    """Set EMBEDDING_FILES to None in a loaded checkpoint; returns those that were given."""
    options = state["cfg"].model
    given = [name for name in EMBEDDING_FILES if getattr(options, name, None)]
    for name in given:
        setattr(options, name, None)
    return given


def read_checkpoint(path: str, option: str, mapped: bool = False) -> dict:
    """Read a fairseq checkpoint to the CPU, under torch's safe loading.

    It is fairseq's `load_checkpoint_to_cpu`, but safe whatever environment variables say.

    Args:
        option: the option that names the file, for the error message.
        mapped: whether tensors are read when they are used, as far as the file's format has it; the
            file must not change as long as they are there.
    Raises:
        UserError: no such file, not a checkpoint, damaged, refused as unsafe, or too large for the
            memory.
    """
    if os.path.isdir(path):
        raise UserError(f"{option} {path}: is a folder; give a checkpoint in it")
    if not os.path.isfile(path):
        raise UserError(f"{option} {path}: no such file")
    try:
        mapped &= zipfile.is_zipfile(path)  # the format before torch 1.6 cannot be mapped
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        lack = what_is_missing(state)
        if not lack:
            state = _as_fairseq_gives_it(state)
            lack = what_is_missing_in_options(state["cfg"])
    except PermissionError as error:
        line = f"{option} {path}: {error.strerror}; let yourself read it"
        raise UnavailableCheckpointError(line) from error
    except UNREADABLE as error:
        if "allocate memory" in str(error):
            line = f"{option} {path}: too little memory to read it; free some"
            raise UnavailableCheckpointError(line) from error
        kind = UnsafeCheckpointError if is_refusal(error, path) else UserError
        raise kind(f"{option} {path}: {why_unreadable(error, path)}") from error
    if lack:
        raise UserError(f"{option} {path}: {lack}; give a checkpoint that fairseq-train wrote")
    return state


def what_is_missing(state: Any) -> str:
    """What fairseq would not find in a stored state, or would find in a form that it cannot use.

    Returns:
        The end of a sentence that begins with the file's name; "" for a whole checkpoint.
    """
    if not isinstance(state, dict):
        return f"holds no checkpoint but a {type(state).__name__}"
    model, cfg = state.get("model"), state.get("cfg")
    if model is None and {"codes", "scales", "about"} <= state.keys():
        return "is packed; pet-fairseq unpack makes a checkpoint of it"
    if model is None:
        return "has no `model`, the parameters"
    if not isinstance(model, dict) or not all(map(torch.is_tensor, model.values())):
        return "its `model` is not a dict of tensors"
    if any("flat_param" in name for name in model):  # fairscale's name of several in one
        return "holds a part of the model, as --use-sharded-state writes one for each GPU"
    if cfg is None and state.get("args") is None:
        return "has no `cfg` or `args`, the options that it was trained with"
    if cfg is not None and not isinstance(cfg, (dict, omegaconf.DictConfig)):
        return f"its `cfg` is a {type(cfg).__name__}, not a dict"
    is_oldest = {"optimizer", "best_loss"} <= state.keys()  # from before there was a history
    if not state.get("optimizer_history") and not is_oldest:
        return "has no `optimizer_history`, which says how long it was trained"
    if not isinstance(state.get("extra_state"), dict) and "epoch" not in state:
        return "has no `extra_state`, which says where in the data its training was"
    return what_is_missing_in_options(cfg) if state.get("args") is None else ""


def what_is_missing_in_options(cfg: Union[dict, omegaconf.DictConfig]) -> str:
    """As `what_is_missing`, of the options that fairseq builds the model and its task by."""
    missing = [part for part in ("model", "task") if cfg.get(part) is None]
    return f"has no options of a {missing[0]}" if missing else ""


def _as_fairseq_gives_it(state: dict) -> dict:
    """A stored state with its options as omegaconf's, upgraded to fairseq's latest format."""
    if state.get("cfg") is not None:
        state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
    return checkpoint_utils._upgrade_state_dict(state)
