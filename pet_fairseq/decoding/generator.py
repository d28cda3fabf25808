"""Beam search in place of fairseq's SequenceGenerator: the same hypotheses, sooner."""

import math
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from pet_fairseq.decoding.beams import (
    Beams,
    Candidates,
    average_ensemble,
    ban_repeated_ngrams,
    best_candidates,
    continue_beams,
    extend,
    find_ends,
    first_beams,
    repeats_ngram,
)
from pet_fairseq.decoding.finished_hypotheses import Hypotheses
from pet_fairseq.decoding.incremental import IncrementalSteps
from pet_fairseq.decoding.transformer import TransformerSteps, is_plain
from pet_fairseq.errors import UserError, check_positive

# how many log-probabilities are computed at once on a CPU, so that they stay in its cache
BLOCK_NUMBERS = 2_500_000
# finished sentences are dropped when they are this share of the batch
DROPPED_SHARE = 1 / 8
# steps from one check for finished sentences to the next where a check waits for the device
STEPS_BETWEEN_CHECKS = 4


class Limits(NamedTuple):
    """The limits that options and input set for the sentences in progress."""

    max_len: int  # longest output, without end-of-sentence
    src_lengths: Tensor  # B
    prefixes: Optional[Tensor]  # B x P, padded

    def select(self, sentences) -> "Limits":
        prefixes = None if self.prefixes is None else self.prefixes[sentences]
        return Limits(self.max_len, self.src_lengths[sentences], prefixes)


