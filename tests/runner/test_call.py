"""Functions as stages: what they are given, their records, and one real process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.files import write_text
from pet_fairseq.runner.call import Call, run_call
from pet_fairseq.runner.record import Record, differences, make_record
from pet_fairseq.runner.run import dry_run, resolve
from pet_fairseq.runner.stage import PRODUCT, Stage
from tests.runner.shell_stages import run


@dataclass(frozen=True)
class Style:
    language: str
    file: Optional[Path] = None


def give_back(**arguments):
    return arguments


def stage_of(product, **arguments):
    return Stage("x", ("x",), Call(give_back, arguments), product)


ARGUMENTS = {
    "text": '"quoted" and ü',
    "nothing": None,
    "numbers": [1, -2, 0.5, True],
    "plain": {"path": 1, "other": 2},
    "folders": {"a": Path("runs/a"), "b": Path("b")},
    "style": Style("de", Path("runs/style")),
}


def test_a_function_is_given_what_the_stage_says():
    words = stage_of(Path("runs/x"), **ARGUMENTS, out=PRODUCT).words(Path("runs/.part.x"))
    assert words[:3] == ["pet-fairseq", "call", "tests.runner.test_call:give_back"]
    assert run_call(words[2], words[3:]) == {**ARGUMENTS, "out": Path("runs/.part.x")}


def test_wrong_arguments_are_a_mistake_at_once():
    with pytest.raises(TypeError, match="'path'"):
        Call(write_text, {"file": PRODUCT, "text": ""})
    with pytest.raises(TypeError, match="'text'"):
        Call(write_text, {"path": PRODUCT})


@pytest.mark.parametrize(
    "function, arguments, message",
    [
        ("no_module:name", [], "No module named"),
        ("pet_fairseq.files:no_name", [], "no attribute"),
        ("pet_fairseq.files:write_text", ["--path", "{"], r"cannot be called so \(Expecting"),
        ("pet_fairseq.files:write_text", ["--path"], "cannot be called so"),
        ("pet_fairseq.files:write_text", ["--path", "1"], "missing a required argument: 'text'"),
    ],
)
def test_what_cannot_be_called_is_said_in_one_line(function, arguments, message):
    with pytest.raises(UserError, match=message):
        run_call(function, arguments)


def test_a_moved_folder_is_no_change_and_another_argument_is(tmp_path):
    def record(place, number):
        arguments = {"data": place / "data", "style": Style("de", place / "s"), "number": number}
        return make_record(stage_of(place / "x", out=PRODUCT, **arguments), {"RUNS": place}, True)

    here = record(tmp_path / "here", 1)
    assert here == record(tmp_path / "there", 1)
    assert differences(here, record(tmp_path / "here", 2)) == ["--number 2, before 1"]


def test_a_function_and_a_class_that_moved_are_no_change(tmp_path):
    def record(module, name):
        words = ["pet-fairseq", "call", f"{module}:{name}", "--style"]
        return Record([*words, f'{{"class": "{module}:Style", "fields": {{}}}}'], {}, True)

    here, moved = record("pet_fairseq.a.b", "write"), record("pet_fairseq.c", "write")
    assert differences(here, moved) == []
    assert differences(here, record("pet_fairseq.c", "read")) == [
        "pet-fairseq call read, before call write"
    ]


def test_a_real_process(folder):
    """What it writes is there whole, and what it refuses is said in one line."""
    product = folder / "runs/x"
    call = Call(write_text, {"path": PRODUCT, "text": "whole\n"})
    run(folder, Stage("x", ("x",), call, product))
    assert product.read_text() == "whole\n"
    (folder / "runs/file").write_text("")
    call = Call(write_text, {"path": folder / "runs/file/y", "text": ""})
    stage = Stage("y", ("y",), call, folder / "runs/y")
    assert resolve(stage.words())[1:3] == ["call", "pet_fairseq.files:write_text"]
    assert "pet-fairseq call pet_fairseq.files:write_text" in dry_run([stage], folder / "runs")
    with pytest.raises(UserError, match=rf"^y: {folder}/runs/file/\S+: Not a directory \(see "):
        run(folder, stage)
