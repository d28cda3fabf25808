"""A function that a stage calls in a process of its own: its arguments as words, and back."""

import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from pet_fairseq.errors import UserError


@dataclass(frozen=True)
class Call:
    """A function of a module, and its arguments by name.

    An argument is what JSON has, a path, a dataclass of these, or `stage.PRODUCT`.

    Raises:
        TypeError: the function does not take these arguments.
    """

    function: Callable[..., object]
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        signature(self.function).bind(**self.arguments)

    def words(self, shown: Callable[[str], str] = str) -> list[str]:
        """The command line that `run_call` reads; `shown` is how a path is written."""

        def encode(value: object) -> dict[str, Any]:
            if isinstance(value, Path):
                return {"path": shown(str(value))}
            assert is_dataclass(value), value
            return {"class": name_of(type(value)), "fields": vars(value)}

        return [
            *("pet-fairseq", "call", name_of(self.function)),
            *(
                word
                for name, value in self.arguments.items()
                for word in (f"--{name}", json.dumps(value, default=encode, ensure_ascii=False))
            ),
        ]


def name_of(function: Callable[..., object]) -> str:
    """The module and the name of a function or a class, as `pkgutil.resolve_name` takes them."""
    return f"{function.__module__}:{function.__qualname__}"


def run_call(function: str, arguments: Sequence[str]) -> object:
    """Call a function by its name; returns what it returns.

    Args:
        arguments: words as `Call.words` has them behind the function's name.
    Raises:
        UserError: there is no such function, or it does not take these arguments.
    """
    options, values = arguments[::2], arguments[1::2]
    try:
        named = {
            option.removeprefix("--"): json.loads(value, object_hook=_decode)
            for option, value in zip(options, values, strict=True)
        }
        called = pkgutil.resolve_name(function)
        signature(called).bind(**named)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UserError(
            f"{function}: cannot be called so ({error}); give MODULE:NAME and its arguments as "
            "--NAME JSON"
        ) from error
    return called(**named)


def _decode(content: dict[str, Any]) -> object:
    """A path or a dataclass from what `Call.words` made of it; other content as it is."""
    if content.keys() == {"path"}:
        return Path(content["path"])
    if content.keys() == {"class", "fields"}:
        return pkgutil.resolve_name(content["class"])(**content["fields"])
    return content
