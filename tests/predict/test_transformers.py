"""Raw text to classes against the library transformers: RoBERTa and BART, which have two marks
between the sentences of a pair, and DistilBERT, which has one and no token types."""

import pytest
import torch

import pet_fairseq
from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.huggingface.importer import import_model
from tests.huggingface import transformers_models as theirs
from tests.huggingface.bert import PIECES
from tests.predict.made import save_plugins

TEXTS = ["w1 w2 w3", ("w4 w5", "w6"), "w7", ("w2", "w9 w8 w1 w1"), "w3 " * 30, ("w1 " * 30, "w2")]
FILMS = ["a bad film", ("good film", "bad ."), "fil", (".", "a good , good"), "a " * 30]
FILMS += [("bad " * 30, "film")]
POSITIONS = 24
# texts; all pieces; the piece before a text, the one behind it, and how many are between two
ROBERTA = (TEXTS, theirs.ROBERTA_PIECES, "<s>", "</s>", 2)
FAMILIES = {
    "roberta": ROBERTA,
    "bart": ROBERTA,
    "distilbert": (FILMS, PIECES, "[CLS]", "[SEP]", 1),
}


def numbers(family, text):
    """As the model's own tokenizer lays out a text of whole words, cut to the positions."""
    _, pieces, first, end, between = FAMILIES[family]
    sentences = [text] if isinstance(text, str) else text
    words = [s.split() for s in sentences]
    marks = 2 if len(words) == 1 else 2 + between
    while sum(map(len, words)) + marks > POSITIONS:
        max(words, key=len).pop()
    second = [*[end] * (between - 1), *words[1], end] if len(words) == 2 else []
    return [pieces.index(word) for word in [first, *words[0], end, *second]]


@pytest.mark.parametrize("family", FAMILIES)
def test_classes_of_texts_and_pairs(family, tmp_path):
    kind = {"head": "SequenceClassification", "num_labels": 3}
    model = getattr(theirs, family)(tmp_path / "hf", **kind).eval()
    import_model(tmp_path / "hf", tmp_path / "out")
    texts = FAMILIES[family][0]
    answers = pet_fairseq.from_pretrained(str(tmp_path / "out")).predict(texts)
    for text, answer in zip(texts, answers):
        with torch.no_grad():
            logits = model(torch.tensor([numbers(family, text)])).logits[0]
        shares = dict(zip(("LABEL_0", "LABEL_1", "LABEL_2"), logits.softmax(dim=0).tolist()))
        assert answer["probabilities"] == pytest.approx(shares, abs=1e-5)
        assert answer.get("truncated", False) == (len(str(text)) > POSITIONS * 2)
    assert len({str(answer["probabilities"]) for answer in answers}) == len(texts)


def test_plugins_around_a_distilbert(tmp_path):
    theirs.distilbert(tmp_path / "hf", head="SequenceClassification", num_labels=3)
    import_model(tmp_path / "hf", tmp_path / "out")
    backbone = str(tmp_path / "out/checkpoint.pt")
    _, task = load_model(backbone, "FILE")
    made = save_plugins(tmp_path, "sentence_prediction", task, backbone)
    model = pet_fairseq.from_pretrained(made.path)
    plain = pet_fairseq.from_pretrained(str(tmp_path / "out")).predict(FILMS)
    for answer, other in zip(plain, model.predict(FILMS, compression_ratio=1)):
        assert other["probabilities"] == pytest.approx(answer["probabilities"], abs=1e-6)
    for answer, other in zip(plain, model.predict(FILMS, compression_ratio=2)):
        assert other["probabilities"] != pytest.approx(answer["probabilities"], abs=1e-6)


def test_names_of_classes_with_spaces(tmp_path):
    """fairseq's dictionary cannot hold them as they are; answers have them again."""
    names = ["no way", "a\u00a0bit", "\\u0041"]
    labels = dict(enumerate(names))
    theirs.roberta(tmp_path / "hf", head="SequenceClassification", id2label=labels)
    import_model(tmp_path / "hf", tmp_path / "out")
    (answer,) = pet_fairseq.from_pretrained(str(tmp_path / "out")).predict(["w1"])
    assert list(answer["probabilities"]) == names
