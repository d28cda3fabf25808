"""What the stages of a recipe of SelfCP have in common: data, settings, folders."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from pet_fairseq.runner.device import CPU, Device
from pet_fairseq.runner.options import Options
from pet_fairseq.runner.stage import Stage
from pet_fairseq.runner.training import BEST


@dataclass(frozen=True)
class Setup:
    """The settings and the folders of one recipe.

    Attributes:
        data: made by pet-fairseq prompts. runs: for all that is made.
        evaluate: the stages that score a row; they write result.json.
        window, ratio: prompt tokens that are read as they are; prompt tokens for a memory token.
        lm: options of the language model's training.
        lm_updates, memory_updates: how many updates train the language model, and the memory.
        own_backbone: a language model to use in place of training one.
        lm_from: a checkpoint from which to start the language model's training.
    """

    data: Path
    runs: Path
    evaluate: "Evaluate"
    window: int
    ratio: int = 12
    lm: Options = ()
    lm_updates: int = 4000
    memory_updates: int = 1000
    device: Device = CPU
    own_backbone: Optional[Path] = None
    lm_from: Optional[Path] = None

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
