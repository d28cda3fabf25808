"""Records of how products were made: a small file beside each product."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import hash_file, write_json
from pet_fairseq.runner.stage import Stage, shell_words, without_options

MODULE = re.compile(r"\bpet_fairseq(?:\.\w+)*:(?=\w)")  # in the name of a function or a class


@dataclass(frozen=True)
class Record:
    """A command and digests of its inputs, with paths that survive a move of the folders.

    Attributes:
        inputs: the digest of each input's content, by path.
        finished: whether the command has ended successfully.
    """

    command: list[str]
    inputs: dict[str, str]
    finished: bool = False


def record_path(product: Path) -> Path:
    return product.with_name(f".{product.name}.made.json")


def read_record(product: Path) -> Optional[Record]:
    """Read the record beside a product; None if there is none.

    Raises:
        UserError: the record cannot be read.
    """
    path = record_path(product)
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Record(list(content["command"]), dict(content["inputs"]), bool(content["finished"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: is not a record of a recipe; remove it") from error


def write_record(product: Path, record: Record) -> None:
    write_json(record_path(product), asdict(record))


def make_record(stage: Stage, places: Mapping[str, Path], finished: bool) -> Record:
    """Make the record of a stage.

    Args:
        places: names of the folders that may be moved, such as `RUNS`, and where they are now.
    Raises:
        UserError: an input is missing.
    """
    words = stage.words(shown=lambda word: _shorten(word, places))
    return Record(
        shell_words(without_options(words, stage.free)),
        {_shorten(str(path), places): digest(path) for path in stage.inputs},
        finished,
    )


def _shorten(word: str, places: Mapping[str, Path]) -> str:
    """A word with the names of places for their paths; it may be several paths (an ensemble)."""
    return os.pathsep.join(_shorten_path(path, places) for path in word.split(os.pathsep))


def _shorten_path(word: str, places: Mapping[str, Path]) -> str:
    for name, folder in sorted(places.items(), key=lambda place: -len(str(place[1]))):
        if word == str(folder) or word.startswith(f"{folder}/"):
            return name + word[len(str(folder)) :]
    return word


def differences(
    before: Record, now: Record, renamed: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """What differs between two records of a product, in words; `finished` does not count.

    An input that is not read any more is no difference: the product may as well stay. Nor is the
    module of a function that is called, which may have moved.

    Args:
        renamed: see `Stage.renamed`.
    """
    old, new = _options(before.command, renamed), _options(now.command, {})
    lines = [
        f"{name} {new.get(name, '(not given)')}, before {old.get(name, '(not given)')}"
        for name in {**new, **old}
        if new.get(name) != old.get(name)
    ]
    for path in {**now.inputs, **before.inputs}:
        if now.inputs.get(path) != before.inputs.get(path) and path in now.inputs:
            lines.append(f"{path} has changed" if path in before.inputs else f"now reads {path}")
    return lines


def _options(command: list[str], renamed: Mapping[str, str]) -> dict[str, str]:
    """The values of each option of a command; those before the first are the program's."""
    values: dict[str, list[str]] = {}
    name = command[0]
    for word in command[1:]:
        if word.startswith("--"):
            name = renamed.get(word, word) or command[0]
            values.setdefault(name, [])
        else:
            values.setdefault(name, []).append(MODULE.sub("", word))
    return {name: " ".join(words) or "(given)" for name, words in values.items()}


def digest(path: Path) -> str:
    """A digest of a file, or of the files in a folder except for logs and hidden files.

    Raises:
        UserError: there is no such file or folder.
    """
    if path.is_file():
        status = path.stat()
        return _file_digest(os.path.realpath(path), status.st_size, status.st_mtime_ns)
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder")
    whole = hashlib.blake2b(digest_size=16)
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.suffix != ".log" and not file.name.startswith("."):
            whole.update(f"{file.relative_to(path)} {digest(file)}\n".encode())
    return whole.hexdigest()


@cache
def _file_digest(path: str, size: int, modified_ns: int) -> str:
    """The digest of a file's content; `size` and `modified_ns` tell the cache that it changed."""
    return hash_file(path, hashlib.blake2b(digest_size=16)).hexdigest()
