"""Raw text to classes against the library transformers: RoBERTa and BART, which have two marks
between the sentences of a pair."""

import pytest
import torch

import pet_fairseq
from pet_fairseq.huggingface.importer import import_model
from tests.huggingface import transformers_models as theirs

TEXTS = ["w1 w2 w3", ("w4 w5", "w6"), "w7", ("w2", "w9 w8 w1 w1"), "w3 " * 30, ("w1 " * 30, "w2")]
FIRST, END = 0, 2
POSITIONS = 24


def numbers(text):
    """As RoBERTa's own tokenizer lays out a text of whole words, cut to the positions."""
    sentences = [text] if isinstance(text, str) else text
    ids = [[theirs.ROBERTA_PIECES.index(word) for word in s.split()] for s in sentences]
    marks = 2 if len(ids) == 1 else 4
    while sum(map(len, ids)) + marks > POSITIONS:
        max(ids, key=len).pop()
    return [FIRST, *ids[0], END, *([END, *ids[1], END] if len(ids) == 2 else [])]


@pytest.mark.parametrize("family", ["roberta", "bart"])
def test_classes_of_texts_and_pairs(family, tmp_path):
    kind = {"head": "SequenceClassification", "num_labels": 3}
    model = getattr(theirs, family)(tmp_path / "hf", **kind).eval()
    import_model(tmp_path / "hf", tmp_path / "out")
    answers = pet_fairseq.from_pretrained(str(tmp_path / "out")).predict(TEXTS)
    for text, answer in zip(TEXTS, answers):
        with torch.no_grad():
            logits = model(torch.tensor([numbers(text)])).logits[0]
        shares = dict(zip(("LABEL_0", "LABEL_1", "LABEL_2"), logits.softmax(dim=0).tolist()))
        assert answer["probabilities"] == pytest.approx(shares, abs=1e-5)
        assert answer.get("truncated", False) == (
            "w3 w3 w3" in str(text) or "w1 w1 w1" in str(text)
        )
    assert len({str(answer["probabilities"]) for answer in answers}) == len(TEXTS)


def test_names_of_classes_with_spaces(tmp_path):
    """fairseq's dictionary cannot hold them as they are; answers have them again."""
    names = ["no way", "a\u00a0bit", "\\u0041"]
    labels = dict(enumerate(names))
    theirs.roberta(tmp_path / "hf", head="SequenceClassification", id2label=labels)
    import_model(tmp_path / "hf", tmp_path / "out")
    (answer,) = pet_fairseq.from_pretrained(str(tmp_path / "out")).predict(["w1"])
    assert list(answer["probabilities"]) == names
