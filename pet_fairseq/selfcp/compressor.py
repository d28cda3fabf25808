"""The compressor: a frozen language model that turns text into memory tokens."""

import hashlib
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from fairseq.modules.checkpoint_activations import unwrap_checkpoint
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.low_rank import LowRankUpdates, attention_maps
from pet_fairseq.selfcp.connector import make_connector, rarest_word
from pet_fairseq.selfcp.mixed_input import (
    MixedInput,
    Parts,
    batch_by_tokens,
    join_parts,
    last_states,
)
from pet_fairseq.selfcp.options import SelfCpConfig


class Compressor(FairseqEncoder):
    """The frozen language model, with the memory tag [M] and the connector, which are trained.

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
        self.memory_tag = nn.Parameter(inner.embed_scale * rare.clone())
        self.connector = make_connector(cfg.connector, words.size(1))
        self.low_rank = make_low_rank(inner, cfg)
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
            UserError: a text and its tags are longer than the model has positions.
        """
        tagged = [[*parts, self.memory_tag.expand(m, -1)] for parts, m in zip(texts, numbers)]
        lengths = [sum(map(len, parts)) for parts in tagged]
        memories: dict[int, Tensor] = {}
        for batch in batch_by_tokens(lengths, self.cfg.max_compressor_tokens):
            inputs = self.join([tagged[i] for i in batch])
            self.check_length(inputs)
            with self.updates_for("compressor"):
                states = last_states(self.inner, inputs)
            at_tags = [states[b, lengths[i] - numbers[i] : lengths[i]] for b, i in enumerate(batch)]
            memory = self.connector(torch.cat(at_tags))
            memories |= zip(batch, memory.split([numbers[i] for i in batch]))
        return [memories[i] for i in range(len(texts))]

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
        """Raise UserError if the model has no positions for the longest sequence and `more`."""
        positions = self.inner.max_positions()
        if inputs.tokens.size(1) + more <= positions:
            return  # known without waiting for the device
        longest = int(inputs.lengths.max()) + more
        if longest <= positions:
            return
        option, remedy = f"--window {self.cfg.window}", "a smaller window, a larger --memory-ratio"
        if self.cfg.prompt_strategy == "full":
            option, remedy = "--prompt-strategy full", "a strategy that reads less"
        shots = ", or fewer --shots" if self.cfg.bank else ""
        raise UserError(
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
        UserError: its attention has not the maps that are updated.
    """
    if not cfg.lora_rank:
        return None
    maps = attention_maps(decoder)
    if not maps:
        raise UserError(
            f"--lora-rank {cfg.lora_rank}: the backbone's layers have no attention with q_proj and "
            "v_proj; give a transformer_lm or an imported model of Llama's kind, or leave it out"
        )
    unwrap_checkpoint(decoder)  # run again in the backward pass, a layer would miss its updates
    return LowRankUpdates(maps, cfg.lora_rank, cfg.lora_alpha)


def call_after_loading(compressor: Compressor, _incompatible_keys) -> None:
    """Hook that torch calls after it has loaded a state."""
    compressor.after_loading()
