"""fairseq's named architectures: their defaults, their classes, and models without memory."""

import argparse
from argparse import Namespace
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from fairseq.models.transformer import TransformerModelBase
from torch import nn


def set_defaults(args: Namespace, **defaults) -> None:
    """Set the options that the user did not give."""
    for name, value in defaults.items():
        if not hasattr(args, name):
            setattr(args, name, value)


def architecture_name(options: Any) -> Optional[str]:
    """The name of the architecture in a checkpoint's `cfg.model`, None if it has none."""
    return getattr(options, "arch", None) or getattr(options, "_name", None)


def model_class(options: Any) -> type[Any]:
    """The class of the model in a checkpoint's `cfg.model`; `object` if nobody registered it."""
    return ARCH_MODEL_REGISTRY.get(architecture_name(options), object)


def command_line_options(kind: type[Any]) -> list[argparse.Action]:
    """The options that a registered model class adds to fairseq's command line."""
    parser = argparse.ArgumentParser(add_help=False)
    kind.add_args(parser)
    return parser._actions


def is_encoder_decoder(arch: str) -> bool:
    """Whether a name is that of an encoder-decoder Transformer architecture."""
    return issubclass(ARCH_MODEL_REGISTRY.get(arch, object), TransformerModelBase)


class Vocabularies:
    """The part of a task that building a model needs: dictionaries of given sizes."""

    def __init__(self, source_size: int, target_size: int):
        self.source_dictionary = _dictionary(source_size)
        self.target_dictionary = _dictionary(target_size)


class MadeUpDictionary(Dictionary):
    """As large as another one; it takes every word, as it cannot know which ones that one has."""

    def __contains__(self, word: str) -> bool:
        return True


def _dictionary(size: int) -> Dictionary:
    dictionary = MadeUpDictionary()
    for i in range(size - len(dictionary)):
        dictionary.add_symbol(f"madeupword{i}")
    return dictionary


def build_without_memory(args: Namespace, source_size: int = 4, target_size: int = 4) -> nn.Module:
    """Build the model of these options on torch's meta device: shapes only, in milliseconds.

    Models that fairseq initialises as BERT, such as BART, are built in memory after all, as that
    reads what it draws.

    Args:
        source_size, target_size: entries of the two dictionaries, the four special ones included.
    """
    vocabularies = Vocabularies(source_size, target_size)
    try:
        with torch.device("meta"):
            return build_model(args, vocabularies)
    except NotImplementedError:  # torch's, for values that a tensor on the meta device has not
        return build_model(args, vocabularies)
