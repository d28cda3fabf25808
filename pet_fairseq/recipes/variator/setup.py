"""What the stages of a recipe of Variator have in common: data, settings, folders."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from pet_fairseq.runner.device import CPU, Device
from pet_fairseq.runner.options import Options
from pet_fairseq.runner.stage import Stage
from pet_fairseq.runner.training import BEST


@dataclass(frozen=True)
class Settings:
    """Options of the trainings; later ones override earlier ones.

    Attributes:
        common: of every training.
        task, raw_task: --task and its options, for the task's data and for raw text.
        arch: the model's --arch and sizes.
        model_raw, model_task: criterion, length and learning rate of the model's pre-training and
            fine-tuning.
        plugins_raw, plugins_task: length and learning rate of the plugins' pre-training and
            adaptation.
        whole_raw, whole_task: the same for competitors whose weights are all trained.
        length: tokens of a sentence, for which the table gives the costs.
        precision: on a GPU, unless the user says otherwise.
        plugin_options: of all plugins, such as --prompt-end.
    """

    common: Options
    task: Options
    raw_task: Options
    arch: Options
    model_raw: Options
    model_task: Options
    plugins_raw: Options
    plugins_task: Options
    whole_raw: Options
    whole_task: Options
    length: int
    precision: str = "fp32"
    plugin_options: Options = ()


@dataclass(frozen=True)
class Setup:
    """The settings and the folders of one recipe.

    Attributes:
        data: the task's binary data.
        raw: binary text for pre-training; if it is None, plugins are only adapted to the task.
        runs: the folder for all runs.
        evaluate: makes the stages that score a row of the table; they write result.json.
        own_backbone, own_pretrained: checkpoints of the model after and before fine-tuning, to use
            in place of training it.
        seed: of every training; None for fairseq's default.
    """

    data: Path
    raw: Optional[Path]
    runs: Path
    settings: Settings
    evaluate: Callable[["Setup", str], list[Stage]]
    device: Device = CPU
    own_backbone: Optional[Path] = None
    own_pretrained: Optional[Path] = None
    seed: Optional[int] = None

    def best(self, row: str) -> Path:
        return self.runs / row / BEST

    @property
    def starts_from_pretrained(self) -> bool:
        return self.raw is not None or self.own_pretrained is not None
