"""From prompts to what the generator reads: segments, memory tokens, and all in order."""

import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.prefill import prefill
from pet_fairseq.selfcp.bank import Bank
from pet_fairseq.selfcp.demonstrations import memory_for, open_bank, weights_hash
from pet_fairseq.selfcp.memory import (
    Rows,
    batches_of,
    last_states,
    lay_out,
    make_connector,
    rarest_word,
    vectors_in,
)
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.perplexity import keep_unexpected
from pet_fairseq.selfcp.segments import memory_length, split_prompt

Parts = List[Tensor]  # tokens (n) or vectors (n x C)


class PromptReader(FairseqEncoder):
    """Stands where an encoder-decoder has its encoder: reads the query and the prompt.

    What is trained is here: the memory tag [M] and the connector.
    """

    def __init__(self, inner: nn.Module, cfg: SelfCpConfig, dictionary: Dictionary):
        super().__init__(dictionary)
        self.inner = inner
        self.cfg = cfg
        words = inner.embed_tokens.weight
        rare = words[rarest_word(dictionary.count, dictionary.nspecial)].detach()
        self.memory_tag = nn.Parameter(inner.embed_scale * rare.clone())
        self.connector = make_connector(cfg.connector, words.size(1))
        self.bank: Optional[Bank] = None  # opened when it is first used
        self.loaded_hash = ""
        self.register_load_state_dict_post_hook(PromptReader.after_loading)

    def after_loading(self, _keys) -> None:
        """Weights are known by what they were before they are rounded to half precision."""
        self.bank, self.loaded_hash = None, weights_hash(self)

    # --- pieces -----------------------------------------------------------------------------------

    def read(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        ratios: Optional[Tensor] = None,
        latter: Optional[Tensor] = None,
    ) -> Rows:
        """Query, memory tokens and kept tokens of each prompt in their order; with --bank between
        </s> and the query the memory tokens of demonstrations.

        Args:
            src_tokens: B x T, </s>, query, <s> and prompt, padded on the right; the model does not
            read the <s>. src_lengths: B. ratios: B, prompt tokens for a memory token, if they are
            not all --memory-ratio. latter: B, True = compress the latter part (auto).
        Raises:
            UserError: more than the model has positions for, or no bank for this model.
        """
        heads, prompts = [], []
        for row, length in zip(src_tokens, src_lengths.tolist()):
            head, prompt = split_at(row[:length], self.dictionary.bos())
            heads.append(head)
            prompts.append(prompt)
        shown = self.demonstrations(heads, prompts)
        if self.cfg.prompt_strategy == "perplexity":
            prompts = [self.thin_out(*texts) for texts in zip(heads, prompts)]
        pieces = [
            split_prompt(len(prompt), self.cfg.window, strategy)
            for prompt, strategy in zip(prompts, self.strategies(len(prompts), latter))
        ]
        parts: List[Parts] = [
            [prompt[piece.start : piece.stop] for piece in some]
            for prompt, some in zip(prompts, pieces)
        ]
        segments = [
            (i, k)
            for i, some in enumerate(pieces)
            for k, piece in enumerate(some)
            if piece.compressed
        ]
        by_row = [self.cfg.memory_ratio] * len(prompts) if ratios is None else ratios.tolist()
        numbers = [memory_length(pieces[i][k].length, by_row[i]) for i, k in segments]
        if self.cfg.prompt_strategy == "recursive":
            self.compress_in_turn(heads, parts, segments, numbers)
        elif segments:
            rows = [[heads[i], parts[i][k]] for i, k in segments]
            for (i, k), memory in zip(segments, self.compress(rows, numbers)):
                parts[i][k] = memory
        rows = self.lay_out(
            [
                [head[:1], *memory, head[1:], *some]
                for head, memory, some in zip(heads, shown, parts)
            ]
        )
        self.check_length(rows)
        return rows

    def demonstrations(self, heads: List[Tensor], prompts: List[Tensor]) -> List[Parts]:
        """Memory tokens from --bank for each query and prompt, the most similar last."""
        if not (self.cfg.bank and self.cfg.shots):
            return [[] for _ in prompts]
        if self.training:
            raise UserError(
                f"--bank {self.cfg.bank}: holds memory of a trained connector, which training "
                "would change; give it for generation"
            )
        if self.bank is None:
            self.bank = open_bank(Path(self.cfg.bank), self)
        texts = [torch.cat([head[1:], prompt]) for head, prompt in zip(heads, prompts)]
        return memory_for(self.bank, self, texts, self.cfg.shots)

    def strategies(self, number: int, latter: Optional[Tensor]) -> List[str]:
        """Of each prompt."""
        if self.cfg.prompt_strategy != "auto" or latter is None:
            return [self.cfg.prompt_strategy] * number
        return ["latter" if chosen else "former" for chosen in latter.tolist()]

    def compress_in_turn(
        self,
        heads: List[Tensor],
        parts: List[Parts],
        segments: List[Tuple[int, int]],
        numbers: List[int],
    ) -> None:
        """Replace the segments in `parts`, each reading the memory of those before it."""
        for turn in sorted({k for _, k in segments}):
            now = [j for j, (_, k) in enumerate(segments) if k == turn]
            rows = [[heads[i], *parts[i][: turn + 1]] for i, _ in (segments[j] for j in now)]
            for j, memory in zip(now, self.compress(rows, [numbers[j] for j in now])):
                parts[segments[j][0]][turn] = memory

    def compress(self, rows: Sequence[Parts], numbers: Sequence[int]) -> List[Tensor]:
        """Memory tokens for each row: the connector's map of the last states at its tags.

        Args:
            rows: what the compressor reads before the tags; numbers: of memory tokens, m.
        Returns:
            m x C for each row, from one padded batch if --max-compressor-tokens allows.
        """
        tagged = [[*row, self.memory_tag.expand(m, -1)] for row, m in zip(rows, numbers)]
        lengths = [sum(map(len, row)) for row in tagged]
        found: Dict[int, Tensor] = {}
        for batch in batches_of(lengths, self.cfg.max_compressor_tokens):
            laid = self.lay_out([tagged[i] for i in batch])
            self.check_length(laid)
            states = last_states(self.inner, laid)
            at_tags = [states[b, lengths[i] - numbers[i] : lengths[i]] for b, i in enumerate(batch)]
            memory = self.connector(torch.cat(at_tags))
            found |= zip(batch, memory.split([numbers[i] for i in batch]))
        return [found[i] for i in range(len(rows))]

    @torch.no_grad()
    def thin_out(self, head: Tensor, prompt: Tensor) -> Tensor:
        """About a window of the prompt's tokens, those that the backbone expects least."""

        def losses(context: Tensor, text: Tensor) -> Tensor:
            tokens = torch.cat([head, context, text])[None]
            scores = self.inner.get_normalized_probs(self.inner(tokens), log_probs=True)[0]
            return -scores[-len(text) - 1 : -1].gather(1, text[:, None])[:, 0]

        return keep_unexpected(prompt, self.cfg.window, losses)

    def lay_out(self, rows: Sequence[Parts]) -> Rows:
        return lay_out(rows, self.dictionary.pad(), self.dictionary.unk())

    def check_length(self, rows: Rows, more: int = 0) -> None:
        """Raises UserError if the backbone has no positions for the longest row and `more`."""
        longest, most = int(rows.lengths.max()) + more, self.inner.max_positions()
        if longest > most:
            shots = ", or fewer --shots" if self.cfg.bank else ""
            raise UserError(
                f"--window {self.cfg.window}: query, prompt and memory come to {longest} tokens, "
                f"but the backbone has {most} positions; give a smaller window or a larger "
                f"--memory-ratio{shots}"
            )

    # --- generation -------------------------------------------------------------------------------

    def forward(self, **prompts: Optional[Tensor]) -> Dict[str, List[Tensor]]:
        """What the decoder starts from: the states of its attention, and its first output.

        Args:
            prompts: as for `read`.
        Returns:
            tokens: B x P of the rows (placeholders where vectors are). first: B x 1 x V, logits of
            the response's first token. keys, values: of each layer, B x heads x P x head_dim.
        """
        rows = self.read(**prompts)
        self.check_length(rows, more=1)
        state: Dict[str, Dict[str, Optional[Tensor]]] = {}
        with vectors_in(self.inner, rows):
            features, _ = prefill(self.inner, rows.tokens, state, features_only=True)
        last = features[torch.arange(len(rows.tokens)), rows.lengths - 1]
        buffers = [layer.self_attn._get_input_buffer(state) for layer in self.inner.layers]
        return {
            "tokens": [rows.tokens],
            "first": [self.inner.output_layer(last)[:, None]],
            "keys": [buffer["prev_key"] for buffer in buffers],
            "values": [buffer["prev_value"] for buffer in buffers],
        }

    def reorder_encoder_out(self, encoder_out: Dict[str, List[Tensor]], new_order: Tensor):
        return {
            name: [tensor.index_select(0, new_order) for tensor in tensors]
            for name, tensors in encoder_out.items()
        }

    def max_positions(self) -> int:
        return sys.maxsize  # what is too long is compressed


def split_at(tokens: Tensor, symbol: int) -> Tuple[Tensor, Tensor]:
    """What is before and after the first such symbol."""
    first = int(tokens.eq(symbol).nonzero()[0])
    return tokens[:first], tokens[first + 1 :]
