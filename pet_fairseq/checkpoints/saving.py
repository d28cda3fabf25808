"""What a checkpoint stores: its tensors, each once, and its bytes."""

from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch
from omegaconf import OmegaConf
from torch import Tensor


def unique_tensors(state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """The entries of a loaded model state, each stored tensor once, without fairseq's markers."""
    seen = set()
    unique = {}
    for name, tensor in state_dict.items():
        key = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape)
        if key in seen or name.endswith((".version", "._float_tensor")):
            continue
        seen.add(key)
        unique[name] = tensor
    return unique


def equal_as_one(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same entries, of which equal tensors are one, which torch.save stores once."""
    first: dict[tuple, Tensor] = {}
    found = {}
    for name, tensor in weights.items():
        numbers = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        content = (tensor.dtype, tensor.shape, sha256(numbers).digest())
        found[name] = first.setdefault(content, tensor)
    return found


def new_state(
    cfg: dict[str, Any], model: dict[str, Tensor], optimizer_history: list, extra_state: dict
) -> dict[str, Any]:
    """A checkpoint with all that fairseq reads of one, for a model that was not just trained.

    fairseq-train reads the entry of the criterion if its own has parameters, as that of
    `patient_kd` may, also in a checkpoint that it only starts from.

    Args:
        cfg: the options. model: the model's state.
    """
    return {
        "args": None,
        "cfg": cfg,
        "model": model,
        "criterion": None,
        "optimizer_history": optimizer_history,
        "extra_state": extra_state,
    }


def derived_state(state: dict, model: dict[str, Tensor]) -> dict[str, Any]:
    """The state of a checkpoint for a model that was made of its own one.

    What a training left of the old model is not in it: the optimizer's state, and the average of
    --store-ema, in whose place is the new model, since fairseq wants one there.
    """
    left = ("last_optimizer_state", "cfg", "model", "extra_state")
    extra = {k: v for k, v in state["extra_state"].items() if k != "ema_fp32_params"}
    if "ema" in extra:
        extra["ema"] = model
    cfg = OmegaConf.to_container(state["cfg"], enum_to_str=True)
    rest = {name: value for name, value in state.items() if name not in left}
    return {**rest, "cfg": cfg, "model": model, "extra_state": extra}


class _Counter:
    """A file that only counts its bytes."""

    def __init__(self):
        self.bytes = 0

    def write(self, data) -> int:
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        pass


def stored_bytes(state: dict) -> int:
    """Size, in bytes, of a checkpoint file without the optimizer's state."""
    counter = _Counter()
    without = {k: v for k, v in state.items() if k != "last_optimizer_state"}
    torch.save(without, cast(BinaryIO, counter))
    return counter.bytes


def save_state(state: dict, file: Path) -> None:
    """Write a checkpoint into a file.

    Raises:
        OSError: for example a full disk, which torch would report as a wrong file position.
    """
    try:
        with open(file, "wb") as stream:
            torch.save(state, stream)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
