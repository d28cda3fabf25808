"""The reader: makes what the language model reads of queries and prompts, and reads it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.prefill import prefill
from pet_fairseq.selfcp.bank import Bank
from pet_fairseq.selfcp.compressor import Compressor
from pet_fairseq.selfcp.dataset import split_at
from pet_fairseq.selfcp.demonstrations import open_bank, recall_memory
from pet_fairseq.selfcp.mixed_input import MixedInput, Parts, vectors_embedded
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.perplexity import keep_unexpected
from pet_fairseq.selfcp.plan import ReadingPlan, choose_strategies, plan_reading


class PromptReader(Compressor):
    """Stands where an encoder-decoder has its encoder: reads queries and prompts."""

    def __init__(self, inner: nn.Module, cfg: SelfCpConfig, dictionary: Dictionary):
        super().__init__(inner, cfg, dictionary)
        self.bank: Optional[Bank] = None  # opened when it is first used

    def after_loading(self) -> None:
        """Remember the weights; a bank that is open may be of others."""
        super().after_loading()
        self.bank = None

    def read(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        ratios: Optional[Tensor] = None,
        latter: Optional[Tensor] = None,
    ) -> MixedInput:
        """Put together what the model reads: the query, and memory and kept tokens of the prompt.

        With --bank the memory tokens of demonstrations stand between </s> and the query.

        Args:
            src_tokens: B x T, </s>, query, <s> and prompt, padded on the right; the model does not
                read the <s>. src_lengths: B.
            ratios: B, prompt tokens for a memory token, if they are not all --memory-ratio.
            latter: B, True = compress the latter part (auto).
        Raises:
            UserError: more than the model has positions for, or no bank for this model.
        """
        sources = [source[:n] for source, n in zip(src_tokens, src_lengths.tolist())]
        halves = [split_at(source, self.dictionary.bos()) for source in sources]
        queries, prompts = map(list, zip(*halves))
        demonstrations = self.recall(queries, prompts)
        if self.cfg.prompt_strategy == "perplexity":
            prompts = [self.thin_out(*texts) for texts in zip(queries, prompts)]
        plan = plan_reading(
            [len(prompt) for prompt in prompts],
            self.cfg.window,
            choose_strategies(
                self.cfg.prompt_strategy, None if latter is None else latter.tolist(), len(prompts)
            ),
            [self.cfg.memory_ratio] * len(prompts) if ratios is None else ratios.tolist(),
        )
        pieces = self.carry_out(plan, queries, prompts)
        inputs = self.join(
            [
                [query[:1], *memories, query[1:], *some]
                for query, memories, some in zip(queries, demonstrations, pieces)
            ]
        )
        self.check_length(inputs)
        return inputs

    def carry_out(
        self, plan: ReadingPlan, queries: Sequence[Tensor], prompts: Sequence[Tensor]
    ) -> list[list[Tensor]]:
        """Return the pieces of each prompt, the segments among them compressed.

        Args:
            queries: tokens of each, from </s> on; prompts: tokens of each.
        """
        pieces = [
            [prompt[piece.start : piece.stop] for piece in some]
            for prompt, some in zip(prompts, plan.pieces)
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
    def thin_out(self, query: Tensor, prompt: Tensor) -> Tensor:
        """About a window of the prompt's tokens, those that the backbone expects least."""

        def losses(context: Tensor, text: Tensor) -> Tensor:
            tokens = torch.cat([query, context, text])[None]
            scores = self.inner.get_normalized_probs(self.inner(tokens), log_probs=True)[0]
            return -scores[-len(text) - 1 : -1].gather(1, text[:, None])[:, 0]

        return keep_unexpected(prompt, self.cfg.window, losses)

    # --- generation -------------------------------------------------------------------------------

    def forward(self, **prompts: Optional[Tensor]) -> dict[str, list[Tensor]]:
        """The states that the decoder's attention starts from, and its first output.

        Args:
            prompts: as for `read`.
        Returns:
            tokens: B x P, as in MixedInput. first: B x 1 x V, logits of the response's first token.
            keys, values: of each layer, B x heads x P x head_dim.
        """
        inputs = self.read(**prompts)
        self.check_length(inputs, more=1)
        state: dict[str, dict[str, Optional[Tensor]]] = {}
        with vectors_embedded(self.inner, inputs):
            features, _ = prefill(self.inner, inputs.tokens, state, features_only=True)
        last = features[torch.arange(len(inputs.tokens)), inputs.lengths - 1]
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
