"""`pet-fairseq translate-exported`: translate a text by exported models, in turn, and time them."""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pet_fairseq.devices import usable_cores
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.files import atomic_folder, check_new_folder, read_text, write_json
from pet_fairseq.number_format import format_speed
from pet_fairseq.predict.bad_lines import Bad, BadLines, broken_bytes
from pet_fairseq.predict.batches import MAX_LENGTH, BatchLimit
from pet_fairseq.predict.lines import read_lines

if TYPE_CHECKING:  # not loaded to print help
    from pet_fairseq.predict.speed.detokenise import TextStyle

BATCH = BatchLimit(2_000)  # tokens
BEAM = 5
ROUNDS = 5  # how often translations are timed
AT_ONCE = 100_000  # sentences that are translated before more are read

Translate = Callable[[list[list[str]]], list[str]]


@dataclass(frozen=True)
class InPieces:
    """A text as a model reads and writes it.

    Attributes:
        tokens: a file with one sentence, as tokens, on each line.
        style: of the translations. max_length: of a translation in words; CTranslate2 fails at one
            without a position.
    """

    tokens: Path
    style: "TextStyle"
    max_length: int = MAX_LENGTH


class Sentence(NamedTuple):
    """The tokens of a line, none if it has no translation, and what is wrong with it."""

    tokens: list[str]
    bad: tuple[Bad, ...] = ()


@dataclass(frozen=True)
class Speeds:
    """How fast models translated a text in turn; speeds.json has the same.

    Attributes:
        sentences: those that were translated, which lines without a translation are not.
        seconds: of each round, by model. sentences_per_second: the median, by model.
    """

    engine: str
    beam: int
    threads: int
    sentences: int
    seconds: dict[str, list[float]]
    sentences_per_second: dict[str, float]

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {format_speed(speed)} sentences/s"
            for name, speed in self.sentences_per_second.items()
        )


def speeds_file(folder: Path) -> Path:
    return folder / "speeds.json"


def read_speeds(folder: Path) -> Speeds:
    """Read the speeds in a folder of `translate_exported`.

    Raises:
        UserError: they cannot be read.
    """
    path = speeds_file(folder)
    try:
        return Speeds(**json.loads(read_text(path, "speeds")))
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: holds no speeds; remove {folder} and translate again") from error


class Translated(NamedTuple):
    """What became of a text: the speeds of the models, and the count of bad lines."""

    speeds: Speeds
    bad_lines: BadLines

    def __str__(self) -> str:
        summary = self.bad_lines.summary()
        return str(self.speeds) if summary is None else f"{self.speeds}\n{summary}"


def translate_exported(
    models: Mapping[str, Path],
    tokens: Path,
    style: "TextStyle",
    beam: int,
    rounds: int,
    out: Path,
    threads: int = 0,
    max_length: int = MAX_LENGTH,
    long_texts: str = "cut",
    strict: bool = False,
    others: Mapping[str, InPieces] = MappingProxyType({}),
) -> Translated:
    """Write NAME.txt for each model and speeds.json into a new folder.

    Each line of the input has its line in NAME.txt, an empty one if it has no translation.

    Args:
        models: folders that `pet-fairseq export --to ctranslate2` made, by name.
        tokens, style, max_length: the text, as in `InPieces`.
        rounds: how often each model's translation is timed.
        threads: how many batches are translated at once; 0: one for each core that we may use.
        long_texts, strict: as for `read_sentences`.
        others: the same text, line by line, for the models that have other pieces.
    Raises:
        UserError: CTranslate2 or an input is missing, `out` exists, a number is below 1, or a line
            is refused.
    """
    check_positive(max_length=max_length)
    check_inputs(models, tokens, beam, rounds, out)
    threads = threads or usable_cores()
    usual = InPieces(tokens, style, max_length)
    texts = {name: others.get(name, usual) for name in models}
    loaded = {
        name: load(folder, beam, threads, texts[name].max_length) for name, folder in models.items()
    }
    translators = {name: one.translate for name, one in loaded.items()}
    sentences = zip(
        *(
            read_sentences(texts[name].tokens, one.longest, long_texts, strict)
            for name, one in loaded.items()
        )
    )
    decoders = {name: text.style.decoder() for name, text in texts.items()}
    bad_lines = BadLines()
    translated, seconds = 0, {name: [0.0] * rounds for name in translators}
    with atomic_folder(out) as folder, ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / f"{name}.txt").open("w", encoding="utf-8"))
            for name in translators
        }
        while some := list(itertools.islice(sentences, AT_ONCE)):
            is_asked = [all(sentence.tokens for sentence in line) for line in some]
            lines = list(itertools.compress(some, is_asked))
            asked = {name: [line[i].tokens for line in lines] for i, name in enumerate(models)}
            found, times = take_turns(translators, asked, rounds)
            translated += len(lines)
            for name, file in files.items():
                seconds[name] = [a + b for a, b in zip(seconds[name], times[name])]
                answers = map(decoders[name], found[name])
                file.writelines(f"{next(answers) if each else ''}\n" for each in is_asked)
            for first, *_ in some:
                bad_lines.add(first.bad)
        medians = {name: translated / statistics.median(times) for name, times in seconds.items()}
        speeds = Speeds("CTranslate2", beam, threads, translated, seconds, medians)
        write_json(speeds_file(folder), asdict(speeds))
    return Translated(speeds, bad_lines)


