"""Which checkpoints hold a model that translates text of one language pair, word by word."""

from argparse import Namespace
from typing import Optional, Union

from fairseq.models.nat import FairseqNATModel
from omegaconf import DictConfig
from torch import Tensor

from pet_fairseq.checkpoints.known_models import check_architecture
from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import architecture_name, model_class
from pet_fairseq.nn.layers import STACKS

# options of the tasks that train one model on several languages
LANGUAGE_LISTS = ("lang_pairs", "langs")
# those of which a model of one pair can be made
MULTILINGUAL_TASKS = ("translation_multi_simple_epoch", "translation_from_pretrained_bart")


def check_translation_model(state: dict, path: str, option: str) -> None:
    """Refuse models that translate, but not text of one language pair from left to right.

    What is no encoder-decoder at all passes: its users know better what they need.

    Args:
        state: of a loaded checkpoint; option: names its path in errors.
    Raises:
        UserError: a multilingual, non-autoregressive or speech model, or one of another plugin.
    """
    check_architecture(state["cfg"], path, option)
    check_one_language_pair(state, path, option)
    options = state["cfg"].model
    model = f"{option} {path}: {architecture_name(options)}"
    if issubclass(model_class(options), FairseqNATModel):
        raise UserError(
            f"{model} is a non-autoregressive model, which gives no distribution over the next "
            "word after the words before it; give a left-to-right one such as fairseq's transformer"
        )
    side = side_without_words(state["model"])
    if side is not None:
        raise UserError(
            f"{model} is a speech model: its {side} is sound, not words; give one of text"
        )


def check_one_language_pair(state: dict, path: str, option: str) -> None:
    """Raise UserError if a model was trained on several pairs of languages."""
    task = state["cfg"].task
    if not is_multilingual(task):
        return
    check_multilingual_task(task, path, option)
    raise UserError(
        f"{option} {path}: a multilingual model (trained with --task {task._name}); make one of a "
        "single pair of it first: pet-fairseq bilingual CHECKPOINT --source-lang LANG "
        "--target-lang LANG --out FOLDER"
    )


def check_multilingual_task(task: Union[DictConfig, Namespace], path: str, option: str) -> None:
    """Raise UserError for a task of whose models none of one pair of languages can be made."""
    if task._name not in MULTILINGUAL_TASKS:
        raise UserError(
            f"{option} {path}: was trained with --task {task._name}; of the multilingual tasks "
            f"only {' and '.join(MULTILINGUAL_TASKS)} are supported"
        )


def is_multilingual(task: Union[DictConfig, Namespace]) -> bool:
    """Whether the options of a task list languages; older kinds of tasks have a Namespace."""
    return any(getattr(task, name, None) for name in LANGUAGE_LISTS)


def side_without_words(state_dict: dict[str, Tensor]) -> Optional[str]:
    """The side of an encoder-decoder, source or target, that embeds no words; None if both do.

    A decoder's embeddings may be stored under the encoder's name only, if it is a Transformer.
    """
    stacks = {s: [n for n in state_dict if n.startswith(f"{s}.")] for s in STACKS}
    if not all(stacks.values()):
        return None
    for side, names in zip(("source", "target"), stacks.values()):
        words = any("embed" in name and "position" not in name for name in names)
        if not words and not any(name.startswith("decoder.layers.") for name in names):
            return side
    return None
