"""Reading checkpoints under torch's safe loading."""

import argparse
import collections
import os
import typing

import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import _TensorPlaceholder
from omegaconf import OmegaConf
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from pet_fairseq.errors import (
    UNREADABLE,
    UnsafeCheckpointError,
    UserError,
    is_refusal,
    why_unreadable,
)

# what fairseq puts into a checkpoint beside tensors: plain containers of options
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
    _TensorPlaceholder,  # an index that stands for a tensor in a checkpoint sent between processes
]


def allow_fairseq_types() -> None:
    """Let torch's safe loading accept fairseq's options; everything else stays refused."""
    torch.serialization.add_safe_globals(FAIRSEQ_TYPES)


def load_checkpoint(path: str, option: str) -> dict:
    """Read a fairseq checkpoint to the CPU, under torch's safe loading.

    It is fairseq's `load_checkpoint_to_cpu`, but safe whatever environment variables say.

    Args:
        option: the option that names the file, for the error message.
    Raises:
        UserError: no such file, not a checkpoint, damaged, or refused as unsafe.
    """
    if os.path.isdir(path):
        raise UserError(f"{option} {path}: is a folder; give a checkpoint in it")
    if not os.path.isfile(path):
        raise UserError(f"{option} {path}: no such file")
    try:
        with open(path, "rb") as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
        state = _as_fairseq_gives_it(state)
    except PermissionError as error:
        raise UserError(f"{option} {path}: {error.strerror}; let yourself read it") from error
    except UNREADABLE as error:
        kind = UnsafeCheckpointError if is_refusal(error, path) else UserError
        raise kind(f"{option} {path}: {why_unreadable(error, path)}") from error
    if not _is_complete(state):
        raise UserError(f"{option} {path}: not a fairseq checkpoint; give one that it wrote")
    return state


def _is_complete(state: dict) -> bool:
    """Whether a state has the tensors of a model, and the options of it and of its task."""
    model, cfg = state.get("model"), state.get("cfg")
    return (
        isinstance(model, dict)
        and all(isinstance(tensor, torch.Tensor) for tensor in model.values())
        and isinstance(cfg, omegaconf.DictConfig)
        and all(cfg.get(part) is not None for part in ("model", "task"))
        and isinstance(state["extra_state"], dict)
    )


def _as_fairseq_gives_it(state: dict) -> dict:
    """A stored state with its options as omegaconf's, upgraded to fairseq's latest format."""
    cfg = state.get("cfg")
    if cfg is not None:
        if not isinstance(cfg, (dict, omegaconf.DictConfig)):
            raise TypeError(f"options in a {type(cfg).__name__}")
        state["cfg"] = OmegaConf.create(cfg, flags={"allow_objects": True})
    return checkpoint_utils._upgrade_state_dict(state)
