"""The reader: turns queries and prompts into what the language model reads, and lets it read."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from pet_fairseq.errors import TooLongError, UserError
from pet_fairseq.nn.hooks import forward_hooks
from pet_fairseq.nn.prefill import prefill
from pet_fairseq.selfcp.bank.bank import Bank
from pet_fairseq.selfcp.bank.demonstrations import open_bank, recall_memory
from pet_fairseq.selfcp.compressor import Compressor
from pet_fairseq.selfcp.connector import standardise
from pet_fairseq.selfcp.mixed_input import MixedInput, Parts, pad_left, vectors_embedded
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.perplexity import CHUNK, keep_unexpected
from pet_fairseq.selfcp.reading_plan import (
    ReadingPlan,
    choose_strategies,
    fitting_ratio,
    lengths_read,
    plan_reading,
)
from pet_fairseq.selfcp.segments import EQUAL_BUDGET, Piece, tokens_kept

Prompts = Union[Tensor, Sequence, None]  # an argument of PromptReader.read


class PromptReader(Compressor):
    """Takes the place of an encoder-decoder's encoder: reads queries and prompts."""

    def __init__(self, inner: nn.Module, cfg: SelfCpConfig, dictionary: Dictionary):
        super().__init__(inner, cfg, dictionary)
        self.bank: Optional[Bank] = None  # opened when it is first used

    def after_loading(self) -> None:
        """Remember the weights' hash and close the bank, which may be one of other weights."""
        super().after_loading()
        self.bank = None

    def read(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        ratios: Optional[Sequence[float]] = None,
        latter: Optional[Sequence[bool]] = None,
        others: Optional[Tensor] = None,
        other_lengths: Optional[Tensor] = None,
        cue: Optional[Tensor] = None,
        more: int = 0,
        query_lengths: Optional[Tensor] = None,
    ) -> MixedInput:
        """Put together what the model reads: the query, and memory and kept tokens of the prompt.

        With --bank the memory tokens of demonstrations stand between the query and the prompt.

        Args:
            src_tokens: B x T, </s>, query, <s> and prompt, padded on the right; the model does not
                read the <s>. src_lengths: B.
            ratios: for each, prompt tokens for a memory token, if they are not all --memory-ratio;
                they are raised where the prompt would need more positions than there are.
            latter: for each, whether to compress the latter part (auto). Training gives it; short
                prompts are halved then, too.
            others: B x T, prompts whose segments are compressed in the place of each one's own,
                padded on the right; other_lengths: B.
            cue: tokens that are read after each prompt, never compressed.
            more: tokens of the response, which need positions, too.
            query_lengths: B, the </s> included; without them a query ends at its first <s>.
        Raises:
            UserError: the model has too few positions, or the bank is not of this model.
        """
        last = [] if cue is None else [cue]
        queries, prompts = self.split(src_tokens, src_lengths, query_lengths)
        demonstrations = self.recall(queries, prompts)
        strategies = choose_strategies(
            self.cfg.prompt_strategy,
            None if latter is None else list(map(bool, latter)),
            len(prompts),
        )
        if ratios is None:
            ratios = [self.cfg.memory_ratio] * len(prompts)
        else:
            taken = [
                len(query) + sum(map(len, [*memories, *last])) + more
                for query, memories in zip(queries, demonstrations)
            ]
            drawn = map(float, ratios)
            ratios = self.fit(drawn, strategies, queries, prompts, taken, latter is not None)
        if self.thins_out:
            prompts = [self.thin_out(*texts) for texts in zip(queries, prompts, ratios)]
        plan = plan_reading(
            [len(prompt) for prompt in prompts],
            self.cfg.window,
            strategies,
            ratios,
            halve_short=latter is not None,
            longest=self.cfg.segment_tokens,
        )
        sources = prompts
        if others is not None:
            assert other_lengths is not None, "given with `others`"
            sources = [other[:n] for other, n in zip(others, other_lengths.tolist())]
        pieces = self.carry_out(plan, queries, prompts, sources)
        inputs = self.join(
            [
                [query, *memories, *some, *last]
                for query, memories, some in zip(queries, demonstrations, pieces)
            ]
        )
        self.check_length(inputs)
        return inputs

    @property
    def thins_out(self) -> bool:
        """Whether tokens are dropped by what the backbone expects."""
        strategy = self.cfg.prompt_strategy
        return EQUAL_BUDGET.get(strategy, strategy) == "perplexity"

    def positions_needed(
        self, query: int, prompt: int, after: int, ratio: Optional[float] = None
    ) -> int:
        """The positions that a record needs, here or in the compressor.

        Args:
            query: its tokens, the </s> included. prompt: its tokens, if some are dropped by what
                the backbone expects (`thins_out`) those that are left. after: those of cue and
                response.
            ratio: prompt tokens for one memory token; None: as a training that draws ratios reads
                it, which raises them up to one memory token for a segment, and halves short ones.
        """
        cfg = self.cfg
        read, compressed = lengths_read(
            prompt,
            cfg.window,
            cfg.prompt_strategy,
            ratio or max(prompt, 1),
            cfg.segment_tokens,
            ratio is None,
        )
        return query + max(read + after, compressed)

    def split(
        self, src_tokens: Tensor, src_lengths: Tensor, query_lengths: Optional[Tensor] = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Queries and prompts: what stands before and after the <s>; waits for the device once."""
        ends = query_lengths
        if ends is None:
            ends = src_tokens.eq(self.dictionary.bos()).int().argmax(dim=1)
        lengths = torch.stack([ends, src_lengths], dim=1).tolist()
        queries = [tokens[:end] for tokens, (end, _) in zip(src_tokens, lengths)]
        return queries, [tokens[end + 1 : n] for tokens, (end, n) in zip(src_tokens, lengths)]

    def fit(
        self,
        ratios: Iterable[float],
        strategies: Sequence[str],
        queries: Sequence[Tensor],
        prompts: Sequence[Tensor],
        taken: Sequence[int],
        halve_short: bool,
    ) -> list[float]:
        """The ratios, larger where a prompt would not fit into the model's positions.

        Args:
            taken: for each, the positions that query, demonstrations and response need.
            halve_short: as for `split_prompt`.
        """
        positions = self.inner.max_positions()
        return [
            fitting_ratio(
                len(prompt),
                self.cfg.window,
                strategy,
                ratio,
                positions - others,
                positions - len(query),
                self.cfg.segment_tokens,
                halve_short=halve_short,
            )
            for ratio, strategy, query, prompt, others in zip(
                ratios, strategies, queries, prompts, taken
            )
        ]

    def carry_out(
        self,
        plan: ReadingPlan,
        queries: Sequence[Tensor],
        prompts: Sequence[Tensor],
        sources: Sequence[Tensor],
    ) -> list[list[Tensor]]:
        """Return the pieces of each prompt, the segments among them compressed.

        Args:
            queries: tokens of each, from </s> on; prompts: tokens of each.
            sources: the texts that segments are taken from: the prompts, or others for a control.
        """
        pieces = [
            [
                repeat_slice(source, piece)
                if piece.compressed
                else prompt[piece.start : piece.stop]
                for piece in prompt_pieces
            ]
            for prompt, source, prompt_pieces in zip(prompts, sources, plan.pieces)
        ]
        for segments in plan.rounds:
            texts = [[queries[s.prompt], *pieces[s.prompt][s.pieces_read]] for s in segments]
            memories = self.compress(texts, [s.memory_tokens for s in segments])
            for segment, memory in zip(segments, memories):
                pieces[segment.prompt][segment.piece] = memory
        return pieces

    def recall(self, queries: Sequence[Tensor], prompts: Sequence[Tensor]) -> list[Parts]:
        """Memory tokens of demonstrations from --bank for each prompt, the most similar last."""
        if not (self.cfg.bank and self.cfg.shots):
            return [[] for _ in prompts]
        if self.training:
            raise UserError(
                f"--bank {self.cfg.bank}: holds memory of a trained connector, which training "
                "would change; give it for generation"
            )
        if self.bank is None:
            self.bank = open_bank(Path(self.cfg.bank), self)
        texts = [torch.cat([query[1:], prompt]) for query, prompt in zip(queries, prompts)]
        return recall_memory(self.bank, self, texts, self.cfg.shots)

    @torch.no_grad()
    def thin_out(self, query: Tensor, prompt: Tensor, ratio: float) -> Tensor:
        """The prompt's tokens that the backbone expects least, about as many as may be kept.

        Where the model has no positions for all tokens kept before, it sees the last of them.

        Raises:
            TooLongError: the query alone leaves no position.
        """
        room = self.inner.max_positions() - len(query)
        if room < 1:
            raise TooLongError(
                f"--prompt-strategy {self.cfg.prompt_strategy}: a query has {len(query)} tokens, "
                f"and the backbone {self.inner.max_positions()} positions; give shorter queries"
            )

        def losses(context: Tensor, text: Tensor) -> Tensor:
            seen = context[max(0, len(context) - (room - len(text))) :]
            tokens = torch.cat([query, seen, text])[None]
            scores = self.inner.get_normalized_probs(self.inner(tokens), log_probs=True)[0]
            return -scores[-len(text) - 1 : -1].gather(1, text[:, None])[:, 0]

        strategy, window = self.cfg.prompt_strategy, self.cfg.window
        kept = tokens_kept(len(prompt), window, strategy, ratio, self.cfg.segment_tokens)
        return keep_unexpected(prompt, kept, losses, min(CHUNK, room))

    # --- initialisation ---------------------------------------------------------------------------

    @torch.no_grad()
    def standardise(self, batches: Iterable[dict[str, Any]]) -> None:
        """Start the connector by `standardise`, with the states at the tags of these prompts.

        Args:
            batches: arguments of `read`.
        Raises:
            UserError: of the prompts too little is compressed to standardise anything.
        """
        states: list[Tensor] = []
        with forward_hooks((self.connector, lambda _, args, output: states.append(args[0]))):
            for batch in batches:
                self.read(**batch)
        if sum(map(len, states)) < 2:
            raise UserError(
                f"--standardise-on {self.cfg.standardise_on}: fewer than two memory tokens stand "
                f"for these prompts with --window {self.cfg.window}; give a smaller window, more "
                "prompts, or 0"
            )
        words = self.inner.embed_scale * self.inner.embed_tokens.weight
        standardise(self.connector, torch.cat(states), words)

    # --- generation -------------------------------------------------------------------------------

    def forward(self, more: int = 1, **prompts: Any) -> dict[str, list[Tensor]]:
        """The states that the decoder's attention starts from, and its first output.

        Args:
            more, prompts: as for `read`.
        Returns:
            tokens: B x P, as in MixedInput; padded on the left if the model has rotary positions,
            which count padding, so that the response follows at the next one. first: B x 1 x V,
            logits of the response's first token.
            keys, values: of each layer, B x heads x P x head_dim.
        """
        inputs = self.read(**prompts, more=more)
        self.check_length(inputs, more=more)
        ends = inputs.lengths - 1
        if self.has_rotary_positions:
            inputs, ends = pad_left(inputs), torch.full_like(ends, inputs.tokens.size(1) - 1)
        state: dict[str, dict[str, Optional[Tensor]]] = {}
        with self.updates_for("reader"), vectors_embedded(self.inner, inputs):
            features, _ = prefill(self.inner, inputs.tokens, state, features_only=True)
        last = features[torch.arange(len(ends), device=ends.device), ends]
        buffers = [layer.self_attn._get_input_buffer(state) for layer in self.inner.layers]
        return {
            "tokens": [inputs.tokens],
            "first": [self.inner.output_layer(last)[:, None]],
            "keys": [buffer["prev_key"] for buffer in buffers],
            "values": [buffer["prev_value"] for buffer in buffers],
        }

    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor):
        return {
            name: [tensor.index_select(0, new_order) for tensor in tensors]
            for name, tensors in encoder_out.items()
        }


def repeat_slice(text: Tensor, piece: Piece) -> Tensor:
    """The tokens of a text at a piece's places; a text that is too short starts over and over."""
    return text[torch.arange(piece.start, piece.stop, device=text.device) % len(text)]
