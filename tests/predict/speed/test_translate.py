"""Models that translate in turn."""

import json
import shutil
import statistics

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.predict.speed import translate
from pet_fairseq.predict.speed.detokenise import TextStyle


def test_models_take_turns(monkeypatch):
    clock, calls = [0.0], []
    monkeypatch.setattr(translate.time, "perf_counter", lambda: clock[0])

    def model(name, seconds):
        def run(sentences):
            calls.append(name)
            clock[0] += seconds if len(calls) > 2 else 1000  # the first round is slow
            return [f"{name} {' '.join(words)}" for words in sentences]

        return run

    models = {"a": model("a", 2), "b": model("b", 3)}
    sentences = {"a": [["x", "y"], []], "b": [["xy"], []]}
    texts, seconds = translate.take_turns(models, sentences, rounds=3)
    assert texts == {"a": ["a x y", "a "], "b": ["b xy", "b "]}
    assert seconds == {"a": [2, 2, 2], "b": [3, 3, 3]}
    assert "".join(calls) == "ab" + "baabba"


def test_wrong_inputs(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("a\n")
    empty = tmp_path / "empty"
    empty.write_text("\n")

    def run(beam=1, rounds=1, models=None, tokens=tokens, out=tmp_path / "new"):
        style = TextStyle("de", "en")
        translate.translate_exported(models or {}, tokens, style, beam, rounds, out)

    for options, message in (
        ({"beam": 0}, "--beam 0: give 1 or more"),
        ({"rounds": 0}, "--rounds 0: give 1 or more"),
        ({"models": {"a": tmp_path}}, f"--model a {tmp_path}: no model for CTranslate2"),
        ({"tokens": tmp_path / "none"}, "none: no such file"),
        ({"tokens": empty}, "empty: has no words; give a text"),
        ({"out": tmp_path}, "is there already; give a new folder"),
    ):
        with pytest.raises(UserError, match=message):
            run(**options)


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """A folder for a model, whose translations are its sources behind a word."""

    def load(folder, beam, threads, max_length):
        return translate.Loaded(
            lambda sentences: [f"so {' '.join(words)}" for words in sentences], longest=1023
        )

    monkeypatch.setattr(translate, "load", load)
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine/model.bin").touch()
    return {"a": tmp_path / "engine"}


LONG = "w " * 1100


def translated(engine, folder, text, **options):
    """The lines of the translation, and the count of bad lines."""
    (folder / "tokens").write_bytes(text)
    style = TextStyle("de", "en")
    _, bad = translate.translate_exported(
        engine, folder / "tokens", style, 1, 2, folder / "out", 1, **options
    )
    speeds = json.loads((folder / "out/speeds.json").read_text())
    shutil.move(folder / "out/a.txt", folder / "a.txt")
    shutil.rmtree(folder / "out")
    return (folder / "a.txt").read_text().split("\n")[:-1], bad.summary(), speeds


@pytest.mark.parametrize("at_once", [2, 100])
def test_every_line_has_its_translation(at_once, engine, tmp_path, monkeypatch):
    monkeypatch.setattr(translate, "AT_ONCE", at_once)
    text = f"a b\n\n \n{LONG}\nc \ufffd\nd".encode().replace("\ufffd".encode(), b"\xff")
    lines, summary, speeds = translated(engine, tmp_path, text)
    cut = "so " + " ".join(["w"] * 1023)
    assert lines == ["so a b", "", "", cut, "so c \ufffd", "so d"]
    assert summary == (
        "4 of 6 lines: 2 empty (lines 2, 3), 1 cut (line 4), 1 with broken bytes (line 5)"
    )
    assert speeds["sentences"] == 4 and len(speeds["seconds"]["a"]) == 2
    lines, summary, _ = translated(engine, tmp_path, text, long_texts="skip")
    assert lines == ["so a b", "", "", "", "so c \ufffd", "so d"]
    assert ", 1 skipped (line 4), 1 with broken bytes (line 5)" in summary
    for options, message in (
        ({"long_texts": "refuse"}, "tokens, line 4: 1100 tokens, at most 1023 are taken"),
        ({"strict": True}, "tokens, line 5: not UTF-8 at byte 2"),
    ):
        with pytest.raises(UserError, match=message):
            translated(engine, tmp_path, text, **options)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "engine", "tokens"]


def test_good_lines_are_not_spoken_of(engine, tmp_path):
    assert translated(engine, tmp_path, b"a\nb\n")[:2] == (["so a", "so b"], None)


def test_speeds_are_read_as_they_were_written(engine, tmp_path):
    (tmp_path / "tokens").write_text("a b\n\nc\n")
    out = tmp_path / "out"
    written, _ = translate.translate_exported(
        engine, tmp_path / "tokens", TextStyle("de", "en"), 3, 2, out, threads=1
    )
    found = translate.read_speeds(out)
    assert found == written and (found.beam, found.threads, found.sentences) == (3, 1, 2)
    assert found.sentences_per_second["a"] == pytest.approx(2 / statistics.mean(found.seconds["a"]))


@pytest.mark.parametrize("content", ["{", "[]", '{"engine": "CTranslate2"}', '{"new": 1}'])
def test_speeds_that_cannot_be_read(content, tmp_path):
    (tmp_path / "speeds.json").write_text(content)
    with pytest.raises(UserError, match=r"speeds\.json: holds no speeds; remove "):
        translate.read_speeds(tmp_path)
