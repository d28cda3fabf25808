"""Settings from YAML files: what they become, and what is refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.settings import read_settings


@dataclass(frozen=True)
class Model:
    arch: str
    layers: int = 0


@dataclass(frozen=True)
class Settings:
    common: tuple[str, ...]
    beams: tuple[int, ...] = (5,)
    builtin: bool = False
    lr: str = ""
    models: Mapping[str, Model] = field(default_factory=dict)


@pytest.fixture
def read(tmp_path):
    def read(text, known=None):
        (tmp_path / "some.yaml").write_text(text)
        return read_settings(tmp_path / "some.yaml", Settings, known or {})

    return read


def test_values_are_what_the_fields_are(read):
    found = read(
        """
        one:
          common:
            - --num-workers 0  # a comment
            - --adam-betas '(0.9, 0.98)' --off no
          beams: 1 5
          builtin: true
          lr: 1e-3
          models: {a: {arch: "x"}, b: {arch: y, layers: 3}}
        two: {common: []}
        """
    )
    words = ("--num-workers", "0", "--adam-betas", "(0.9, 0.98)", "--off", "no")
    models = {"a": Model("x"), "b": Model("y", 3)}
    assert found == {"one": Settings(words, (1, 5), True, "1e-3", models), "two": Settings(())}
    assert list(found) == ["one", "two"]


def test_settings_are_based_on_others(read):
    known = {"far": Settings(("--far",), (7,), models={"a": Model("x", 1), "b": Model("y", 2)})}
    found = read(
        """
        near:
          based_on: far
          common: --near
          models:
            a: {arch: z}
            c: {based_on: a, layers: 4}
            d: {based_on: b, layers: 5}
        next: {based_on: near, beams: 8}
        """,
        known,
    )
    models = {"a": Model("z"), "b": Model("y", 2), "c": Model("z", 4), "d": Model("y", 5)}
    near = Settings(("--near",), (7,), models=models)
    assert found == {"near": near, "next": Settings(("--near",), (8,), models=models)}
    assert known["far"].models["a"] == Model("x", 1)  # as it was


@pytest.mark.parametrize(
    "text, message",
    [
        ("one: {common: a, comon: b}", "one: comon: there is no such key, did you mean common?"),
        ("one: {common: a, x: b}", "one: x: there is no such key; give some of based_on, common, "),
        ("one: {models: {a: {width: 1}}}", "one: models: a: width: there is no such key; give"),
        ("one: {beams: 5}", "one: common: is missing; give it, or based_on"),
        ("one: {common: a, beams: a}", "one: beams: a: give a whole number"),
        ("one: {common: a, beams: 1.5}", "one: beams: 1.5: give a whole number"),
        ("one: {common: a, builtin: yes}", "one: builtin: yes: give true or false"),
        ("one: {common: a, lr: [1]}", "one: lr: ['1']: give one value"),
        ("one: {common: {a: b}}", "one: common: {'a': 'b'}: give words, or a list of them"),
        ('one: {common: "a \'b"}', "one: common: a quote is not closed"),
        ("one: {common: a, models: b}", "one: models: b: give keys with their values"),
        ("one: --common", "one: --common: give keys with their values"),
        ("", "some.yaml: give keys with their values"),
        ("one: {based_on: two}\ntwo: {common: a}", "one: based_on: two: there are no such"),
        ("one: {based_on: [two]}", "one: based_on: ['two']: there are no such settings above"),
        ("one: {common: a}\none: {common: b}", "line 2: one is given twice; mend the file"),
        ("one: {common: a, common: b}", "line 1: common is given twice; mend the file"),
        ("one: {common: a", "line 1: expected ',' or '}', but got '<stream end>'; mend the file"),
    ],
)
def test_what_is_refused(read, tmp_path, text, message):
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value).startswith(str(tmp_path / "some.yaml"))
    assert message in str(error.value) and "\n" not in str(error.value)
