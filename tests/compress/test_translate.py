"""Models that translate in turn."""

import pytest

from pet_fairseq.compress import translate
from pet_fairseq.compress.text import TextStyle
from pet_fairseq.errors import UserError


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
    texts, seconds = translate.take_turns(models, [["x", "y"], []], rounds=3)
    assert texts == {"a": ["a x y", "a "], "b": ["b x y", "b "]}
    assert seconds == {"a": [2, 2, 2], "b": [3, 3, 3]}
    assert "".join(calls) == "ab" + "baabba"


def test_wrong_inputs(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("a\n")
    empty = tmp_path / "empty"
    empty.write_text("\n")

    def run(beam=1, rounds=1, models=(), tokens=tokens, out=tmp_path / "new"):
        style = TextStyle("de", "en")
        translate.translate_exported(models, tokens, style, beam, rounds, 1, out)

    for options, message in (
        ({"beam": 0}, "--beam 0: give 1 or more"),
        ({"rounds": 0}, "--rounds 0: give 1 or more"),
        ({"models": [("a", tmp_path)]}, f"--model a {tmp_path}: no model for CTranslate2"),
        ({"tokens": tmp_path / "none"}, "none: no such file"),
        ({"tokens": empty}, "empty: has no words; give a text"),
        ({"out": tmp_path}, "exists; give the name of a new folder"),
    ):
        with pytest.raises(UserError, match=message):
            run(**options)
