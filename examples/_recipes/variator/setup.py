"""What the stages of a recipe of Variator have in common: data, settings, folders."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text
from pet_fairseq.recipes.settings import read_settings
from pet_fairseq.runner.device import CPU, Device
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.runner.fairseq_options import Options, rise_and_fall, words
from pet_fairseq.runner.stage import Stage


@dataclass(frozen=True)
class Schedule:
    """The length of a training: the learning rate rises for a tenth of it, then falls to 0.

    Attributes:
        max_tokens: of a batch. lr: the highest learning rate. options: more of fairseq-train's.
    """

    max_tokens: int
    lr: str
    updates: int
    options: Options = ()

    def words(self) -> Options:
        """The options of fairseq-train."""
        batch = ("--max-tokens", str(self.max_tokens), "--lr", self.lr)
        return (*batch, *rise_and_fall(self.updates), *self.options)


@dataclass(frozen=True)
class Settings:
    """Options of the trainings; later ones override earlier ones.

    Attributes:
        common: of every training.
        task, raw_task: --task and its options, for the task's data and for raw text.
        arch: the model's --arch and sizes.
        task_loss, raw_loss: the model's criterion with its options, on the task and on raw text.
        schedules: `model_raw`, `model_task`: of the model's pre-training and fine-tuning;
            `plugins_raw`, `plugins_task`: of the plugins' pre-training and adaptation; `whole_raw`,
            `whole_task`: the same for competitors whose weights are all trained.
        length: tokens of a sentence, for which the table gives the costs.
        generate: of fairseq-generate, where generated text is scored.
        precision: on a GPU, unless the user says otherwise.
        plugin_options: of all plugins, such as --prompt-end.
    """

    common: Options
    task: Options
    schedules: Mapping[str, Schedule]
    length: int
    raw_task: Options = ()
    arch: Options = ()
    task_loss: Options = ()
    raw_loss: Options = ()
    generate: Options = ()
    precision: str = "fp32"
    plugin_options: Options = ()

    def schedule(self, name: str) -> Options:
        return self.schedules[name].words()

    def changed(self, **schedules: Mapping[str, Any]) -> "Settings":
        """The settings with other fields in some schedules."""
        new = {name: replace(self.schedules[name], **values) for name, values in schedules.items()}
        return replace(self, schedules={**self.schedules, **new})


SETTINGS = read_settings(Path(__file__).with_name("settings.yaml"), Settings)


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
        first_steps: the runs of another task, whose first steps are used in place of training on
            raw text; what they trained has to be for the same model before fine-tuning.
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
    first_steps: Optional[Path] = None
    seed: Optional[int] = None

    def best(self, row: str) -> Path:
        return self.runs / row / BEST

    @property
    def starts_from_pretrained(self) -> bool:
        return self.raw is not None or self.own_pretrained is not None

    @property
    def has_first_steps(self) -> bool:
        """Whether plugins and competitors are trained on raw text before the task."""
        return self.raw is not None or self.first_steps is not None


def read_model_options(folder: Path, option: str) -> Options:
    """The options of fairseq-train for a model that pet-fairseq import-hf wrote.

    Raises:
        UserError: there are none in the folder.
    """
    path = folder / "model_options"
    if not path.is_file():
        raise UserError(f"{option} {path}: no such file; make it by pet-fairseq import-hf")
    return words(read_text(path, option))
