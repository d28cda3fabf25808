"""Measures one run for `frontier.py`: a cell holds its size, BLEU or seconds in one form.

A form is a number of bits a weight, an engine, or a number of threads that the engine is timed on.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Optional

from fairseq import options
from fairseq_cli import generate

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.subsets import load_subset
from pet_fairseq.compress.forms import folder_bytes
from pet_fairseq.devices import usable_cores
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from pet_fairseq.files import read_lines, read_text, write_json
from pet_fairseq.predict.speed.detokenise import find_style
from pet_fairseq.predict.speed.translate import load, take_turns
from pet_fairseq.quantisation.packing import MODEL, pack_model, unpack_model
from pet_fairseq.results.bleu import cached_bleu
from pet_fairseq.results.fairseq_output import lines_in_order
from pet_fairseq.results.report.checkpoint import measure_sizes
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.runner.record import digest

BITS = (32, 8, 4)
ENGINE = "CTranslate2 int8"
HALF = "CTranslate2 int8_float16"  # what is not int8 is in half precision; only its size is taken

Cell = dict[str, Any]  # `refused` says why it has no figures


@dataclass(frozen=True)
class Choices:
    """What the user chose.

    Attributes:
        data: the folder from fairseq-preprocess.
        reference: raw target text of the test set, None for what `find_reference` finds.
        remove_bpe, tokenizer: as for `pet-fairseq compress`.
        threads: numbers of them to time with; rounds: how often.
    """

    data: Path
    reference: Optional[Path]
    remove_bpe: Optional[str]
    tokenizer: Optional[str]
    beam: int
    threads: Sequence[int]
    rounds: int


def stored_in(bits: int) -> str:
    """The name of the form with this number of bits a weight."""
    return f"{bits} bits"


def timed_on(threads: int) -> str:
    """The name of the form of an engine, timed with this number of threads."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


def find_reference(data: Path, lang: str) -> Path:
    """Raw text of the test set beside the folder `data`, in lower case if models learn that.

    Raises:
        UserError: the data set has pronunciations, for which there is no BLEU.
    """
    pronunciations = data.parent / "raw" / "test.pronunciations"
    if pronunciations.is_file():
        raise UserError(
            f"--data {data}: is scored by word errors, not by BLEU; use pet-fairseq report RUNS "
            f"--reference {pronunciations} --score wer"
        )
    lower = data.parent / "lower" / f"test.{lang}"
    return lower if lower.is_file() else data.parent / "raw" / f"test.{lang}"


