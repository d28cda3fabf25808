"""Decoding steps of any model, through its own incremental decoder."""

from typing import Optional

import torch
from fairseq.sequence_generator import EnsembleModel
from torch import Tensor, nn


class IncrementalSteps:
    """Decodes with a model as fairseq's generator does; `TransformerSteps` describes the methods.

    The features are log-probabilities already. fairseq's modules expect all beams from the first
    step on, and all tokens of a beam at every step.
    """

    def __init__(self, model: nn.Module, beam_size: int, temperature: float = 1.0):
        self.model = EnsembleModel([model])
        self.beam_size = beam_size
        self.encoder_outs: list[dict[str, list[Tensor]]] = []
        self.state: list[dict[str, dict[str, Optional[Tensor]]]] = []
        self.tokens = torch.empty(0, 0)  # (B R) x T, after the first step
        self.temperature = temperature

    def begin(self, net_input: dict) -> None:
        self.encoder_outs = self.model.forward_encoder(net_input)
        self.state = [{}]

    def step(self, tokens: Tensor, position: int) -> Tensor:
        batch, num_beams = tokens.shape
        if position == 0:
            order = torch.arange(batch, device=tokens.device).repeat_interleave(self.beam_size)
            self.encoder_outs = self.model.reorder_encoder_out(self.encoder_outs, order)
            self.tokens = tokens.repeat(1, self.beam_size).view(-1, 1)
        else:
            self.tokens = torch.cat([self.tokens, tokens.reshape(-1, 1)], dim=1)
        lprobs, _ = self.model.forward_decoder(
            self.tokens, self.encoder_outs, self.state, self.temperature
        )
        return lprobs[:: self.beam_size].contiguous() if num_beams < self.beam_size else lprobs

    def log_probs(self, features: Tensor) -> Tensor:
        return features

    def follow(self, beams: Tensor, kept: Optional[Tensor]) -> None:
        sentences = torch.arange(len(beams), device=beams.device) if kept is None else kept
        order = (sentences[:, None] * self.beam_size + beams).view(-1)
        self.tokens = self.tokens[order]
        self.model.reorder_incremental_state(self.state, order)
        if kept is not None:  # otherwise beams move within sentences, where the source is equal
            self.encoder_outs = self.model.reorder_encoder_out(self.encoder_outs, order)
