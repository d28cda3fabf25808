"""Sizes of vocabularies in a state, and where two dictionaries part."""

import logging
import shutil

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask

from pet_fairseq.checkpoints.backbone import load_backbone
from pet_fairseq.checkpoints.dictionaries import first_difference, vocabulary_sizes
from pet_fairseq.checkpoints.frozen_models import load_frozen_models
from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.compress.teacher import read_teacher
from pet_fairseq.errors import UserError
from tests.helpers import build, dictionary
from tests.translation import WORDS, make_task, save_model


@pytest.mark.parametrize("tied", [False, True])
def test_vocabulary_sizes(tied):
    """Also where the decoder's embeddings are stored under the encoder's name only."""
    state = build(share_all_embeddings=tied).state_dict()
    assert vocabulary_sizes(state) == {"source_lang": 20, "target_lang": 20}


def test_first_difference():
    ours = dictionary(5)
    assert first_difference(dictionary(5), ours) == ""
    assert first_difference(dictionary(6), ours) == "10 words against 9"
    assert first_difference(dictionary(2), ours) == "6 words against 9"
    theirs = dictionary(2)
    theirs.add_symbol("other")
    assert first_difference(theirs, ours) == "entry 6 is 'other' against 'w2'"


# --- what the user is told ------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path):
    """A model of other words; returns its path."""
    task = make_task(tmp_path / "theirs", words=["x", "y"])
    return save_model(tmp_path / "other.pt", task)


def test_each_option_has_its_own_remedy(other, tmp_path):
    """Who gave a teacher can give another one; a backbone or a checkpoint wants its own data."""
    task = make_task(tmp_path / "ours")
    folder = tmp_path / "ours"
    read = {
        "--teacher-path": lambda: load_frozen_models(other, "--teacher-path", task),
        "--backbone-path": lambda: load_backbone(other, task),
        "CHECKPOINT": lambda: load_transformer(other, "CHECKPOINT", str(folder)),
        "TEACHER": lambda: read_teacher(tmp_path / "other.pt", folder),
    }
    remedies = {}
    for option, load in read.items():
        with pytest.raises(UserError) as error:
            load()
        start, _, remedies[option] = str(error.value).rpartition("; ")
        assert start.startswith(f"{option} {other}: made with another dictionary: ")
    assert remedies == {
        "--teacher-path": "give one that was trained on data made with the same dictionaries",
        "--backbone-path": "give the data that it was trained on, or other data made with its "
        "dictionaries",
        "CHECKPOINT": "give with --data the folder that it was trained on, or one made with its "
        "dictionaries",
        "TEACHER": "give with --data the folder that it was trained on, or one made with its "
        "dictionaries",
    }


def test_a_model_of_more_words_than_its_dictionary(tmp_path):
    """As `roberta_enc_dec` is on a RoBERTa that got its <mask> in training only."""
    task, wider = make_task(tmp_path / "data"), make_task(tmp_path / "mask", [*WORDS, "<mask>"])
    path = save_another_task(save_model(tmp_path / "wider.pt", wider), task)
    line = f"^--teacher-path {path}: its model has 17 words and its dictionary, .*dict.de.txt, 16, "
    with pytest.raises(UserError, match=line):
        load_frozen_models(path, "--teacher-path", task)


def save_another_task(path, task):
    """Let a checkpoint say that it was trained with another task; returns its path."""
    state = torch.load(path)
    state["cfg"]["task"] = {**vars(task.cfg), "_name": "translation"}
    torch.save(state, path)
    return path


TINY = {
    **{"decoder_layers": 1, "decoder_embed_dim": 8, "decoder_ffn_embed_dim": 8},
    **{"decoder_attention_heads": 1, "decoder_output_dim": 8, "decoder_input_dim": 8},
    **{"tokens_per_sample": 16, "max_target_positions": 16},
}


def language_model_task(folder, words):
    folder.mkdir(exist_ok=True)
    made = Dictionary()
    for word in words:
        made.add_symbol(word)
    made.save(str(folder / "dict.txt"))
    return LanguageModelingTask.setup_task(LanguageModelingConfig(data=str(folder)))


@pytest.mark.parametrize("place", ["gone", "beside the checkpoint"])
def test_the_dictionary_of_a_language_model(place, tmp_path, caplog):
    """Its folder gone, it is found beside the checkpoint; else there is a warning, as for pairs."""
    theirs = language_model_task(tmp_path / "theirs", "abc")
    path = tmp_path / "model" / "lm.pt"
    path.parent.mkdir()
    save_model(path, theirs, "transformer_lm", **TINY)
    if place == "beside the checkpoint":
        shutil.copy(tmp_path / "theirs/dict.txt", path.parent)
    shutil.rmtree(tmp_path / "theirs")
    ours = language_model_task(tmp_path / "ours", "acb")  # as many words
    if place == "beside the checkpoint":
        with pytest.raises(UserError, match="entry 5 is 'b' against 'c'"):
            load_backbone(str(path), ours)
        return
    with caplog.at_level(logging.WARNING):
        assert isinstance(load_backbone(str(path), ours), torch.nn.Module)
    file = tmp_path / "theirs/dict.txt"
    assert f"--backbone-path {path}: {file}, named in it, is not there" in caplog.text
