"""Settings of recipes from YAML files: names, and under each the fields of a dataclass.

Every value is text as it stands in the file, so that `1e-3` stays `1e-3` in a command; the field's
type says what becomes of it: a text, a number, a truth value, words, or settings by name. Words are
divided as a shell does; a list of texts is one sequence of words. `based_on: NAME` takes all other
fields from settings above it, or from others that the reader knows.
"""

import shlex
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from pet_fairseq.errors import UserError, did_you_mean

T = TypeVar("T")
BASED_ON = "based_on"
NOTHING: Mapping[str, Any] = MappingProxyType({})


def read_settings(path: Path, kind: type[T], known: Mapping[str, Any] = NOTHING) -> dict[str, T]:
    """The settings of a file by name, in its order.

    Args:
        kind: a dataclass. known: other settings that `based_on` may name, of any kind.
    Raises:
        UserError: the file is not YAML, or it has a key twice, a key that is no field of `kind` or
            a value that does not fit its field, or it lacks a field.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{path}: line {line}: {error.problem}; mend the file") from None
    return _read_named(kind, content, str(path), known, NOTHING)


class _Loader(yaml.BaseLoader):
    """Leaves every value the text that it is, and refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value} is given twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _read_named(
    kind: type, content: object, where: str, known: Mapping[str, Any], inherited: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings by name; those of `inherited` that the file does not have are kept.

    Args:
        where: the file and the keys that lead to `content`, for errors.
    """
    found = dict(inherited)
    for name, part in _check_mapping(content, where).items():
        found[name] = _read_one(kind, part, f"{where}: {name}", {**known, **found})
    return found


def _read_one(kind: Any, content: object, where: str, known: Mapping[str, Any]) -> Any:
    """Settings of one kind, or those that they are based on with other values."""
    given = dict(_check_mapping(content, where))
    base = _find_base(kind, given.pop(BASED_ON, None), where, known)
    types = get_type_hints(kind)
    for key in given:
        if key not in types:
            raise UserError(
                f"{where}: {key}: there is no such key{did_you_mean(key, types)}; give some of "
                f"{', '.join((BASED_ON, *types))}"
            )
    values = {
        key: _convert(types[key], value, f"{where}: {key}", known, getattr(base, key, NOTHING))
        for key, value in given.items()
    }
    if base is not None:
        return replace(base, **values)
    missing = [f.name for f in fields(kind) if f.name not in values and not _has_default(f)]
    if missing:
        raise UserError(f"{where}: {missing[0]}: is missing; give it, or {BASED_ON}")
    return kind(**values)


def _has_default(field: Field) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _find_base(kind: type, name: object, where: str, known: Mapping[str, Any]) -> Any:
    """The settings that `based_on` names; None without it."""
    if name is None:
        return None
    choices = {other: part for other, part in known.items() if isinstance(part, kind)}
    if not isinstance(name, str) or name not in choices:
        raise UserError(
            f"{where}: {BASED_ON}: {name}: there are no such settings above; give one of "
            f"{', '.join(choices)}"
        )
    return choices[name]


def _check_mapping(content: object, where: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        shown = f"{content}: " if content else ""
        raise UserError(f"{where}: {shown}give keys with their values")
    return content


def _convert(kind: Any, value: object, where: str, known: Mapping[str, Any], before: Any) -> Any:
    """A value of the file as its field's type has it.

    Args:
        before: what the field has in the settings that these are based on.
    """
    if get_origin(kind) is tuple:
        part = get_args(kind)[0]
        return tuple(_convert(part, word, where, known, NOTHING) for word in _words(value, where))
    if get_origin(kind) is Mapping:
        return _read_named(get_args(kind)[1], value, where, known, before)
    if not isinstance(value, str):
        raise UserError(f"{where}: {value}: give one value")
    if kind is str:
        return value
    try:
        return {"true": True, "false": False}[value] if kind is bool else kind(value)
    except (KeyError, ValueError):
        wanted = "true or false" if kind is bool else "a whole number"
        raise UserError(f"{where}: {value}: give {wanted}") from None


def _words(value: Any, where: str) -> list[str]:
    """The words of a text, or of a list of texts."""
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise UserError(f"{where}: {value}: give words, or a list of them")
    try:
        return [word for text in texts for word in shlex.split(text)]
    except ValueError:
        raise UserError(f"{where}: a quote is not closed") from None
