"""The files that Hugging Face's libraries write for a model: its options and its tensors."""

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from pet_fairseq.checkpoints.saving import save_state
from pet_fairseq.errors import UNREADABLE, UnsafeCheckpointError, UserError, is_refusal
from pet_fairseq.errors import why_unreadable as why_no_checkpoint
from pet_fairseq.huggingface.tokenizer_file import CONFIG, EXTRA, TokenizerFile, read_json

T = TypeVar("T")

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
POINTER = b"version https://git-lfs.github.com/spec/"  # what a clone without Git LFS has for a file


class Config(dict):
    """A model's options; a missing one, or an unusable value, is an error that names the file."""

    def __init__(self, values: Mapping[str, Any], path: Path):
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str):
        raise UserError(f"{self.path}: has no {name}; download it again")

    def size(self, name: str, least: int = 1) -> int:
        """A whole number from `least`. Raises UserError if it is missing or something else."""
        value = self[name]
        if not isinstance(value, int) or value < least:
            kind = "positive whole number" if least == 1 else f"whole number from {least}"
            raise UserError(f"{self.path}: {name} is {value!r}, no {kind}")
        return value

    def choose(self, name: str, choices: Mapping[str, T]) -> T:
        """The choice that belongs to an option's value. Raises UserError for any other value."""
        value = self[name]
        if value not in list(choices):
            known = ", ".join(choices)
            raise UserError(f"{self.path}: {name} is {value!r}; known are {known}")
        return choices[value]

    def refuse(self, **expected) -> None:
        """Raises UserError if an option is given with another value than the expected one."""
        for name, value in expected.items():
            if self.get(name, value) not in (value, None):
                raise UserError(
                    f"{self.path}: {name} is {self[name]!r}, which is not supported; only "
                    f"{value!r} is"
                )

    def check_head(self, *known: str) -> None:
        """Raises UserError if the class in `architectures` is `...For` another head than these."""
        for name in map(str, self.get("architectures") or []):
            model, _, head = name.partition("For")
            if head and head not in known:
                raise UserError(
                    f"{self.path}: architectures is {name}, whose head is not supported; supported "
                    f"are {', '.join(f'{model}For{kind}' for kind in known)}"
                )


class Weights(Mapping[str, Tensor]):
    """A model's tensors by name; each is read when it is asked for, as float32.

    Args:
        readers: functions that read a tensor, by its name. path: the file, for errors.
    """

    def __init__(self, readers: Mapping[str, Callable[[], Tensor]], path: Path):
        self.readers = readers
        self.path = path

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.readers:
            raise UserError(f"{self.path}: has no {name}, which the model's options ask for")
        return self.readers[name]().float()

    def __iter__(self) -> Iterator[str]:
        return iter(self.readers)

    def __contains__(self, name: object) -> bool:
        return name in self.readers

    def __len__(self) -> int:
        return len(self.readers)

    def renamed(self, rename: Callable[[str], str]) -> "Weights":
        """These tensors under other names."""
        return Weights({rename(name): read for name, read in self.readers.items()}, self.path)


@dataclass
class Source:
    """A model in another library's files; its tokenizer is read when it is first asked for.

    Args:
        languages: those that the user chose, as source_lang and target_lang.
    """

    folder: Path
    config: Config
    weights: Weights
    read_tokenizer: Callable[[], TokenizerFile]
    languages: dict[str, str] = field(default_factory=dict)

    @cached_property
    def tokenizer(self) -> TokenizerFile:
        return self.read_tokenizer()


def read_config(folder: Path) -> Config:
    """Read config.json.

    Raises:
        UserError: it is missing or not readable.
    """
    path = require_file(folder / CONFIG)
    return Config(read_json(path), path)


def require_file(path: Path) -> Path:
    """The path itself. Raises UserError if there is no such file."""
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; give a folder with {CONFIG}, {' or '.join(WEIGHTS)} and the "
            "tokenizer's files"
        )
    return path


def open_weights(folder: Path) -> Weights:
    """Open the tensors of a folder, which may be in several files.

    Raises:
        UserError: a file that is missing, damaged or refused as unsafe.
    """
    for name in WEIGHTS:
        if (folder / name).is_file():
            return open_file(folder / name)
        index = folder / f"{name}.index.json"
        if index.is_file():
            return open_shards(index)
    return open_file(require_file(folder / WEIGHTS[0]))


def open_shards(index: Path) -> Weights:
    """Open the files that an index names."""
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
        raise UserError(f"{index}: has no weight_map; download it again")
    readers = {}
    for file in sorted(set(names.values())):
        path = index.parent / Path(file).name  # never in another folder, whatever the index says
        if not path.is_file():
            raise UserError(f"{path}: no such file, but {index.name} names it; download it")
        readers |= open_file(path).readers
    return Weights(readers, index)


def open_file(path: Path) -> Weights:
    """Open one file of tensors. Raises UserError if it is damaged, unsafe or only a pointer."""
    with open(path, "rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise UserError(
                f"{path}: is a pointer of Git LFS, not the file itself; run git lfs pull in its "
                "folder, or download it by itself"
            )
    return open_safetensors(path) if path.suffix == ".safetensors" else open_pickle(path)


# Each tensor is read by opening its file anew: pages that stay mapped would count as memory in use.


def open_safetensors(path: Path) -> Weights:
    """Open a file of the library safetensors."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise UserError(f"{path}: needs a package; run {EXTRA}") from error

    def read(name: str) -> Tensor:
        with safe_open(path, "pt") as file:
            return file.get_tensor(name)

    try:
        with safe_open(path, "pt") as file:
            names = list(file.keys())
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise UserError(f"{path}: not readable ({error}); download it again") from error
    return Weights({name: partial(read, name) for name in names}, path)


def open_pickle(path: Path) -> Weights:
    """Open a file that torch.save wrote, under torch's safe loading."""
    mapped = is_archive(path)
    try:
        tensors = load_safely(path, mapped)
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise TypeError("not a dict of tensors")
    except UNREADABLE as error:
        if is_refusal(error, str(path)):
            raise UnsafeCheckpointError(f"{path}: {why_no_checkpoint(error, str(path))}") from error
        raise UserError(f"{path}: not readable ({error}); download it again") from error
    if mapped:
        return Weights({name: partial(read_mapped, path, name) for name in tensors}, path)
    copy = TemporaryCopy(tensors)
    return Weights({name: partial(copy.read, name) for name in tensors}, path)


def is_archive(path: Path) -> bool:
    """Whether torch.save's file is a zip archive (since torch 1.6), which can be read in parts."""
    with open(path, "rb") as file:
        return file.read(2) == b"PK"


class TemporaryCopy:
    """Tensors of a file in torch's old format, saved as a zip archive that the import removes."""

    def __init__(self, tensors: dict[str, Tensor]):
        self.folder = tempfile.TemporaryDirectory(prefix="pet-fairseq-")
        self.file = Path(self.folder.name, WEIGHTS[1])
        save_state(tensors, self.file)

    def read(self, name: str) -> Tensor:
        return read_mapped(self.file, name)


def read_mapped(path: Path, name: str) -> Tensor:
    return load_safely(path, mapped=True)[name]


def load_safely(path: Path, mapped: bool) -> dict[str, Tensor]:
    """What torch.load reads from a file, on the CPU; mapped tensors stay in the file until used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about versions of pickle
        return torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped or None)
