"""Models with a classification head, which answer texts by the probabilities of classes."""

import math
from collections import defaultdict

import torch
from fairseq.data.data_utils import collate_tokens
from torch import Tensor, nn

from pet_fairseq.checkpoints.dictionaries import class_names
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import unescape_spaces
from pet_fairseq.predict.int8 import check_int8, to_int8
from pet_fairseq.predict.predictor import Predictor


class Classifier(Predictor):
    """A model trained with fairseq's sentence_prediction: BERT, RoBERTa or BART."""

    def __init__(self, model: nn.Module, task, *args, **options):
        cfg = task.cfg
        if cfg.regression_target:
            raise UserError(
                "CHECKPOINT: gives a number for each text, since it was trained with "
                "--regression-target, and no class; give a model that has classes"
            )
        super().__init__(model, task, *args, **options)
        self.labels = [unescape_spaces(name) for name in class_names(task)]

    @property
    def no_answer(self) -> dict:
        return {"label": None, "probabilities": {}}

    def to_int8(self) -> None:
        check_int8()
        to_int8(self.model)

    @property
    def was_cut_in_training(self) -> bool:
        return True

    @property
    def reads_twice(self) -> bool:
        """Whether a decoder reads the text, too, as in BART; its state at </s> is classified."""
        return self.task.cfg.add_prev_output_tokens

    def words(self, field: str, sentence: str) -> Tensor:
        words = super().words(field, sentence)
        if self.reads_twice:  # a text may hold the word "</s>"
            words = words.where(words != self.dictionary.eos(), self.dictionary.unk())
        return words

    def join(self, words: list[Tensor]) -> Tensor:
        """As in fairseq's sentence_prediction: <s> A </s>, for a pair <s> A </s> SEPARATOR B </s>.

        The task's options say whether there is a <s> and a separator, and which.
        """
        first, separator = self.task.cfg.init_token, self.task.cfg.separator_token
        parts = []
        for start, some in zip((first, separator), words):
            parts += [] if start is None else [some.new_tensor([start])]
            parts += [some, some.new_tensor([self.dictionary.eos()])]
        return torch.cat(parts)

    def shorten(self, words: list[Tensor]) -> Tensor:
        """With --shorten-method truncate fairseq keeps the first tokens, whichever they are.

        Other models cut the sentences and keep the special symbols; so does this for a decoder,
        whose state at the last </s> is classified.
        """
        if self.task.cfg.shorten_method == "truncate" and not self.reads_twice:
            return self.join(words)[: self.max_tokens]
        return super().shorten(words)

    def groups(self, texts: list[Tensor]) -> list[list[int]]:
        """The indices of texts that run together: for BART those with equally many </s>."""
        if not self.reads_twice:
            return [list(range(len(texts)))]
        by_marks = defaultdict(list)
        for i, tokens in enumerate(texts):
            by_marks[int(tokens.eq(self.dictionary.eos()).sum())].append(i)
        return list(by_marks.values())

    def net_input(self, texts: list[Tensor]) -> dict[str, Tensor]:
        """The texts as fairseq's sentence_prediction gives them to a model."""
        pad = self.dictionary.pad()
        net_input = {
            "src_tokens": collate_tokens(texts, pad),
            "src_lengths": torch.tensor([len(tokens) for tokens in texts]),
        }
        if self.reads_twice:  # the last symbol, </s>, comes first
            net_input["prev_output_tokens"] = collate_tokens([t.roll(1) for t in texts], pad)
        return net_input

    def run(self, texts: list[Tensor]) -> list[dict]:
        answers: list[dict] = [{}] * len(texts)
        for group in self.groups(texts):
            logits, _ = self.model(
                **self.on_device(self.net_input([texts[i] for i in group])),
                features_only=True,
                classification_head_name=self.task.cfg.classification_head_name,
            )
            for i, row in zip(group, logits.float().softmax(dim=-1).tolist()):
                answers[i] = self.describe(row)
        return answers

    def describe(self, probabilities: list[float]) -> dict:
        """The answer: the most probable class, and the probabilities of all."""
        if not all(map(math.isfinite, probabilities)):
            raise UserError(
                "the model's output is not finite; if it runs in half precision, give --precision "
                "bf16"
            )
        by_label = dict(zip(self.labels, probabilities))
        return {"label": max(by_label, key=by_label.__getitem__), "probabilities": by_label}
