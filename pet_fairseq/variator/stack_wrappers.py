"""Wrappers of a backbone's encoder or decoder, which tell the sites what positions to group."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoder, FairseqIncrementalDecoder
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.nn.prefill import prefill
from pet_fairseq.variator.grouping import Grouping


class Delegate(nn.Module):
    """Looks up in `inner` the attributes that it does not have: layers, embed_tokens, ..."""

    def __getattr__(self, name: str):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


def left_aligned_order(padding: Tensor) -> Tensor:
    """The order that moves each sentence's real positions to the left edge: indices, B x T.

    Args:
        padding: B x T, True = padding.
    """
    return padding.to(torch.uint8).argsort(dim=1, stable=True)


class VariatorEncoder(Delegate, FairseqEncoder):
    """Takes the place of the backbone's encoder and tells the sites where the padding is.

    Sources padded on the left are moved to the left edge, so that a sentence is divided into the
    same groups in every batch. At ratio 1 nothing is changed.
    """

    def __init__(self, inner: nn.Module, grouping: Grouping, padding_idx: int):
        super().__init__(getattr(inner, "dictionary", None))
        self.inner = inner
        self.grouping = grouping
        self.padding_idx = padding_idx
        # words that the encoder itself puts around each sentence: groups have them, too
        self.words_around = getattr(inner, "added", 0)

    def forward(self, src_tokens: Tensor, *args, **options):
        """The inner encoder's output; src_tokens B x T."""
        if self.grouping.ratio == 1:
            return self.inner(src_tokens, *args, **options)
        padding = src_tokens.eq(self.padding_idx)
        if not padding.any():
            with self.grouping.batch(None):
                return self.inner(src_tokens, *args, **options)
        order = left_aligned_order(padding)
        aligned = F.pad(padding.gather(1, order), (self.words_around, 0))
        with self.grouping.batch(aligned):
            return self.inner(src_tokens.gather(1, order), *args, **options)

    def reorder_encoder_out(self, encoder_out, new_order):
        return self.inner.reorder_encoder_out(encoder_out, new_order)

    def max_positions(self):
        return self.inner.max_positions()


# --- decoder-only models --------------------------------------------------------------------------


def prompt_mask(tokens: Tensor, end: int) -> Tensor:
    """The mask of the prompts, B x T: up to and with the first `end`; all False without one."""
    ends = tokens.eq(end)
    ends_before = ends.cumsum(dim=1) - ends.long()
    return ends_before.eq(0) & ends.any(dim=1, keepdim=True)


class VariatorDecoder(Delegate, FairseqIncrementalDecoder):
    """Takes the place of the decoder of a decoder-only model; only the prompt is grouped.

    No group holds a position that is to be predicted. In generation the prompt is read in one go
    when it is complete; until then nothing is computed, as its symbols are given.
    """

    def __init__(self, inner: nn.Module, grouping: Grouping, padding_idx: int, prompt_end_idx: int):
        super().__init__(inner.dictionary)
        self.inner = inner
        self.grouping = grouping
        self.padding_idx = padding_idx
        self.prompt_end_idx = prompt_end_idx

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out=None,
        incremental_state: Optional[dict] = None,
        **options,
    ) -> tuple[Tensor, dict]:
        """The inner decoder's output; prev_output_tokens B x T."""
        if self.grouping.ratio == 1:
            return self.inner(prev_output_tokens, encoder_out, incremental_state, **options)
        if incremental_state is not None:
            return self.step(prev_output_tokens, incremental_state, **options)
        prompt = prompt_mask(prev_output_tokens, self.prompt_end_idx)
        with self.grouped(prompt) as compressed:
            output, extra = self.inner(prev_output_tokens, **options)
        return output, {**extra, "prompt": prompt} if compressed else extra

    @contextmanager
    def grouped(self, prompt: Tensor) -> Iterator[bool]:
        """Inside the block the sites group the prompts, B x T; yields whether there are any."""
        shortest, longest = torch.stack(prompt.sum(dim=1).aminmax()).tolist()
        if longest == 0:
            with self.grouping.with_ratio(1):
                yield False
        else:
            with self.grouping.batch(~prompt[:, :longest], first_ungrouped=shortest):
                yield True

    def step(self, tokens: Tensor, incremental_state: dict, **options) -> tuple[Tensor, dict]:
        """The output for the last position, B x 1 x V; tokens: all so far, B x T."""
        given = tokens.eq(self.prompt_end_idx)
        if given[:, :-1].any(dim=1).all():
            return self.run_uncompressed(tokens, incremental_state=incremental_state, **options)
        in_prompt = ~given.any(dim=1)
        if in_prompt.all():
            zeros = tokens.new_zeros(len(tokens), 1, len(self.dictionary), dtype=torch.float)
            return zeros, {"attn": [None], "in_prompt": in_prompt}
        with self.grouped(prompt_mask(tokens, self.prompt_end_idx)):
            output, _ = prefill(self.inner, tokens, incremental_state, **options)
        return output[:, -1:], {"attn": [None], "in_prompt": in_prompt}

    def run_uncompressed(self, tokens: Tensor, **options) -> tuple[Tensor, dict]:
        """Run the inner decoder without plugins."""
        with self.grouping.with_ratio(1):
            return self.inner(tokens, **options)

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """The inner decoder's probabilities; in generation, 1 for every symbol in the prompt.

        There </s> has a little more: a prompt that ends without `--prompt-end` gets no answer, in
        place of a random one.

        Raises:
            UserError: the output is that of a compressed prompt, whose groups show its symbols.
        """
        extra = net_output[1] or {}
        if "prompt" in extra:
            raise UserError(
                "compression_ratio: a compressed prompt has seen the symbols it would predict; for "
                "probabilities of whole texts set it to 1"
            )
        probabilities = self.inner.get_normalized_probs(net_output, log_probs, sample)
        if "in_prompt" not in extra:
            return probabilities
        constant = torch.full_like(probabilities, 0.0 if log_probs else 1.0)
        constant[..., self.dictionary.eos()] += 1e-6
        return torch.where(extra["in_prompt"][:, None, None], constant, probabilities)

    def max_positions(self):
        return self.inner.max_positions()
