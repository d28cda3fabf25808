"""Which tokenizer a model gets when none is named."""

import shutil
from argparse import Namespace
from pathlib import Path

import sentencepiece
from omegaconf import OmegaConf

import pet_fairseq
from pet_fairseq.predict.load_model import folders_around
from tests.predict.imported import write_classifier
from tests.predict.made import make_classifier, make_translator
from tests.predict.test_predictor import answering


def test_where_it_is_looked_for(tmp_path):
    data = tmp_path / "data" / "bin"
    cfg = OmegaConf.create(
        {"model": {"backbone_path": "b/base.pt"}, "checkpoint": {"finetune_from_model": "f/m.pt"}}
    )
    own = [data, tmp_path / "data", Path("c")]
    expected = [*own, Path("b"), Path("f")]
    assert folders_around("c/checkpoint.pt", f"{data}:/other", cfg) == expected
    cfg = OmegaConf.create({"model": Namespace(arch="roberta")}, flags={"allow_objects": True})
    assert folders_around("c/checkpoint.pt", str(data), cfg) == own


def test_tokenizer_json_beside_the_data(tmp_path):
    made = make_classifier(tmp_path / "model")
    assert answering(made).text.encode("Films, films") == "Films, films"
    write_classifier(tmp_path / "hf")
    shutil.copy(tmp_path / "hf/tokenizer.json", tmp_path / "model/data")
    model = answering(made)
    assert model.text.encode("Films, films") == "film ##s , film ##s"
    python = pet_fairseq.from_pretrained(made.path)
    assert python.text.encode("Films, films") == "film ##s , film ##s"
    divided = answering(made, "--tokenizer", "space")
    assert divided.text.encode("Films,  films") == "Films, films"


def test_sentencepiece_beside_a_translator(tmp_path):
    made = make_translator(tmp_path)
    (tmp_path / "text").write_text("w1 w2 w3 w4\n" * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "m"), vocab_size=10
    )
    shutil.move(tmp_path / "m.model", tmp_path / "data/source.spm")
    pieces = answering(made).text.encode("w1 w2").split()
    assert "".join(pieces) == "\u2581w1\u2581w2" and len(pieces) > 1
    assert answering(made).text.decode(" ".join(pieces)) == "w1 w2"
