"""How small a model is: unique layer parameters and the compression rate (PET, section 4.1.3)."""

import logging
from argparse import Namespace
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from fairseq.models.transformer import TransformerModelBase
from torch import nn

from pet_fairseq.attention import MultiheadAttention

logger = logging.getLogger(__name__)


class Counts(NamedTuple):
    """Parameters: stored in the layers; active in them (every layer counts for itself, only heads
    in use); stored in the model.
    """

    layers: int
    unshared_layers: int
    total: int


def count_parameters(model: nn.Module) -> Counts:
    """Count a Transformer's parameters, each shared one once; layers without embeddings."""
    stacks = nn.ModuleList([getattr(model, s).layers for s in ("encoder", "decoder")])
    unused = sum(m.unused_numbers() for m in stacks.modules() if isinstance(m, MultiheadAttention))
    named = stacks.named_parameters(remove_duplicate=False)
    return Counts(
        layers=sum(p.numel() for p in stacks.parameters()),
        unshared_layers=sum(p.numel() for _, p in named) - unused,
        total=sum(p.numel() for p in model.parameters()),
    )


class Vocabularies:
    """The part of a task that building a model needs."""

    def __init__(self, source_size: int, target_size: int):
        self.source_dictionary = _dictionary(source_size)
        self.target_dictionary = _dictionary(target_size)


def _dictionary(size: int) -> Dictionary:
    dictionary = Dictionary()
    for i in range(size - len(dictionary)):
        dictionary.add_symbol(f"madeupword{i}")
    return dictionary


def build_without_memory(args: Namespace, source_size: int = 4, target_size: int = 4) -> nn.Module:
    """The model of these options on torch's meta device: shapes only, built in milliseconds."""
    with torch.device("meta"):
        return build_model(args, Vocabularies(source_size, target_size))


def architecture_counts(arch: str) -> Counts:
    """Parameter counts of a named encoder-decoder architecture with its default options."""
    return count_parameters(build_without_memory(Namespace(arch=arch)))


def compression_rate(counts: Counts, reference: Counts) -> float:
    """Layer parameters as a share of the reference's, in percent."""
    return 100.0 * counts.layers / reference.layers


def is_countable(arch: str) -> bool:
    """Whether a name is that of an encoder-decoder Transformer architecture."""
    return issubclass(ARCH_MODEL_REGISTRY.get(arch, object), TransformerModelBase)


def log_compression(model: nn.Module, reference: str) -> None:
    """Log the compression rate of a new model; `reference` is an architecture's name."""
    if next(model.parameters()).is_meta:  # built only to be counted
        return
    counts = count_parameters(model)
    rate = compression_rate(counts, architecture_counts(reference))
    logger.info(
        f"layer parameters: {counts.layers:,} stored, {counts.unshared_layers:,} without sharing; "
        f"compression rate {rate:.2f}% of {reference}"
    )
