"""Encoder-decoders, which answer texts by their translations."""

from argparse import Namespace
from itertools import islice
from typing import Optional

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.configs import GenerationConfig
from fairseq.search import Sampling
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.predict.predictor import Predictor
from pet_fairseq.predict.sentences import TextError
from pet_fairseq.predict.shared_options import BEAM_SEARCH, Search


class AllowedSampling(Sampling):
    """fairseq's drawing of words, from probabilities that add up to 1.

    Where few words are allowed, as at the longest length the end alone, all of these may have
    probabilities that are 0 in float32, from which nothing can be drawn.
    """

    def step(self, step: int, lprobs: Tensor, *args, **options):
        return super().step(step, lprobs.log_softmax(dim=-1), *args, **options)


class Translator(Predictor):
    """An encoder-decoder and the generator of its task."""

    def __init__(self, model: nn.Module, *args, search: Search = BEAM_SEARCH, **options):
        super().__init__(model, *args, **options)
        self.search = search = search.within(len(self.task.target_dictionary))
        generation = GenerationConfig(
            beam=search.width,
            lenpen=search.lenpen,
            sampling=search.sampling,
            sampling_topk=search.sampling_topk or -1,
            sampling_topp=search.sampling_topp or -1.0,
            temperature=search.temperature,
        )
        self.model.prepare_for_inference_(Namespace(generation=generation))
        self.generator = self.task.build_generator([self.model], generation)
        if search.sampling:
            drawn = self.generator.search
            self.generator.search = AllowedSampling(
                self.task.target_dictionary, drawn.sampling_topk, drawn.sampling_topp
            )

    @property
    def no_answer(self) -> dict:
        return {"text": ""}

    def to_int8(self) -> None:
        raise UserError(
            "--precision int8: is for models that classify; a translation model in 8 bits is made "
            "by pet-fairseq export"
        )

    @property
    def was_cut_in_training(self) -> bool:
        return getattr(self.task.cfg, "truncate_source", False)

    def join(self, words: list[Tensor]) -> Tensor:
        if len(words) > 1:
            raise TextError("pair: this model translates single texts")
        return torch.cat([words[0], words[0].new_tensor([self.dictionary.eos()])])

    @property
    def longest(self) -> int:
        """The most tokens of a translation of a short text, without its end."""
        return min(int(self.generator.max_len_b), self.generator.max_len - 1)

    def run(self, texts: list[Tensor]) -> list[dict]:
        return [{"text": self.text.decode(some[0])} for some in self.find(texts)]

    def find_pieces(self, texts: list[Tensor], ratio: Optional[int]) -> list[list[str]]:
        """The translations of encoded texts, which run together at a ratio.

        Returns:
            those of each text, the best first, as lines of words of the target dictionary.
        """
        with torch.inference_mode(), self.at(ratio):
            return self.find(texts)

    def find(self, texts: list[Tensor]) -> list[list[str]]:
        dataset = self.task.build_dataset_for_inference(texts, [len(tokens) for tokens in texts])
        sample = dataset.collater([dataset[i] for i in range(len(texts))])  # sorts by length
        hypotheses = self.task.inference_step(self.generator, [self.model], self.on_device(sample))
        best = [some[: self.search.nbest] for some in hypotheses]
        lines = map(self.spell, to_cpu([one["tokens"] for some in best for one in some]))
        found = {i: list(islice(lines, len(some))) for i, some in zip(sample["id"].tolist(), best)}
        return [found[i] for i in range(len(texts))]

    def warm_up(self, texts: list[Tensor], ratio: int) -> None:
        """Translate to texts of the same length: random words could give any length.

        A decoder with few positions stops earlier.
        """
        generator, longest = self.generator, max(map(len, texts))
        length = min(longest, self.model.max_decoder_positions() - 1)
        before = generator.min_len, generator.max_len_a, generator.max_len_b
        generator.min_len, generator.max_len_a, generator.max_len_b = length, 0, length
        try:
            self.answer(texts, ratio)
        finally:
            generator.min_len, generator.max_len_a, generator.max_len_b = before

    def spell(self, tokens: Tensor) -> str:
        """The words of a translation, between spaces."""
        marks = self.generator.symbols_to_strip_from_output
        return self.task.target_dictionary.string(tokens, extra_symbols_to_ignore=marks)


def to_cpu(sentences: list[Tensor]) -> list[Tensor]:
    """Sentences of tokens on the CPU, which waits for their device once."""
    together = collate_tokens(sentences, pad_idx=0).cpu()
    return [row[: len(tokens)] for row, tokens in zip(together, sentences)]
