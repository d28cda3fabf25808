"""How tokens become text."""

import pytest
from fairseq.data import Dictionary
from omegaconf import DictConfig
from sacrebleu.metrics import BLEU

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, write_lines
from pet_fairseq.predict.speed.detokenise import (
    TextSet,
    TextStyle,
    find_style,
    read_set,
    write_set,
)
from tests.byte_pieces import PIECES, TEXT
from tests.translation import make_task, write_subset


def style_of(tmp_path, words, trained=None, **given):
    task = make_task(tmp_path / "data", words)
    style = find_style(DictConfig({"task": {}, **(trained or {})}), task, **given)
    return style.remove_bpe, style.tokenizer


def test_what_the_words_show(tmp_path):
    assert style_of(tmp_path, ["a", "b"]) == (None, None)
    assert style_of(tmp_path, ["a@@", "b"]) == ("subword_nmt", "moses")
    assert style_of(tmp_path, ["\u2581a", "b"]) == ("sentencepiece", None)


def test_what_the_teacher_and_the_user_say(tmp_path):
    trained = {"tokenizer": {"_name": "nltk"}}
    assert style_of(tmp_path, ["a@@"], trained) == ("subword_nmt", "nltk")
    assert style_of(tmp_path, ["a"], {"task": {"eval_bleu_detok": "moses"}}) == (None, "moses")
    given = {"remove_bpe": "none", "tokenizer": "space"}
    assert style_of(tmp_path, ["a@@"], trained, **given) == (None, None)


def test_decoding():
    moses = TextStyle("de", "en", "subword_nmt", "moses")
    assert moses.options == ("--remove-bpe", "subword_nmt", "--tokenizer", "moses")
    assert moses.decoder()("He sa@@ id : &quot; yes &quot; .") == 'He said: "yes".'
    assert TextStyle("de", "en").decoder()("a b@@ c") == "a b@@ c"
    assert TextStyle("de", "en", "sentencepiece").decoder()("\u2581a b \u2581c") == "ab c"
    assert TextStyle("de", "en", "sentencepiece").decoder()(PIECES) == TEXT


@pytest.mark.parametrize(
    "style, message",
    [
        (TextStyle("de", "en", None, "mosses"), "--tokenizer mosses"),
        (TextStyle("de", "en", "bpe"), "--remove-bpe bpe: give subword_nmt"),
    ],
)
def test_styles_that_do_not_exist(style, message):
    with pytest.raises(UserError, match=message):
        style.decoder()


def test_lines_keep_an_empty_last_sentence(tmp_path):
    write_lines(tmp_path / "x", ["a", "", ""])
    assert read_lines(tmp_path / "x", "x") == ["a", "", ""]


def test_a_lost_word_of_the_reference_is_none_of_a_translation(tmp_path):
    task = make_task(tmp_path / "data", ["a", "dog"])
    unk = task.target_dictionary.unk()
    write_subset(tmp_path / "data", "test", [[4, unk, 5, 2]])
    write_set(tmp_path / "data", "test", TextStyle("de", "en"), tmp_path / "out")
    (reference,) = read_lines(tmp_path / "out/reference.txt", "x")
    assert read_lines(tmp_path / "out/source.tokens", "x") == ["a <unk> dog"]
    precisions = BLEU().corpus_score(["a <unk> dog"], [[reference]]).precisions
    assert precisions[0] == 100 * 2 / 5  # a, <, unk, >, dog
    right = BLEU().corpus_score(["a cat dog"], [[reference]])
    assert right.precisions[0] == pytest.approx(100 * 2 / 3) and right.bp == 1


def test_dictionaries_compare():
    # plan.py compares a test folder's with the data's
    words = Dictionary()
    words.add_symbol("a")
    assert words != Dictionary()


def test_a_set_is_read_as_it_was_written(tmp_path):
    """Another reference has lost no words; damage is named."""
    task = make_task(tmp_path / "data", ["a", "dog"])
    words = [[4, task.target_dictionary.unk(), 2], [5, 2]]
    write_subset(tmp_path / "data", "test", words)
    out = tmp_path / "out"
    write_set(tmp_path / "data", "test", TextStyle("de", "en"), out)
    assert read_set(out) == TextSet(["a <unk>", "dog"], ["a ⁇", "dog"], 1)
    (tmp_path / "own").write_text("a cat\ndog\n")
    assert read_set(out, tmp_path / "own") == TextSet(["a <unk>", "dog"], ["a cat", "dog"], 0)
    (out / "about.json").write_text("{}")
    with pytest.raises(UserError, match=r"about\.json: cannot be read; remove "):
        read_set(out)
