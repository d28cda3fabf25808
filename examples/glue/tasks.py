"""Seven tasks of GLUE: where their tables keep what, their classes, and questions and answers.

The questions are those of Variator (Xiao et al., EMNLP Findings 2023, Table 6) without the slot for
the answer, which a decoder writes. That of cola, which the paper does not have, is ours.
"""

from typing import NamedTuple, Optional

PARAPHRASE = "paraphrase of each other?"
ENTAILS = "Sentence 1: {} Sentence 2: {} Does sentence 1 entails sentence 2?"
INFERENCE = {"entailment": "entailment", "not_entailment": "not_entailment"}


class Task(NamedTuple):
    columns: tuple[str, ...]  # headers of the sentence or of both sentences
    label: str  # header of the label
    classes: dict[str, str]  # value in the table -> name of the class
    question: str  # with a place for each sentence
    answers: dict[str, str]  # name of the class -> word to answer with
    dev: str = "dev"  # GLUE's name of the set that results are reported on
    header: Optional[tuple[str, ...]] = None  # of tables that do not begin with one

    def text(self, sentences: tuple[str, ...]) -> str:
        """The question about one example."""
        return self.question.format(*sentences)


TASKS = {
    "mnli": Task(
        columns=("sentence1", "sentence2"),
        label="gold_label",
        classes={name: name for name in ("entailment", "neutral", "contradiction")},
        question=ENTAILS,
        answers={"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"},
        dev="dev_matched",
    ),
    "qnli": Task(
        columns=("question", "sentence"),
        label="label",
        classes=INFERENCE,
        question="Question: {} Sentence: {} Does the sentence contains the answer to the question?",
        answers={"entailment": "Yes", "not_entailment": "No"},
    ),
    "qqp": Task(
        columns=("question1", "question2"),
        label="is_duplicate",
        classes={"0": "not_duplicate", "1": "duplicate"},
        question=f"Question 1: {{}} Question 2: {{}} Are the two questions {PARAPHRASE}",
        answers={"not_duplicate": "No", "duplicate": "Yes"},
    ),
    "rte": Task(
        columns=("sentence1", "sentence2"),
        label="label",
        classes=INFERENCE,
        question=ENTAILS,
        answers={"entailment": "Yes", "not_entailment": "No"},
    ),
    "sst2": Task(
        columns=("sentence",),
        label="label",
        classes={"0": "negative", "1": "positive"},
        question="Sentence: {} Does this sentence express positive or negative emotions?",
        answers={"negative": "negative", "positive": "positive"},
    ),
    "mrpc": Task(
        columns=("#1 String", "#2 String"),
        label="Quality",
        classes={"0": "not_equivalent", "1": "equivalent"},
        question=f"Sentence 1: {{}} Sentence 2: {{}} Are the two sentences {PARAPHRASE}",
        answers={"not_equivalent": "No", "equivalent": "Yes"},
    ),
    "cola": Task(
        columns=("sentence",),
        label="label",
        classes={"0": "unacceptable", "1": "acceptable"},
        question="Sentence: {} Is this sentence grammatically acceptable?",
        answers={"unacceptable": "No", "acceptable": "Yes"},
        header=("source", "label", "mark", "sentence"),
    ),
}