class Bench:
    """The test set, the teacher that students are timed beside, and a folder for what is made."""

    def __init__(self, choices: Choices, teacher: Path, work: Path):
        """Read the data; raises UserError if there is none for this teacher."""
        self.choices, self.teacher, self.work = choices, teacher, work
        self.data = str(choices.data)
        _, task = load_transformer(str(teacher), "teacher", self.data)
        words, test = task.source_dictionary, load_subset(task, "test")
        self.sentences = [words.string(tokens).split() for tokens in test.src]
        trained = load_checkpoint(str(teacher), "teacher")["cfg"]
        self.style = find_style(trained, task, choices.remove_bpe, choices.tokenizer)
        self.reference = choices.reference or find_reference(choices.data, task.cfg.target_lang)
        self.scorer = cached_bleu(self._read_reference())
        self.exported = cache(self._export)

    def _read_reference(self) -> list[str]:
        if not self.reference.is_file():
            raise UserError(f"--reference {self.reference}: no such file; give the raw target text")
        lines = read_lines(self.reference, "--reference")
        if len(lines) != len(self.sentences):
            raise UserError(
                f"--reference {self.reference}: {len(lines)} lines for a test set of "
                f"{len(self.sentences)} sentences; give its text"
            )
        return lines

    def about(self, checkpoint: Path) -> dict[str, Any]:
        """What the cells were measured on: if that has changed, they are measured anew."""
        files = {"checkpoint": checkpoint, "teacher": self.teacher}
        files |= {"data": self.choices.data, "reference": self.reference}
        return {"beam": self.choices.beam, **{name: digest(path) for name, path in files.items()}}

    def forms(self, timed: bool) -> dict[str, Callable[[Path], Cell]]:
        """How a checkpoint's cell is measured, by form; speeds only if they are wanted."""
        forms: dict[str, Callable[[Path], Cell]] = {
            stored_in(bits): partial(self.store, bits=bits) for bits in BITS
        }
        forms |= {
            ENGINE: self.run_in_engine,
            HALF: lambda path: {"bytes": folder_bytes(self.exported(path, "int8_float16"))},
        }
        for number in self.choices.threads if timed else ():
            forms[timed_on(number)] = partial(self.time, threads=number)
        return forms

    def store(self, checkpoint: Path, bits: int) -> Cell:
        """Bytes of a model rounded to `bits` bits, with its dictionaries, and its BLEU."""
        if bits == 32:
            words = sum(path.stat().st_size for path in self.choices.data.glob("dict.*.txt"))
            size = measure_sizes(checkpoint)[0].checkpoint_bytes
            assert size is not None, "a file's bytes are known"
            return {"bytes": size + words, "bleu": self.generated_bleu(checkpoint)}
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            packed, wide = Path(folder, "packed"), Path(folder, "wide")
            pack_model(str(checkpoint), self.data, bits, packed)
            unpack_model(str(packed), wide)
            bleu = self.generated_bleu(wide / MODEL)
            return {"bytes": packed.stat().st_size, "bleu": bleu}

    def generated_bleu(self, checkpoint: Path) -> float:
        """BLEU of fairseq-generate's translations of the test set."""
        style = self.style
        words = [
            *(self.data, "--path", str(checkpoint), "--task", "pet_translation", "--cpu"),
            *("--source-lang", style.source_lang, "--target-lang", style.target_lang),
            *(*style.options, "--beam", str(self.choices.beam), "--max-tokens", "3000"),
            *("--required-batch-size-multiple", "1", "--num-workers", "0", "--log-format", "none"),
        ]
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            parser = options.get_generation_parser()
            words += ["--results-path", folder]
            generate.main(options.parse_args_and_arch(parser, words))
            output = Path(folder, "generate-test.txt")
            return self.bleu(lines_in_order(read_text(output, "output"), "D", output))

    def bleu(self, lines: list[str]) -> float:
        return self.scorer.corpus_score(lines, None).score

    def _export(self, checkpoint: Path, quantization: str = "int8") -> Path:
        """Export a checkpoint; returns the folder."""
        out = Path(tempfile.mkdtemp(dir=self.work), quantization)
        export(str(checkpoint), self.data, "ctranslate2", out, precision=quantization)
        return out

    def run_in_engine(self, checkpoint: Path) -> Cell:
        """Bytes and BLEU in CTranslate2."""
        folder = self.exported(checkpoint)
        translate = load(folder, self.choices.beam, usable_cores()).translate
        lines = map(self.style.decoder(), translate(self.sentences))
        return {"bytes": folder_bytes(folder), "bleu": self.bleu(list(lines))}

    def time(self, checkpoint: Path, threads: int) -> Cell:
        """Seconds that the test set takes in CTranslate2 by round, and the teacher's, in turn."""
        models = {"own": checkpoint, "teacher": self.teacher}
        if checkpoint == self.teacher:
            del models["own"]
        translators = {
            name: load(self.exported(path), self.choices.beam, threads).translate
            for name, path in models.items()
        }
        sentences = dict.fromkeys(translators, self.sentences)
        _, seconds = take_turns(translators, sentences, self.choices.rounds)
        return {
            "sentences": len(self.sentences),
            "seconds": seconds.get("own", seconds["teacher"]),
            "teacher_seconds": seconds["teacher"],
        }


def measure(bench: Bench, run: Path, timed: bool, kept: Path) -> dict[str, Cell]:
    """The cells of a run by form: those in the file `kept`; what it lacks is measured now.

    What was refused is tried again: a package that was missing may be there.
    """
    about = bench.about(run / BEST)
    content = json.loads(read_text(kept, "cells")) if kept.is_file() else {}
    if content.get("about") != about:
        content = {"about": about, "cells": {}}
    cells: dict[str, Cell] = content["cells"]
    for form, measure_form in bench.forms(timed).items():
        if form in cells and "refused" not in cells[form]:
            continue
        print(f"{run.name}: {form}", flush=True)
        try:
            cells[form] = measure_form(run / BEST)
        except UserError as error:  # such as a model that an engine cannot hold
            cells[form] = {"refused": str(error)}
        write_json(kept, content)
    return cells
