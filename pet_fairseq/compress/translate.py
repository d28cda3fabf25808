"""`pet-fairseq translate-exported`: translate a text by exported models, in turn, and time them."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pet_fairseq.compress.methods import MAX_LENGTH
from pet_fairseq.compress.text import TextStyle, write_lines
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.files import read_lines, whole_folder, write_json
from pet_fairseq.rounding import format_speed

BATCH_TOKENS = 2_000
SPEEDS = "speeds.json"

Translate = Callable[[list[list[str]]], list[str]]


def translate_exported(
    models: Sequence[tuple[str, Path]],
    tokens: Path,
    style: TextStyle,
    beam: int,
    rounds: int,
    threads: int,
    out: Path,
    max_length: int = MAX_LENGTH,
) -> str:
    """Write NAME.txt for each model and speeds.json into a new folder; returns a line per model.

    Args:
        models: names, and folders that `pet-fairseq export --to ctranslate2` made.
        tokens: a file with one sentence, as tokens, on each line.
        rounds: how often each model's translation is timed.
        threads: how many batches are translated at once; 0: one for each core that we may use.
        max_length: of a translation in words; CTranslate2 fails at one without a position.
    Raises:
        UserError: CTranslate2 or an input is missing, `out` exists, or a number is below 1.
    """
    check_positive(max_length=max_length)
    check_inputs(models, tokens, beam, rounds, out)
    threads = threads or len(os.sched_getaffinity(0))
    sentences = [line.split() for line in read_lines(tokens, "--input")]
    translators = {name: load(folder, beam, threads, max_length) for name, folder in models}
    texts, seconds = take_turns(translators, sentences, rounds)
    decode = style.decoder()
    speeds = {
        "engine": "CTranslate2",
        "beam": beam,
        "threads": threads,
        "sentences": len(sentences),
        "seconds": seconds,
        "sentences_per_second": {
            name: len(sentences) / statistics.median(times) for name, times in seconds.items()
        },
    }
    with whole_folder(out) as folder:
        for name, lines in texts.items():
            write_lines(folder / f"{name}.txt", map(decode, lines))
        write_json(folder / SPEEDS, speeds)
    return "\n".join(
        f"{name}: {format_speed(speed)} sentences/s"
        for name, speed in speeds["sentences_per_second"].items()
    )


def check_inputs(
    models: Sequence[tuple[str, Path]], tokens: Path, beam: int, rounds: int, out: Path
) -> None:
    """Raises UserError if an input is missing, `out` exists, or a number is below 1."""
    check_positive(beam=beam, rounds=rounds)
    for name, folder in models:
        if not (folder / "model.bin").is_file():
            raise UserError(
                f"--model {name} {folder}: no model for CTranslate2; make one with pet-fairseq "
                "export"
            )
    if not tokens.is_file():
        raise UserError(f"--input {tokens}: no such file")
    if not any(line.strip() for line in read_lines(tokens, "--input")):
        raise UserError(f"--input {tokens}: has no words; give a text")
    if out.exists():
        raise UserError(f"--out {out}: exists; give the name of a new folder")


def load(folder: Path, beam: int, threads: int, max_length: int = MAX_LENGTH) -> Translate:
    """Load a model; returns a function that translates sentences into lines of tokens.

    Every thread translates batches of its own.

    Raises:
        UserError: CTranslate2 is missing.
    """
    try:
        import ctranslate2
    except ModuleNotFoundError as error:
        raise UserError("ctranslate2 is missing; pip install 'pet-fairseq[ctranslate2]'") from error
    translator = ctranslate2.Translator(
        str(folder), device="cpu", inter_threads=threads, intra_threads=1
    )

    def translate(sentences: list[list[str]]) -> list[str]:
        results = translator.translate_batch(
            sentences,
            beam_size=beam,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            max_decoding_length=max_length,
        )
        return [" ".join(result.hypotheses[0]) for result in results]

    return translate


def take_turns(
    translators: dict[str, Translate], sentences: list[list[str]], rounds: int
) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
    """Translate in rounds; returns the translations, and the seconds of each round, by model.

    A first round warms up and is not timed. Every second round has the reverse order, so that no
    model always comes after the same one.
    """
    names = list(translators)
    texts = {name: translators[name](sentences) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds):
        for name in names if round_number % 2 else reversed(names):
            start = time.perf_counter()
            translators[name](sentences)
            seconds[name].append(time.perf_counter() - start)
    return texts, seconds
