"""Frozen models that others are built around: loading one, and checking that it is the same one."""

import hashlib
from collections.abc import Callable

import torch
from fairseq.models import build_model
from torch import Tensor, nn

from pet_fairseq.checkpoints.dictionaries import check_dictionaries, check_labels, own_data
from pet_fairseq.checkpoints.known_models import check_architecture, naming_mismatch
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.translation_checks import check_one_language_pair
from pet_fairseq.errors import UserError
from pet_fairseq.files import hash_file
from pet_fairseq.nn.architectures import model_class
from pet_fairseq.nn.layers import use_torch_gelu

MERGE_FIRST = "merge it first by pet-fairseq export --to fairseq, and give the folder's model.pt"


def can_be_merged(kind: type) -> bool:
    """Whether models of a class hold changes of a model, which they put into it by `merge`.

    Fairseq's models have no base class here that could say so.
    """
    return hasattr(kind, "merge")


def read_backbone(path: str, option: str) -> dict:
    """Read the checkpoint of a model that another one can be built around.

    Models that are themselves built around another one say so by the class attribute
    `wraps_backbone = True`; they are refused, as are those with a method `merge`, which are to be
    merged first.

    Args:
        option: names the path in errors.
    Raises:
        UserError: no such file, not a usable checkpoint, a model around another one, or a
            multilingual one.
    """
    state = load_checkpoint(path, option)
    check_architecture(state["cfg"], path, option)
    check_one_language_pair(state, path, option)
    kind = model_class(state["cfg"].model)
    if can_be_merged(kind):
        raise UserError(f"{option} {path}: holds changes of a model; {MERGE_FIRST}")
    if getattr(kind, "wraps_backbone", False):
        raise UserError(
            f"{option} {path}: holds a compressed model, not a backbone; give the checkpoint of "
            "the model that was compressed"
        )
    return state


def load_backbone(path: str, task, keeps_head: bool = False) -> nn.Module:
    """Load the model in a checkpoint, with its classification heads.

    Args:
        keeps_head: whether the heads stay as they are, so that their classes are the task's.
    Raises:
        UserError: no path, no such file, not a usable checkpoint, a model around another one, or
            one with other dictionaries, or classes, than the task's.
    """
    if not path:
        raise UserError("--backbone-path: missing; give the checkpoint of the model to compress")
    state = read_backbone(path, "--backbone-path")
    remedy = "give the data that it was trained on, or other data made with its dictionaries"
    check_dictionaries(state, path, "--backbone-path", task, remedy)
    trained = getattr(state["cfg"].task, "data", None)
    if keeps_head and trained is not None:
        folder = own_data(trained, path)
        check_labels(path, "--backbone-path", task, remedy, folder, may_be_renamed=True)
    backbone = build_model(state["cfg"].model, task)
    use_torch_gelu(backbone)
    register_heads(backbone, state["model"])
    with naming_mismatch(state["cfg"], path, "--backbone-path"):
        backbone.load_state_dict(state["model"], strict=True, model_cfg=state["cfg"].model)
    return backbone


def register_heads(backbone: nn.Module, state_dict: dict[str, Tensor]) -> None:
    """Register a checkpoint's classification heads; fairseq drops those that it does not know."""
    prefix, suffix = "classification_heads.", ".out_proj.weight"
    for key, weight in state_dict.items():
        if key.startswith(prefix) and key.endswith(suffix):
            name = key[len(prefix) : -len(suffix)]
            inner = state_dict[f"{prefix}{name}.dense.weight"].size(0)
            backbone.register_classification_head(name, num_classes=weight.size(0), inner_dim=inner)


def is_decoder_only(backbone: nn.Module) -> bool:
    """Whether a model is a language model of Transformer layers."""
    layers = getattr(getattr(backbone, "decoder", None), "layers", None)
    return not hasattr(backbone, "encoder") and isinstance(layers, nn.ModuleList)


def check_gives_logits(model: nn.Module, what: str) -> None:
    """Check that a model's decoder gives a logit for each word; `what` begins the error.

    Raises:
        UserError: it has an adaptive softmax, and gives features in their place.
    """
    if getattr(getattr(model, "decoder", None), "adaptive_softmax", None) is not None:
        raise UserError(
            f"{what}: the model has an adaptive softmax, which gives no logits; give a model that "
            "was trained without --adaptive-softmax-cutoff"
        )


def file_hash(path: str) -> Tensor:
    """SHA-256 of a file: 32 numbers, uint8."""
    digest = hash_file(path, hashlib.sha256()).digest()
    return torch.tensor(list(digest), dtype=torch.uint8)


def check_hash(state_dict: dict[str, Tensor], current: Tensor, path: str, what: str) -> None:
    """Check that a model's state was saved around the backbone in the file `path`.

    Args:
        current: the `file_hash` of that file. what: names the state in the error.
    Raises:
        UserError: it was saved around another file.
    """
    stored = state_dict.get("backbone_hash")
    if stored is None or not torch.equal(stored.cpu(), current.cpu()):
        raise UserError(
            f"--backbone-path {path}: not the file that {what} was trained on; give that one"
        )


def drop_modules(*parts: str) -> Callable:
    """A state-dict hook that removes some sub-modules, such as a backbone with its own file."""

    def hook(model: nn.Module, state_dict: dict, prefix: str, _metadata: dict) -> None:
        prefixes = tuple(f"{prefix}{part}." for part in parts)
        for name in [n for n in state_dict if n.startswith(prefixes)]:
            del state_dict[name]

    return hook


def restore_modules(model: nn.Module, state_dict: dict[str, Tensor]) -> None:
    """Add to a state whatever `drop_modules` removed from it, as the model has it at the moment."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        state_dict.setdefault(name, parameter.detach())
    for name, buffer in model.named_buffers(remove_duplicate=False):
        if is_stored(model, name):
            state_dict.setdefault(name, buffer)


def is_stored(model: nn.Module, buffer: str) -> bool:
    """Whether a model's states hold a buffer; strict loading refuses one that they do not."""
    owner, _, name = buffer.rpartition(".")
    return name not in model.get_submodule(owner)._non_persistent_buffers_set
