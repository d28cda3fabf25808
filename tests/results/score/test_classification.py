"""Which sentences a classifier gets right, in the order of the data and not of the batches."""

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.errors import UserError
from pet_fairseq.results.score import classification
from pet_fairseq.results.score.classification import f1, matthews
from tests.predict.made import HEAD, LABELS, make_classifier, make_regression, write_dictionary
from tests.translation import WORDS


class Sign(torch.nn.Module):
    """Class 1 for inputs above 0."""

    classification_heads = {"head": None}

    def max_positions(self):
        return 40

    def forward(self, x, features_only, classification_head_name):
        assert features_only and classification_head_name == "head"
        return torch.stack([-x, x], dim=-1), {}


def test_sentences_are_in_their_order(monkeypatch):
    inputs, targets = [1.0, 1.0, -1.0, 1.0, -1.0], [1, 0, 0, 1, 1]

    def batch(*ids):
        return {
            "id": torch.tensor(ids),
            "net_input": {"x": torch.tensor([inputs[i] for i in ids])},
            "target": torch.tensor([[targets[i]] for i in ids]),
            "ntokens": 3 * len(ids),
        }

    batches = [batch(3, 1), batch(4), batch(0, 2)]
    task = SimpleNamespace(cfg=SimpleNamespace(classification_head_name="head"))
    monkeypatch.setattr(classification, "load_model", lambda *args: (Sign(), task))
    monkeypatch.setattr(classification, "read_batches", lambda *args, **options: batches)
    assert classification.class_scores("x", "y", device="cpu") == {
        **{"accuracy": 60.0, "majority_class": 60.0, "right": 3, "total": 5, "length": 3.0},
        "by_sentence": "10110",
    }


def pairs_of(targets, answers):
    return Counter(zip(map(bool, targets), map(bool, answers)))


@pytest.mark.parametrize("seed", range(20))
def test_f1_and_matthews(seed):
    """Against precision and recall, and the correlation of two columns of 0 and 1."""
    draw = random.Random(seed)
    targets = [1, 0, *(draw.random() < 0.7 for _ in range(30))]
    answers = [1, 0, *(t if draw.random() < 0.6 else 1 - t for t in targets[2:])]
    pairs = pairs_of(targets, answers)
    both = sum(t and a for t, a in zip(targets, answers))
    precision, recall = both / sum(answers), both / sum(targets)
    assert f1(pairs) == pytest.approx(2 * precision * recall / (precision + recall))
    assert matthews(pairs) == pytest.approx(np.corrcoef(targets, answers)[0, 1])


def test_f1_and_matthews_where_nothing_varies():
    for targets, answers, score in (
        ([1, 0, 1], [0, 0, 0], 0.0),  # nothing is found
        ([0, 0, 0], [0, 0, 0], 0.0),
        ([0, 0], [1, 0], 0.0),
        ([1, 1], [1, 1], 1.0),  # one class, which is always right
    ):
        assert f1(pairs_of(targets, answers)) == score
        assert matthews(pairs_of(targets, answers)) == 0.0


@torch.no_grad()
def test_scores_of_a_class(tmp_path):
    """By a real classifier, against its answers to one text at a time."""
    draw = random.Random(3)
    texts = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 8))) for _ in range(40)]
    labels = draw.choices(LABELS, k=40)
    made, data = make_classifier(tmp_path), write_data(tmp_path / "test", texts, labels)
    model, task = load_model(made.backbone, "CHECKPOINT", data)
    task.load_dataset("test")
    dataset = task.dataset("test")
    answers = []
    for i in range(40):
        inputs = dataset.collater([dataset[i]])["net_input"]
        logits, _ = model.eval()(**inputs, features_only=True, classification_head_name=HEAD)
        answers.append(LABELS[int(logits.argmax())])
    assert len(set(answers)) > 1
    for name in LABELS:
        pairs = pairs_of([x == name for x in labels], [x == name for x in answers])
        options = {"device": "cpu", "max_tokens": 50, "positive_class": name}
        scores = classification.class_scores(made.backbone, data, **options)
        assert scores["f1"] == pytest.approx(100 * f1(pairs))
        assert scores["matthews"] == pytest.approx(100 * matthews(pairs))
    plain = classification.class_scores(made.backbone, data, device="cpu")
    assert "f1" not in plain and "matthews" not in plain
    with pytest.raises(UserError, match=f"--positive-class rare: .* but {', '.join(LABELS)}$"):
        classification.class_scores(made.backbone, data, device="cpu", positive_class="rare")


def write_data(folder, texts, labels, words=WORDS, classes=LABELS):
    """A test set as fairseq-preprocess writes it, without labels if there are none."""
    for name, lines, entries in (("input0", texts, words), ("label", labels, classes)):
        dictionary = write_dictionary(folder / name, entries)
        if not lines:
            continue
        (folder / "lines").write_text("".join(f"{line}\n" for line in lines))
        binarizer = VocabularyDatasetBinarizer(dictionary, append_eos=True)
        FileBinarizer.multiprocess_dataset(
            str(folder / "lines"), "mmap", binarizer, str(folder / name / "test"), num_workers=1
        )
    return str(folder)


def test_refused(tmp_path):
    """The model has 40 positions."""
    made = make_classifier(tmp_path / "model")
    texts, labels = ["w1 w2", "w3"], LABELS[:2]
    fits = write_data(tmp_path / "fits", texts, labels)
    assert classification.class_scores(made.backbone, fits, device="cpu")["total"] == 2
    with pytest.raises(UserError, match="--max-tokens 3: a sentence has 4 tokens; give 4 or more"):
        classification.class_scores(made.backbone, fits, device="cpu", max_tokens=3)
    regression = make_regression(tmp_path / "regression")
    other = {"words": WORDS[::-1]}, {"words": WORDS[:5]}, {"classes": LABELS[::-1]}
    for i, (checkpoint, data, message) in enumerate(
        [
            (regression, (texts, labels), "was trained with --regression-target and has no class"),
            (made.backbone, (["w1", "w2 " * 40], labels), "a sentence has 42 tokens, and the mod"),
            (made.backbone, (texts, []), "--subset test: has no classes in"),
            (made.backbone, (texts, ["0", "1"]), "--subset test of .*: a sentence has a class th"),
            (made.backbone, (texts, labels, other[0]), "CHECKPOINT .*: entry 4 is 'w0' against"),
            (made.backbone, (texts, labels, other[1]), "CHECKPOINT .*: entry 9 is 'w5' against"),
            (made.backbone, (texts, labels, other[2]), "made with other classes: .*'bad' against"),
        ]
    ):
        texts_and_labels, options = data[:2], dict(*data[2:])
        folder = write_data(tmp_path / str(i), *texts_and_labels, **options)
        with pytest.raises(UserError, match=message):
            classification.class_scores(checkpoint, folder, device="cpu")
