"""`pet-fairseq model-options`: the options that build a checkpoint's model again."""

import shlex
from argparse import Namespace
from collections.abc import Sequence
from enum import Enum
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)

from pet_fairseq.checkpoints.known_models import check_architecture
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import architecture_name, command_line_options


def model_options(path: str) -> list[str]:
    """The words of `--arch NAME` and of every model option that differs from its default.

    Lists are joined by commas, not spaces, so that a shell can take them from `$(...)`.

    Raises:
        UserError: an unreadable file, or a model without a named architecture.
    """
    cfg = load_options(path, "CHECKPOINT")
    check_architecture(cfg, path, "CHECKPOINT")
    args = cfg["model"]
    arch = str(architecture_name(args))
    if arch not in ARCH_MODEL_REGISTRY or arch not in ARCH_CONFIG_REGISTRY:
        raise UserError(f"CHECKPOINT {path}: its model has no named architecture but {arch!r}")
    defaults = architecture_defaults(arch)
    options = ["--arch", arch]
    for action in command_line_options(ARCH_MODEL_REGISTRY[arch]):
        value = getattr(args, action.dest, None)
        if value is None or value == defaults.get(action.dest):
            continue
        option = action.option_strings[0]
        if action.nargs == "+":  # a list of words, or these between spaces; `$(...)` divides there
            words = value.split() if isinstance(value, str) else [str(word) for word in value]
            options += [option, *words] if words else []
        else:
            options += option_words(option, value, flag=action.nargs == 0)
    return options


def architecture_defaults(arch: str) -> dict[str, Any]:
    """What fairseq takes for the options that are not given: the architecture's values come first.

    Newer kinds of models, such as transformer_lm, have the other ones in their dataclass.
    """
    named = Namespace(arch=arch)
    ARCH_CONFIG_REGISTRY[arch](named)
    rest = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch], Namespace)()
    return {**vars(rest), **vars(named)}


def option_words(option: str, value: Any, flag: bool) -> list[str]:
    """One option as the words of a command line; none for a flag that is off."""
    if flag:
        return [option] if value else []
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ",".join(map(str, value))  # as fairseq's eval_str_list takes them
    return [option, shlex.quote(str(value).replace(" ", "," if option.endswith("-pairs") else " "))]
