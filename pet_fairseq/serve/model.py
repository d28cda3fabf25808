"""The model behind the server: text to tokens, tokens to a batch, a batch to answers."""

import math
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.configs import GenerationConfig
from fairseq.utils import resolve_max_positions
from torch import Tensor, nn

from pet_fairseq.errors import UserError
from pet_fairseq.moving import move_batch
from pet_fairseq.serve.request import RequestError
from pet_fairseq.serve.text import Text


def has_ratios(kind: type) -> bool:
    """Whether models of a class work at several ratios: with `ratios` and `compression_ratio`."""
    return hasattr(kind, "compression_ratio")


class ServedModel:
    """A model, its task and its tokenisation.

    `encode` and `answer` may run in two threads at once, but each in one thread only.
    """

    def __init__(self, model: nn.Module, task, text: Text, max_tokens: int, device: str = "cpu"):
        self.model = model.to(device)
        self.model.eval()
        self.task = task
        self.text = text
        self.device = device
        positions = resolve_max_positions(task.max_positions(), model.max_positions())
        positions = positions[0] if isinstance(positions, tuple) else positions
        self.max_tokens = min(max_tokens, positions)

    @property
    def ratios(self) -> list[int]:
        """The ratios that can be asked for."""
        return self.model.ratios if has_ratios(type(self.model)) else [1]

    @property
    def dictionary(self):
        return self.task.source_dictionary

    def encode(self, text: str) -> Tensor:
        """The tokens of a text: T.

        Raises:
            RequestError: none are left, or too many; a word is too long.
        """
        line = self.text.encode(text)
        tokens = self.dictionary.encode_line(line, add_if_not_exist=False).long()
        if len(tokens) < 2:  # the end of the sentence only
            raise RequestError(400, "text: nothing is left after tokenisation")
        # someone wrote the word "<pad>"
        tokens = self.add_marks(
            tokens.where(tokens != self.dictionary.pad(), self.dictionary.unk())
        )
        if len(tokens) > self.max_tokens:
            raise RequestError(
                413, f"text: {len(tokens)} tokens, at most {self.max_tokens} are taken"
            )
        return tokens

    def answer(self, texts: list[Tensor], ratio: int) -> list[dict]:
        """The answers to encoded texts, which run together at a ratio."""
        with torch.inference_mode(), self.at(ratio):
            return self.run(texts)

    def random_text(self, length: int) -> Tensor:
        """A text of so many tokens, the same each time: T."""
        words = self.dictionary
        draw = torch.Generator().manual_seed(1)
        tokens = torch.randint(words.nspecial, len(words), (length,), generator=draw)
        tokens[-1] = words.eos()
        return tokens

    def rehearse(self, texts: list[Tensor], ratio: int) -> None:
        """Do the work of answering texts of this size, whatever their words."""
        self.answer(texts, ratio)

    def at(self, ratio: int) -> AbstractContextManager:
        """Inside the block the model works at this ratio."""
        if has_ratios(type(self.model)):
            return self.model.compression_ratio(ratio)
        return nullcontext()

    def on_device(self, sample: dict) -> dict:
        return move_batch(sample, self.device)

    def add_marks(self, tokens: Tensor) -> Tensor:
        """Add what training added to a sentence beside its end."""
        return tokens

    def run(self, texts: list[Tensor]) -> list[dict]:
        raise NotImplementedError


class Classifier(ServedModel):
    """A model trained with fairseq's sentence_prediction on single sentences: RoBERTa or BART."""

    def __init__(self, model: nn.Module, task, *args, **options):
        cfg = task.cfg
        if cfg.regression_target:
            raise UserError("--path: a model of regression targets; only classes can be served")
        super().__init__(model, task, *args, **options)
        labels = task.label_dictionary
        self.labels = [labels[labels.nspecial + i] for i in range(cfg.num_classes)]

    @property
    def reads_twice(self) -> bool:
        """Whether a decoder reads the text, too, as in BART; its state at </s> is classified."""
        return self.task.cfg.add_prev_output_tokens

    def add_marks(self, tokens: Tensor) -> Tensor:
        if self.reads_twice:  # someone wrote the word "</s>"
            words, end = tokens[:-1], tokens[-1:]
            tokens = torch.cat([words.where(words != end, self.dictionary.unk()), end])
        first = self.task.cfg.init_token
        return tokens if first is None else torch.cat([tokens.new_tensor([first]), tokens])

    def net_input(self, texts: list[Tensor]) -> dict[str, Tensor]:
        """The texts as fairseq's sentence_prediction gives them to a model."""
        pad = self.dictionary.pad()
        net_input = {
            "src_tokens": collate_tokens(texts, pad),
            "src_lengths": torch.tensor([len(tokens) for tokens in texts]),
        }
        if self.reads_twice:  # the end comes first
            net_input["prev_output_tokens"] = collate_tokens([t.roll(1) for t in texts], pad)
        return net_input

    def run(self, texts: list[Tensor]) -> list[dict]:
        net_input = self.net_input(texts)
        logits, _ = self.model(
            **self.on_device(net_input),
            features_only=True,
            classification_head_name=self.task.cfg.classification_head_name,
        )
        return [self.described(row) for row in logits.float().softmax(dim=-1).tolist()]

    def described(self, probabilities: list[float]) -> dict:
        if not all(map(math.isfinite, probabilities)):
            raise FloatingPointError("the model's output is not finite")
        by_label = dict(zip(self.labels, probabilities))
        return {"label": max(by_label, key=by_label.get), "probabilities": by_label}


class Translator(ServedModel):
    """An encoder-decoder and the generator of its task."""

    def __init__(self, model: nn.Module, *args, beam: int = 5, lenpen: float = 1.0, **options):
        super().__init__(model, *args, **options)
        generation = GenerationConfig(beam=beam, lenpen=lenpen)
        self.model.prepare_for_inference_(Namespace(generation=generation))
        self.generator = self.task.build_generator([self.model], generation)

    def run(self, texts: list[Tensor]) -> list[dict]:
        dataset = self.task.build_dataset_for_inference(texts, [len(tokens) for tokens in texts])
        sample = dataset.collater([dataset[i] for i in range(len(texts))])  # sorts by length
        hypotheses = self.task.inference_step(self.generator, [self.model], self.on_device(sample))
        best = fetch([some[0]["tokens"] for some in hypotheses])
        answers = dict(zip(sample["id"].tolist(), best))
        return [{"text": self.decode(answers[i])} for i in range(len(texts))]

    def rehearse(self, texts: list[Tensor], ratio: int) -> None:
        """Translate to texts of the same length: random words could give any length."""
        generator, length = self.generator, max(map(len, texts))
        before = generator.min_len, generator.max_len_a, generator.max_len_b
        generator.min_len, generator.max_len_a, generator.max_len_b = length, 0, length
        try:
            self.answer(texts, ratio)
        finally:
            generator.min_len, generator.max_len_a, generator.max_len_b = before

    def decode(self, tokens: Tensor) -> str:
        marks = self.generator.symbols_to_strip_from_output
        words = self.task.target_dictionary.string(tokens, extra_symbols_to_ignore=marks)
        return self.text.decode(words)


def fetch(sentences: list[Tensor]) -> list[Tensor]:
    """Sentences of tokens on the CPU, which waits for their device once."""
    together = collate_tokens(sentences, pad_idx=0).cpu()
    return [row[: len(tokens)] for row, tokens in zip(together, sentences)]
