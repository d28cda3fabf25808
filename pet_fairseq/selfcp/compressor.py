"""The compressor: a frozen language model that turns text into memory tokens."""

import hashlib
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from pet_fairseq.errors import TooLongError, UserError
from pet_fairseq.nn.low_rank import LowRankUpdates, update_attention
from pet_fairseq.nn.prefill import prefill, read_on
from pet_fairseq.selfcp.connector import make_connector, rarest_word
from pet_fairseq.selfcp.mixed_input import (
    MixedInput,
    Parts,
    batch_by_tokens,
    join_parts,
    last_states,
    pad_left,
    vectors_embedded,
)
from pet_fairseq.selfcp.options import SelfCpConfig


class Compressor(FairseqEncoder):
    """The frozen language model, with the memory tag [M] and the connector, which are trained.

    `memory_tag` is C, or with several --memory-tags N x C.

    With --lora-rank it has trained low-rank updates of the language model, too, which count in the
    role of --lora-on only.

    Args:
        inner: the decoder of the language model.
    Raises:
        UserError: --lora-rank for a model whose attention has not the maps that are updated.
    """

    def __init__(self, inner: nn.Module, cfg: SelfCpConfig, dictionary: Dictionary):
        super().__init__(dictionary)
        self.inner = inner
        self.cfg = cfg
        words = inner.embed_tokens.weight
        rare = words[rarest_word(dictionary)].detach()
        tag = inner.embed_scale * rare.clone()
        several = cfg.memory_tags > 1
        self.memory_tag = nn.Parameter(tag.repeat(cfg.memory_tags, 1) if several else tag)
        self.connector = make_connector(cfg.connector, words.size(1))
        self.low_rank = make_low_rank(inner, cfg)
        self.has_rotary_positions = has_rotary_positions(inner)
        self.loaded_hash = ""
        self.register_load_state_dict_post_hook(call_after_loading)

    def compress(self, texts: Sequence[Parts], numbers: Sequence[int]) -> list[Tensor]:
        """Memory tokens for each text: the connector's map of the last states at its tags.

        SelfCP, eq. 1, and the connector of eq. 2.

        Args:
            texts: the parts that are read before the tags; numbers: how many memory tokens each
            text gets, m.
        Returns:
            m x C for each text, from one padded batch if --max-compressor-tokens allows.
        Raises:
            TooLongError: a text and its tags are longer than the model has positions.
        """
        lengths = [sum(map(len, parts)) + m for parts, m in zip(texts, numbers)]
        memories: dict[int, Tensor] = {}
        for batch in batch_by_tokens(lengths, self.cfg.max_compressor_tokens):
            self.check_positions(lengths[batch[0]])  # the longest
            some, tags = [texts[i] for i in batch], [numbers[i] for i in batch]
            read = self.read_in_turn if self.only_tags_are_trained(some) else self.read_together
            with self.updates_for("compressor"):
                at_tags = read(some, tags)
            memory = self.connector(torch.cat(at_tags))
            memories |= zip(batch, memory.split(tags))
        return [memories[i] for i in range(len(texts))]

    def read_together(self, texts: Sequence[Parts], numbers: Sequence[int]) -> list[Tensor]:
        """Last states at the tags behind each text, m x C, from one pass over text and tags."""
        tagged = [[*parts, self.tags(m)] for parts, m in zip(texts, numbers)]
        states = last_states(self.inner, self.join(tagged))
        ends = [sum(map(len, parts)) for parts in tagged]
        return [row[end - m : end] for row, end, m in zip(states, ends, numbers)]

    def read_in_turn(self, texts: Sequence[Parts], numbers: Sequence[int]) -> list[Tensor]:
        """Last states at the tags behind each text, from one pass over text and one over tags.

        The first keeps no graph. The model is causal: nothing that it computes of a text depends on
        the tags behind it. So the backward pass ends at the tags, and neither time nor memory go
        into that of the text.
        """
        context = self.join(texts)
        if self.has_rotary_positions:
            context = pad_left(context)
        tags = self.join([[self.tags(m)] for m in numbers])
        lengths = {sum(map(len, parts)) for parts in texts}
        state: dict[str, dict[str, Optional[Tensor]]] = {}
        with vectors_embedded(self.inner, context):  # frozen all through: no graph
            prefill(self.inner, context.tokens, state, len(lengths) > 1, features_only=True)
        with vectors_embedded(self.inner, tags):
            states, _ = read_on(self.inner, context.tokens, tags.tokens, state, features_only=True)
        return [row[:m] for row, m in zip(states, numbers)]

    def tags(self, number: int) -> Tensor:
        """The tags of some memory tokens: number x C.

        Raises:
            UserError: there are several tags, but not so many.
        """
        if self.memory_tag.dim() == 1:
            return self.memory_tag.expand(number, -1)
        if number > len(self.memory_tag):
            raise UserError(
                f"--memory-tags {len(self.memory_tag)}: a segment becomes {number} memory tokens; "
                "give as many tags, a larger --memory-ratio or a smaller window"
            )
        return self.memory_tag[:number]

    def only_tags_are_trained(self, texts: Sequence[Parts]) -> bool:
        """Whether a graph is kept, and nothing in front of the tags has a part in it."""
        if not torch.is_grad_enabled() or runs_layers_again(self.inner):
            return False
        if self.low_rank is not None and self.cfg.lora_on == "compressor":
            return False
        return not any(part.requires_grad for parts in texts for part in parts)

    def updates_for(self, role: str) -> AbstractContextManager:
        """Inside the block the language model has the low-rank updates that its role has.

        Args:
            role: one of LORA_ON, what the model is about to do.
        """
        if self.low_rank is None or self.cfg.lora_on != role:
            return nullcontext()
        return self.low_rank.applied()

    def join(self, sequences: Sequence[Parts]) -> MixedInput:
        """Build what the model reads from the parts of each sequence."""
        return join_parts(sequences, self.dictionary.pad(), self.dictionary.unk())

    def check_length(self, inputs: MixedInput, more: int = 0) -> None:
        """Raise TooLongError if the model has no positions for the longest sequence and `more`."""
        if inputs.tokens.size(1) + more <= self.inner.max_positions():
            return  # known without waiting for the device
        self.check_positions(int(inputs.lengths.max()) + more)

    def check_positions(self, longest: int) -> None:
        """Raise TooLongError if the model has no positions for a sequence of this many tokens."""
        positions = self.inner.max_positions()
        if longest <= positions:
            return
        option, remedy = f"--window {self.cfg.window}", "a smaller window, a larger --memory-ratio"
        if self.cfg.prompt_strategy == "full":
            option, remedy = "--prompt-strategy full", "a strategy that reads less"
        shots = ", or fewer --shots" if self.cfg.bank else ""
        raise TooLongError(
            f"{option}: query, prompt and memory come to {longest} tokens, but the backbone "
            f"has {positions} positions; give {remedy} or shorter queries{shots}"
        )

    def max_positions(self) -> int:
        return sys.maxsize  # what is too long is compressed

    # --- identity ---------------------------------------------------------------------------------

    def after_loading(self) -> None:
        """Remember the hash of the weights before they are rounded to half precision."""
        self.loaded_hash = self.hash_weights()

    @property
    def weights_hash(self) -> str:
        """SHA-256 of all that is trained as it was before any rounding."""
        rounded = self.memory_tag.dtype in (torch.float16, torch.bfloat16)
        return self.loaded_hash if rounded else self.hash_weights()

    def hash_weights(self) -> str:
        """Return the SHA-256 of memory tag, connector and low-rank updates as they are now."""
        digest = hashlib.sha256()
        tensors = [self.memory_tag, *self.connector.state_dict().values()]
        if self.low_rank is not None:
            tensors += self.low_rank.state_dict().values()
            digest.update(f"{self.cfg.lora_on} {self.low_rank.scale}".encode())
        for tensor in tensors:
            digest.update(tensor.detach().float().cpu().numpy().tobytes())
        return digest.hexdigest()


def make_low_rank(decoder: nn.Module, cfg: SelfCpConfig) -> Optional[LowRankUpdates]:
    """The low-rank updates of a language model that --lora-rank asks for.

    Raises:
        UserError: as `update_attention`.
    """
    if not cfg.lora_rank:
        return None
    remedy = "give a transformer_lm or an imported model of Llama's kind, or leave it out"
    return update_attention(decoder, cfg.lora_rank, cfg.lora_alpha, remedy)


def has_rotary_positions(decoder: nn.Module) -> bool:
    return any(getattr(module, "needs_positions", False) for module in decoder.modules())


def runs_layers_again(decoder: nn.Module) -> bool:
    """Whether layers run again in the backward pass (--checkpoint-activations)."""
    return any(hasattr(module, "precheckpoint_forward") for module in decoder.modules())


def call_after_loading(compressor: Compressor, _incompatible_keys) -> None:
    """Hook that torch calls after it has loaded a state."""
    compressor.after_loading()
