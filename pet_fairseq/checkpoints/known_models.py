"""Whether a checkpoint's model is one that is known here, and its parameters are that model's."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig

from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import architecture_name

MODELS = (ARCH_MODEL_REGISTRY, MODEL_REGISTRY)  # by either fairseq builds a model
MISMATCH = "Error(s) in loading state_dict"  # torch's words
VERBS = {"Missing": "lacks", "Unexpected": "has"}


def check_architecture(cfg: DictConfig, path: str, option: str) -> None:
    """Check that fairseq or this package has the architecture of a checkpoint's model.

    One of another plugin is not imported: a checkpoint names its folder, and might name any code.

    Args:
        cfg: of a loaded checkpoint. option: names its path in errors.
    Raises:
        UserError: it has not, or the checkpoint names none.
    """
    options = cfg.model
    names = [getattr(options, key, None) for key in ("_name", "arch")]
    if not any(name in registry for name in names for registry in MODELS):
        folder = user_dir(cfg)
        raise UserError(
            f"{option} {path}: its architecture {architecture_name(options)} is another plugin's; "
            f"write `import pet_fairseq` into {folder}/__init__.py and train a student by "
            f"fairseq-train --user-dir {folder} --criterion pet_distillation, whose checkpoint "
            "every command takes"
        )


def check_task(cfg: DictConfig, path: str, option: str) -> None:
    """As `check_architecture`, of the task that the model was trained with."""
    options = cfg.task
    name = getattr(options, "task", None) or options._name  # as fairseq reads it
    if name not in TASK_REGISTRY:
        raise UserError(
            f"{option} {path}: its --task {name} is another plugin's; if the model reads what "
            "fairseq's translation gives it, pet-fairseq export --to fairseq makes a model of that "
            "task of it"
        )


def user_dir(cfg: DictConfig) -> str:
    """The folder of the plugin that a checkpoint was trained with, PLUGIN if it names none."""
    return getattr(cfg.get("common"), "user_dir", None) or "PLUGIN"


@contextmanager
def naming_mismatch(cfg: DictConfig, path: str, option: str) -> Iterator[None]:
    """Let a model that refuses a checkpoint's parameters name the file, and the first of them.

    Raises:
        UserError: it refuses them; otherwise what the block raised.
    """
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith(MISMATCH):
            raise
        raise UserError(
            f"{option} {path}: {first_mismatch(str(error))}, unlike "
            f"{architecture_name(cfg.model)} with the options in it; give a checkpoint "
            "as fairseq-train writes it, of a fairseq whose models nobody changed"
        ) from error


def first_mismatch(error: str) -> str:
    """The first parameters in torch's error, which lists all: missing, unknown or of other size."""
    found = dict(re.findall(r'(Missing|Unexpected) key\(s\) in state_dict: "([^"]+)"', error))
    parts = [f"{verb} {found[kind]}" for kind, verb in VERBS.items() if kind in found]
    return " and ".join(parts) or "has a " + " ".join(error.splitlines()[1].split()).rstrip(".")