class FastGenerator(SequenceGenerator):
    """fairseq's generator, faster for plain Transformers; others decode with their own modules.

    It takes fairseq's options, except for those that `unsupported_option` in task.py names.
    """

    def __init__(self, models, tgt_dict, **kwargs):
        check_positive(beam=kwargs.get("beam_size", 1))
        super().__init__(models, tgt_dict, **kwargs)
        indices = self.token_indices_to_suppress
        self.suppressed: list[int] = [] if indices is None else indices.tolist()
        self.steps = [
            (TransformerSteps if is_plain(model) else IncrementalSteps)(
                model, self.beam_size, self.temperature
            )
            for model in self.model.models
        ]

    def _generate(
        self,
        sample: dict[str, dict[str, Tensor]],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> list[list[dict[str, Tensor]]]:
        """Translate a batch; arguments and result are those of fairseq's generator.

        Raises:
            UserError: --min-len is above the longest output that the other options allow, or a
                prefix repeats what --no-repeat-ngram-size forbids.
        """
        if constraints is not None or "src_tokens" not in sample["net_input"]:
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        start = self.eos if bos_token is None else bos_token
        with torch.inference_mode():
            hypotheses = self._search(sample["net_input"], prefix_tokens, start)
        return hypotheses.best_first()

    def _search(
        self, net_input: dict[str, Tensor], prefixes: Optional[Tensor], start: int
    ) -> Hypotheses:
        src_tokens, src_lengths = net_input["src_tokens"], self._source_lengths(net_input)
        limits = Limits(self._max_length(src_tokens, src_lengths), src_lengths, prefixes)
        self._check_prefixes(limits, start)
        for steps in self.steps:
            steps.begin(net_input)
        len_penalty = self.len_penalty if self.normalize_scores else None
        hypotheses = Hypotheses(
            len(src_tokens), self.beam_size, limits.max_len + 1, len_penalty, src_tokens.device
        )
        beams = first_beams(len(src_tokens), self.beam_size, start, src_tokens.device)
        while True:
            candidates = self._find_candidates(beams, limits)
            ends = find_ends(candidates, beams.ignored, self.eos)
            self._collect(beams, candidates, ends, hypotheses, limits)
            if beams.step == limits.max_len:
                return hypotheses
            kept = self._unfinished(beams, hypotheses)
            beams, parents = continue_beams(beams, candidates, ends)
            if kept is not None:
                if len(kept) == 0:
                    return hypotheses
                beams, parents, limits = beams.select(kept), parents[kept], limits.select(kept)
            for steps in self.steps:
                steps.follow(parents, kept)

    def _source_lengths(self, net_input: dict[str, Tensor]) -> Tensor:
        if "src_lengths" in net_input:
            return net_input["src_lengths"]
        words = net_input["src_tokens"].ne(self.eos) & net_input["src_tokens"].ne(self.pad)
        return words.sum(dim=1)

    def _max_length(self, src_tokens: Tensor, src_lengths: Tensor) -> int:
        """The longest output of a batch, without end-of-sentence."""
        if self.match_source_len:
            max_len = int(src_lengths.max())
        else:
            longest = int(self.max_len_a * src_tokens.size(1) + self.max_len_b)
            max_len = min(longest, self.max_len - 1)
        if self.min_len > max_len:
            raise UserError(
                f"--min-len {self.min_len}: above {max_len}, the longest output of a source of "
                f"{src_tokens.size(1)} tokens; lower it, or raise --max-len-a or --max-len-b"
            )
        return max_len

    def _check_prefixes(self, limits: Limits, start: int) -> None:
        """Raise UserError for a prefix with a word that is banned: nothing could follow it."""
        if limits.prefixes is None or self.repeat_ngram_blocker is None:
            return
        size = self.repeat_ngram_blocker.no_repeat_ngram_size
        forced = F.pad(limits.prefixes[:, : limits.max_len], (1, 0), value=start)
        if repeats_ngram(forced, size, self.pad).any():
            raise UserError(
                f"--prefix-size: the beginning of a target repeats words as --no-repeat-ngram-size "
                f"{size} forbids; lower the first or raise the second"
            )

    def _find_candidates(self, beams: Beams, limits: Limits) -> Candidates:
        """The best continuations of the beams; at the first step these are all equal."""
        count, num_beams = len(beams.sentences), 1 if beams.step == 0 else self.beam_size
        last = beams.tokens[:, :num_beams, -1]
        features = [steps.step(last, beams.step).view(count, num_beams, -1) for steps in self.steps]
        block_size = self._block_size(count, num_beams, last.device)
        blocks = []
        for start in range(0, count, block_size):
            part = slice(start, start + block_size)
            lprobs = average_ensemble(
                [steps.log_probs(x[part]) for steps, x in zip(self.steps, features)]
            )
            self._restrict(lprobs, beams.select(part), limits.select(part))
            totals = beams.totals[part, :, -1] if beams.step else None
            blocks.append(best_candidates(lprobs, totals, 2 * self.beam_size))
        return Candidates(*(torch.cat(parts) for parts in zip(*blocks)))

    def _block_size(self, sentences: int, num_beams: int, device: torch.device) -> int:
        """How many sentences go into each block of log-probabilities."""
        if device.type != "cpu":
            return sentences
        blocks = math.ceil(sentences * num_beams * self.vocab_size / BLOCK_NUMBERS)
        return math.ceil(sentences / blocks)

    def _restrict(self, lprobs: Tensor, beams: Beams, limits: Limits) -> None:
        """Apply the options to log-probabilities B x R x V, in place and in fairseq's order."""
        step = beams.step
        lprobs[:, :, self.pad] = -math.inf
        lprobs[:, :, self.unk] -= self.unk_penalty
        if step >= limits.max_len:
            lprobs[:, :, : self.eos] = -math.inf
            lprobs[:, :, self.eos + 1 :] = -math.inf
        prefixes = limits.prefixes
        if prefixes is not None and step < min(prefixes.size(1), limits.max_len):
            self._force_prefix(lprobs, beams, prefixes)
        else:
            if step < self.min_len:
                lprobs[:, :, self.eos] = -math.inf
            for word in self.suppressed:
                lprobs[:, :, word] = -math.inf
        if self.repeat_ngram_blocker is not None:
            size = self.repeat_ngram_blocker.no_repeat_ngram_size
            ban_repeated_ngrams(lprobs, beams.tokens[:, : lprobs.size(1)], size, self.pad)
        if self.should_set_src_lengths:  # as LengthConstrainedBeamSearch does
            lprobs[step < limits.src_lengths, :, self.eos] = -math.inf
            lprobs[step >= limits.src_lengths, :, self.eos] = 0

    def _force_prefix(self, lprobs: Tensor, beams: Beams, prefixes: Tensor) -> None:
        """Leave only the prefix's next token; where a prefix ends, a sentence's beams are equal."""
        num_beams = lprobs.size(1)
        totals = beams.totals if beams.step else lprobs.new_zeros(*lprobs.shape[:2], 1)
        tokens = beams.tokens[:, :num_beams]
        flat = [x.flatten(0, 1) for x in (lprobs, totals, tokens)]
        self._prefix_tokens(beams.step, *flat, prefixes, num_beams)

    def _collect(
        self,
        beams: Beams,
        candidates: Candidates,
        ends: Tensor,
        hypotheses: Hypotheses,
        limits: Limits,
    ) -> None:
        """Collect the hypotheses that end, of the best R candidates only, as fairseq does."""
        ended = ends[:, : self.beam_size]
        if ended.device.type == "cpu" and not ended.any():
            return
        best = torch.arange(self.beam_size, device=ended.device).expand(len(ended), -1)
        tokens, totals, _ = extend(beams, candidates, best)
        valid = None
        if self.match_source_len:
            valid = beams.step <= limits.src_lengths
        hypotheses.add(beams.sentences, ended, tokens[:, :, 1:], totals, valid)

    def _unfinished(self, beams: Beams, hypotheses: Hypotheses) -> Optional[Tensor]:
        """The indices of the sentences to go on with; None for all, also if few have finished."""
        if beams.tokens.device.type != "cpu" and (beams.step + 1) % STEPS_BETWEEN_CHECKS:
            return None
        unfinished = (~hypotheses.is_full(beams.sentences)).nonzero().squeeze(1)
        finished = len(beams.sentences) - len(unfinished)
        few = finished < max(1, len(beams.sentences) * DROPPED_SHARE)
        return None if few and len(unfinished) else unfinished
