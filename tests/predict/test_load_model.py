"""Which tokenizer a model gets when none is named."""

import shutil
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
from omegaconf import OmegaConf
from torch import nn

import pet_fairseq
from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.checkpoints.text_files import folders_around
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from pet_fairseq.predict.classifier import Classifier
from pet_fairseq.predict.load_model import predictor_class
from tests.predict.imported import write_classifier
from tests.predict.made import make_classifier, make_translator, save_with_task
from tests.predict.test_predictor import answering
from tests.translation import make_model, make_task


def test_where_it_is_looked_for(tmp_path):
    data = tmp_path / "data" / "bin"
    cfg = OmegaConf.create(
        {
            "task": {"data": f"{data}:/other"},
            "model": {"backbone_path": "b/base.pt"},
            "checkpoint": {"finetune_from_model": "f/m.pt"},
        }
    )
    own = [data, tmp_path / "data", tmp_path / "data" / "text", Path("c")]
    expected = [*own, Path("b"), Path("f")]
    assert folders_around("c/checkpoint.pt", cfg) == expected
    cfg.criterion = {"teacher_path": "t/first.pt:u/second.pt"}
    assert folders_around("c/checkpoint.pt", cfg) == [*expected, Path("t")]
    of_a_namespace = {"task": {"data": str(data)}, "model": Namespace(arch="roberta")}
    cfg = OmegaConf.create(of_a_namespace, flags={"allow_objects": True})
    assert folders_around("c/checkpoint.pt", cfg) == own


def test_tokenizer_json_beside_the_data(tmp_path):
    made = make_classifier(tmp_path / "model")
    assert answering(made).text.encode("Films, films") == "Films, films"
    write_classifier(tmp_path / "hf")
    shutil.copy(tmp_path / "hf/tokenizer.json", tmp_path / "model/data")
    model = answering(made)
    assert model.text.encode("Films, films") == "film ##s , film ##s"
    python = pet_fairseq.from_pretrained(made.path)
    assert python.text.encode("Films, films") == "film ##s , film ##s"
    segmented = answering(made, "--tokenizer", "space")
    assert segmented.text.encode("Films,  films") == "Films, films"


def test_a_translator_without_capital_letters_warns_of_them(tmp_path, caplog):
    model = answering(make_translator(tmp_path), "--tokenizer", "space")
    model.text.encode("w1 W2")
    assert "the model's dictionary has none" in caplog.text


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


def test_codes_beside_a_translator(tmp_path):
    """As from Python: with Moses, as scripts/text/preprocess.sh does it."""
    made = make_translator(tmp_path)
    (tmp_path / "data/bpe.codes").write_text("#version: 0.2\nw 1</w>\n")
    model = answering(made)
    assert model.text.encode("w1, w2") == "w1 , w@@ 2"
    assert model.text.decode("w1 , w@@ 2") == "w1, w2"


@pytest.mark.parametrize("piece", ["w1@@", "\u2581w1", "##w1"])
def test_pieces_without_a_subword_model(piece, tmp_path):
    """Nearly every word would be read as an unknown one."""
    task = make_task(tmp_path / "data", words=[piece, "w2"])
    model, options = make_model(task)
    options._name = "transformer_tiny"
    path = save_with_task(tmp_path / "b.pt", "translation", model, options, task)
    message = r"--bpe: the model's words are pieces, and there is no .*; give --bpe with its"
    with pytest.raises(UserError, match=message):
        answering(None, path=path)
    segmented = answering(None, "--tokenizer", "space", path=path)
    assert segmented.text.encode(f"{piece} w2") == f"{piece} w2"


def save_trained(path, task, **options):
    """A model of the task, as if these had been its options."""
    model, args = make_model(task)
    args._name = "transformer_tiny"
    trained = Namespace(cfg=Namespace(**{**vars(task.cfg), **options}))
    return save_with_task(path, "translation", model, args, trained)


def test_a_model_that_was_trained_without_language_options(tmp_path):
    """fairseq takes the languages from the data; another folder may not say which they are."""
    task = make_task(tmp_path / "data")
    (tmp_path / "data/train.de-en.de.idx").touch()
    path = save_trained(tmp_path / "plain.pt", task, source_lang=None, target_lang=None)
    for name in ("dictionaries", "text"):
        (tmp_path / name).mkdir()
    for file in (tmp_path / "data").glob("dict.*.txt"):
        shutil.copy(file, tmp_path / "dictionaries")
    _, its_task = load_model(path, "CHECKPOINT", str(tmp_path / "dictionaries"))
    assert (its_task.cfg.source_lang, its_task.cfg.target_lang) == ("de", "en")
    with pytest.raises(
        UserError, match=r"--data .*text: has no dict\.de\.txt; give the folder that"
    ):
        load_model(path, "CHECKPOINT", str(tmp_path / "text"))


def test_a_model_that_lies_beside_its_dictionaries(tmp_path, monkeypatch):
    """As export and unpack write it: its data folder is "."."""
    task = make_task(tmp_path / "data")
    path = save_trained(tmp_path / "data/model.pt", task, data=".")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    _, its_task = load_model(path, "CHECKPOINT")
    assert its_task.source_dictionary == task.source_dictionary
    export(path, None, "fairseq", tmp_path / "exported")
    _, its_task = load_model(str(tmp_path / "exported/model.pt"), "CHECKPOINT")
    assert its_task.source_dictionary == task.source_dictionary


def test_a_task_that_completes_lines_is_refused():
    """As SelfCP's: nothing here would divide a line, or put the template around it."""
    task = SimpleNamespace(complete_line=str)
    with pytest.raises(UserError, match=r"CHECKPOINT: .*; ask it by fairseq-interactive"):
        predictor_class(nn.Module(), task, "CHECKPOINT")


def test_a_model_that_gives_numbers_is_refused():
    """As import-hf makes of a classifier with one label; nobody typed --regression-target."""
    task = SimpleNamespace(cfg=SimpleNamespace(regression_target=True))
    with pytest.raises(UserError, match=r"^CHECKPOINT: gives a number for each text"):
        Classifier(nn.Module(), task)
