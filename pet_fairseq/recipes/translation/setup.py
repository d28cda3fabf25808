"""What the stages of a translation recipe have in common: data, settings, folders, commands."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from pet_fairseq.recipes.translation.sizes import Settings
from pet_fairseq.runner.device import CPU, Device
from pet_fairseq.runner.fairseq_commands import BEST, fairseq_generate, fairseq_validate
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.stage import Word

WITHOUT_SEED = ("teacher", "ensemble")  # rows that exist once, whatever the students' seeds
VALIDATION = ("--max-tokens", "3000", "--num-workers", "0")


@dataclass(frozen=True)
class Setup:
    """A data set, the settings of its models and the folders for them.

    Attributes:
        data: folder with bin/, made by fairseq-preprocess.
        runs: folder with a folder for each run.
        reference: raw target text of the test set.
        text: options of fairseq-generate that make text of a translation's tokens.
        own_teacher: a checkpoint to use in place of training a teacher.
        ensemble: how many teachers the students learn from together; the first is the teacher.
        student_options: more options of the students' trainings, which override all others.
        select: what the best checkpoint of a training is the best in: "loss" or "bleu".
    """

    data: Path
    runs: Path
    source_lang: str
    target_lang: str
    reference: Path
    settings: Settings
    device: Device = CPU
    text: Options = ("--remove-bpe", "--tokenizer", "moses")
    own_teacher: Optional[Path] = None
    ensemble: int = 1
    student_options: Options = ()
    select: str = "loss"

    @property
    def bin(self) -> Path:
        return self.data / "bin"

    @property
    def teacher(self) -> Path:
        return self.own_teacher or self.runs / "teacher" / BEST

    @property
    def teachers(self) -> list[Path]:
        """What the students learn from, the teacher first."""
        others = (f"seed{number}" for number in range(2, self.ensemble + 1))
        return [self.teacher, *(self.runs / "ensemble" / other / BEST for other in others)]

    @property
    def teacher_text_bin(self) -> Path:
        """The binary data whose training set the teachers wrote."""
        return self.runs / "teacher_text/bin"

    @property
    def languages(self) -> Options:
        return ("--source-lang", self.source_lang, "--target-lang", self.target_lang)

    @property
    def selection(self) -> Options:
        """Options of a training that choose its best checkpoint; none by the validation loss.

        BLEU is that of a beam of 5 on text as fairseq-generate writes it.
        """
        if self.select == "loss":
            return ()
        moses = "moses" in self.text
        detokenise = ("moses", "--eval-bleu-detok-args", f'{{"target_lang": "{self.target_lang}"}}')
        return (
            *("--eval-bleu", "--eval-bleu-args", '{"beam": 5, "max_len_a": 1.2, "max_len_b": 10}'),
            *("--eval-bleu-detok", *(detokenise if moses else ("space",))),
            *("--eval-bleu-remove-bpe", "@@ " if moses else "sentencepiece"),
            *("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"),
        )

    def folder(self, row: str, seed: int) -> Path:
        return self.runs / (row if row in WITHOUT_SEED else f"{row}.seed{seed}")


def join_paths(checkpoints: Iterable[Path]) -> str:
    """The checkpoints of an ensemble as one word of a command: a.pt:b.pt."""
    return os.pathsep.join(map(str, checkpoints))


def validate_command(setup: Setup, checkpoint: Path) -> tuple[Word, ...]:
    """The command of fairseq-validate on the setup's validation set."""
    return fairseq_validate(
        setup.device,
        setup.bin,
        checkpoint,
        ("--task", "translation", *setup.languages, *VALIDATION),
    )


def generate_command(
    setup: Setup,
    checkpoints: Iterable[Path],
    beam: int,
    options: Options = (),
    text: Optional[Options] = None,
) -> tuple[Word, ...]:
    """The command of fairseq-generate on the setup's data, by one model or by an ensemble.

    Args:
        options: more options. text: options in place of the setup's `text`.
    """
    return fairseq_generate(
        setup.device,
        setup.bin,
        join_paths(checkpoints),
        (
            *("--beam", str(beam), *setup.languages, *(setup.text if text is None else text)),
            *(*setup.settings.generate, *options),
        ),
    )
