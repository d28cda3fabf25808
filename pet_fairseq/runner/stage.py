"""A stage of a recipe: one command, its inputs, and the one file or folder that it makes."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Optional, TypeVar, Union

from pet_fairseq.runner.call import Call


@dataclass(frozen=True)
class Output:
    """Stands in a command for the words that another command of pet-fairseq prints.

    Attributes:
        is_one_word: whether it prints one word as it is; else they are quoted for a shell.
    """

    command: tuple[str, ...]
    is_one_word: bool = False

    def shell(self) -> str:
        return f"$(pet-fairseq {shlex.join(self.command)})"


@dataclass(frozen=True)
class Product:
    """Stands in a command for the stage's product, or for where it lies until it is complete."""


USER_DIR = Output(("user-dir",), is_one_word=True)
PRODUCT = Product()
Word = Union[str, Output]
CommandLine = tuple[Union[Word, Product], ...]
W = TypeVar("W", bound=Word)


class Kind(Enum):
    """How a stage's command makes its product."""

    TRAINING = "fairseq-train keeps checkpoints in the product's folder and resumes from them"
    STDOUT = "the command prints it"
    WRITES = "the command writes PRODUCT"


@dataclass(frozen=True)
class Stage:
    """One step of a recipe.

    Attributes:
        name: unique within a recipe, such as `pet.seed1/warmup`.
        groups: names by which `--stages` selects it: of rows, or `generate`, `report` and so on.
        command: the program and its arguments, or a function to call.
        product: the file or folder that it makes.
        inputs: files and folders that the command reads.
        alone: whether nothing else may run beside it, because it measures time.
        always: whether it runs every time, after all others, because it summarises what is there.
        shown: whether its product is text that is shown as soon as it is made.
        texts: small files that are written before the command runs.
        disk: bytes that a training's checkpoints take; 0 if it is not known.
        growth: bytes of memory, at most, that a training takes later than in its first updates.
        renamed: options of the command by which older records may name others: pairs of the old
            name and the present one, "" for the words before the first option.
        free: options whose values do not change the product, beside the inputs' content; records
            leave them out, or have them from an older version.
    """

    name: str
    groups: tuple[str, ...]
    command: Union[CommandLine, Call]
    product: Path
    inputs: tuple[Path, ...] = ()
    kind: Kind = Kind.WRITES
    alone: bool = False
    always: bool = False
    shown: bool = False
    texts: tuple[tuple[Path, str], ...] = ()
    disk: int = 0
    growth: int = 0
    renamed: tuple[tuple[str, str], ...] = ()
    free: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """The file for what the command prints, unless that is the product."""
        if self.kind is Kind.TRAINING:
            return self.product.with_name("train.log")
        return self.product.with_name(f".{self.product.name}.log")

    def checkpoints(self) -> list[Path]:
        """What a training has kept so far; nothing for other stages."""
        if self.kind is not Kind.TRAINING:
            return []
        return list(self.product.parent.glob("checkpoint*.pt"))

    def words(
        self, product: Optional[Path] = None, shown: Callable[[str], str] = str
    ) -> list[Word]:
        """The words of the command line.

        Args:
            product: what stands in place of PRODUCT, if not the product itself.
            shown: how paths are written, which may be any of a command's words.
        """
        path = self.product if product is None else product
        if isinstance(self.command, Call):
            arguments = self.command.arguments.items()
            filled = {name: path if value is PRODUCT else value for name, value in arguments}
            return [*replace(self.command, arguments=filled).words(shown)]
        return [_fill(word, path, shown) for word in self.command]

    def option(self, name: str) -> Optional[str]:
        """The value of an option of the command; the last one if it is given several times."""
        return value_of(self.words(), name)


def _fill(word: Union[Word, Product], product: Path, shown: Callable[[str], str]) -> Word:
    if isinstance(word, Output):
        return replace(word, command=tuple(map(shown, word.command)))
    return shown(str(product) if isinstance(word, Product) else word)


def value_of(words: Sequence[Word], name: str) -> Optional[str]:
    """The value of an option among words; the last one if it is given several times."""
    places = [i for i, word in enumerate(words[:-1]) if word == name]
    return str(words[places[-1] + 1]) if places else None


def without_options(words: Sequence[W], names: Sequence[str]) -> list[W]:
    """Words without these options and their values."""
    kept, drops = [], False
    for word in words:
        if isinstance(word, Output) or word.startswith("--"):
            drops = word in names
        if not drops:
            kept.append(word)
    return kept


def is_within(path: Path, product: Path) -> bool:
    """Whether a path is the product, or lies in it."""
    return path == product or product in path.parents


def drop_overridden(options: Sequence[W]) -> tuple[W, ...]:
    """Options without those that a later one overrides."""
    values: dict[W, list[W]] = {}
    for word in options:
        if isinstance(word, Output) or word.startswith("--"):
            name = word
            values[name] = []
        else:
            values[name].append(word)
    return tuple(word for name, words in values.items() for word in (name, *words))


def shell_words(words: Iterable[Word]) -> list[str]:
    """The words of a command, quoted for a shell."""
    return [word.shell() if isinstance(word, Output) else shlex.quote(word) for word in words]


def shell_lines(stages: Iterable[Stage]) -> list[str]:
    """The stages as lines for a shell, each stage under a comment with its name."""
    lines, folders = [], set()
    for stage in stages:
        lines.append(f"# {stage.name}")
        folder = stage.product.parent
        if stage.kind is Kind.TRAINING:
            folders.add(folder)  # fairseq-train makes it
        elif folder not in folders:
            folders.add(folder)
            lines.append(f"mkdir -p {shlex.quote(str(folder))}")
        for path, text in stage.texts:
            content = ["printf", "%s\\n", *text.splitlines()]
            lines += wrap([*map(shlex.quote, content), f"> {shlex.quote(str(path))}"])
        words = shell_words(stage.words())
        if stage.kind is Kind.STDOUT:
            words += [f"> {shlex.quote(str(stage.product))}", "2>&1"]
        lines += wrap(words)
    return lines


def wrap(words: Sequence[str], width: int = 120) -> list[str]:
    """Wrap a command at `width` characters where possible; options stay beside their values."""
    parts: list[str] = []
    for word in words:
        if not parts or word.startswith(("--", "> ")):
            parts.append(word)
        else:
            parts[-1] += f" {word}"
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {part}")
    return lines