def read_sentences(tokens: Path, longest: int, long_texts: str, strict: bool) -> Iterator[Sentence]:
    """The sentences of a file of tokens, one a line.

    Args:
        longest: the most tokens that the model reads.
        long_texts: what becomes of longer ones: "cut", "skip" or "refuse".
        strict: whether bytes that are not UTF-8 end the run; else they are replaced.
    Raises:
        UserError: a line is refused.
    """
    for line in read_lines(str(tokens)):
        bad = broken_bytes(line, strict)
        words = line.text.split()
        if not words:
            yield Sentence([], (*bad, Bad.EMPTY))
        elif len(words) <= longest:
            yield Sentence(words, bad)
        elif long_texts == "cut":
            yield Sentence(words[:longest], (*bad, Bad.CUT))
        elif long_texts == "skip":
            yield Sentence([], (*bad, Bad.SKIPPED))
        else:
            raise UserError(f"{line.where}: {len(words)} tokens, at most {longest} are taken")


def check_inputs(
    models: Mapping[str, Path], tokens: Path, beam: int, rounds: int, out: Path
) -> None:
    """Raises UserError if an input is missing, `out` exists, or a number is below 1."""
    check_positive(beam=beam, rounds=rounds)
    for name, folder in models.items():
        if not (folder / "model.bin").is_file():
            raise UserError(
                f"--model {name} {folder}: no model for CTranslate2; make one with pet-fairseq "
                "export"
            )
    if not tokens.is_file():
        raise UserError(f"--input {tokens}: no such file")
    if not any(line.text.strip() for line in read_lines(str(tokens))):
        raise UserError(f"--input {tokens}: has no words; give a text")
    check_new_folder(out, "--out")


class Loaded(NamedTuple):
    """A model: what translates sentences into lines of tokens, and the most tokens that it reads.

    Every thread translates batches of its own.
    """

    translate: Translate
    longest: int


def load(folder: Path, beam: int, threads: int, max_length: int = MAX_LENGTH) -> Loaded:
    """Load a model.

    Raises:
        UserError: CTranslate2 is missing.
    """
    from pet_fairseq.predict.ctranslate2 import load_engine, measure_source, translate_tokens

    engine = load_engine(folder, threads=threads)
    options = {"beam_size": beam, "max_decoding_length": max_length}

    def translate(sentences: list[list[str]]) -> list[str]:
        return [best for best, *_ in translate_tokens(engine, sentences, BATCH, **options)]

    return Loaded(translate, measure_source(engine))


def take_turns(
    translators: dict[str, Translate], sentences: dict[str, list[list[str]]], rounds: int
) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
    """Translate in rounds; returns the translations, and the seconds of each round, by model.

    Args:
        sentences: by model, too.

    A first round warms up and is not timed. Every second round has the reverse order, so that no
    model always comes after the same one.
    """
    names = list(translators)
    texts = {name: translators[name](sentences[name]) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds):
        for name in names if round_number % 2 else reversed(names):
            start = time.perf_counter()
            translators[name](sentences[name])
            seconds[name].append(time.perf_counter() - start)
    return texts, seconds
