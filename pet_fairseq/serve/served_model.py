"""The model as the server's process calls it: lists of numbers in, answers out."""

import argparse
import time
from typing import Union

import torch

from pet_fairseq.predict.load_model import load
from pet_fairseq.predict.predictor import Predictor
from pet_fairseq.predict.sentences import Sentences, TextTooLongError
from pet_fairseq.serve.batch_costs import measure_costs
from pet_fairseq.serve.scheduler import Cost
from pet_fairseq.serve.worker import call_within

CHECKED = 8  # tokens of the text on which a check runs the model


def load_predictor(args: argparse.Namespace, text_options: list[str]) -> Predictor:
    """Load the model with the limits on what clients may send; raises what `load` does."""
    return load(
        args,
        text_options,
        # a longer text would not fit into any batch
        max_tokens=min(args.max_tokens_per_request, args.max_batch_tokens),
        max_chars=args.max_text_chars,
        max_word_chars=args.max_word_chars,
    )


class ServedModel:
    """A model with the limits of the server.

    Args:
        max_tokens: of all texts in a request. text_seconds: how long tokenising these may take.
    """

    def __init__(self, model: Predictor, max_tokens: int, text_seconds: float):
        self.model = model
        self.max_tokens = max_tokens
        self.text_seconds = text_seconds

    def encode(self, texts: list[Sentences]) -> list[tuple[list[int], bool]]:
        """The tokens of the texts of a request, and whether words were cut off.

        Raises:
            TextError: they are too long, alone or together, or empty, or take too long.
        """
        try:
            return call_within(self.text_seconds, self._encode, texts)
        except TimeoutError:
            raise TextTooLongError(
                f"texts: not tokenized after {self.text_seconds:g} seconds; send less, "
                "or shorter words"
            ) from None

    def _encode(self, texts: list[Sentences]) -> list[tuple[list[int], bool]]:
        encoded = []
        left = self.max_tokens
        for text in texts:
            tokens, truncated = self.model.encode(text)
            encoded.append((tokens.tolist(), truncated))
            left -= len(tokens)
            if left < 0:
                raise TextTooLongError(f"texts: more than {self.max_tokens} tokens together")
        return encoded

    def answer(self, texts: list[list[int]], ratio: int) -> tuple[list[dict], float]:
        """The answers to encoded texts, which run together at a ratio, and the seconds it took."""
        start = time.perf_counter()
        answers = self.model.answer([torch.tensor(tokens) for tokens in texts], ratio)
        return answers, time.perf_counter() - start

    def check(self, ratio: int) -> None:
        """Run the model on a text of its own words that nobody sent; raises what the model does."""
        text = self.model.random_text(min(CHECKED, self.model.max_tokens))
        self.model.warm_up([text], ratio)

    def measure(self, ratio: Union[str, int], batch_tokens: int) -> dict[int, Cost]:
        """The costs at a ratio, or "auto" for all that the model has."""
        ratios = self.model.ratios if ratio == "auto" else [int(ratio)]
        return measure_costs(self.model, ratios, batch_tokens)
