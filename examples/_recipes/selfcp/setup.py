"""What the stages of a recipe of SelfCP have in common: data, settings, folders."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from pet_fairseq.recipes.settings import read_settings
from pet_fairseq.runner.device import CPU, Device
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.stage import Stage


@dataclass(frozen=True)
class Settings:
    """How the models of a data set are made and trained.

    Attributes:
        about: one line for the list of recipes.
        around_a_model: options of all trainings.
        arch, lm: the language model's, and of its training. more_lm: options that override `lm`.
        memory: options of the memory's training.
        lm_updates, memory_updates: how many updates train the language model, and the memory.
        window: tokens of a prompt that are read as they are.
        ratio: prompt tokens for a memory token.
        icae_rank, autocompressor_rank: of the compressor's updates in these rows.
        candidates: the possible responses, to be scored `by_choice`; without them, `by_rouge`.
        by_loss: whether the right responses' loss is the score, and nothing is generated.
        beam, max_len: of generated responses.
        full: whether no prompt is longer than the model's positions, so that `full` is a default
            row.
    """

    about: str
    around_a_model: Options
    arch: Options
    lm: Options
    memory: Options
    lm_updates: int
    memory_updates: int
    window: int
    ratio: int
    icae_rank: int
    autocompressor_rank: int
    beam: int
    max_len: int
    candidates: Options = ()
    more_lm: Options = ()
    full: bool = False
    by_loss: bool = False


DATA_SETS = read_settings(Path(__file__).with_name("settings.yaml"), Settings)
del DATA_SETS["usual"]  # on which the others are based


@dataclass(frozen=True)
class Setup:
    """The settings and the folders of one recipe.

    Attributes:
        data: made by pet-fairseq prompts. runs: for all that is made.
        evaluate: the stages that score a row; they write result.json.
        own_backbone: a language model to use in place of training one.
        lm_from: a checkpoint from which to start the language model's training.
        memory_options: more options of the memory's trainings, which override all others.
    """

    data: Path
    runs: Path
    settings: Settings
    evaluate: "Evaluate"
    device: Device = CPU
    own_backbone: Optional[Path] = None
    lm_from: Optional[Path] = None
    memory_options: Options = ()

    @property
    def backbone(self) -> Path:
        return self.runs / "backbone" / BEST


@dataclass(frozen=True)
class Reading:
    """A row for one seed: how prompts are read, and by which checkpoint."""

    row: str
    strategy: str
    ratio: int
    checkpoint: Path
    folder: Path


Evaluate = Callable[[Setup, Reading], list[Stage]]
