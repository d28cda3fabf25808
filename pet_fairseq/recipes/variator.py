"""Recipes of Variator: a model, plugins for it and their competitors.

ROWS has the rows of the table in its order: adding one is one entry.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.device import CPU, Device
from pet_fairseq.recipes.job import merge
from pet_fairseq.recipes.sizes import Options
from pet_fairseq.recipes.stage import Kind, Stage, last_wins
from pet_fairseq.recipes.training import BEST, fairseq_generate, fairseq_train


@dataclass(frozen=True)
class Settings:
    """Options of the trainings; what comes later wins.

    Attributes:
        common: of every training.
        task, raw_task: --task and its options for the task's data and for raw text.
        arch: the model's --arch and sizes.
        model_raw, model_task: criterion, length and learning rate of the model's pre-training and
            fine-tuning.
        plugins_raw, plugins_task: length and learning rate of the plugins' pre-training and
            adaptation.
        whole_task: the same for competitors whose weights are all trained.
        length: tokens of a sentence, for the costs in the table.
        precision: on a GPU.
    """

    common: Options
    task: Options
    raw_task: Options
    arch: Options
    model_raw: Options
    model_task: Options
    plugins_raw: Options
    plugins_task: Options
    whole_task: Options
    length: int
    precision: str = "fp32"


@dataclass(frozen=True)
class Plan:
    """The settings and the folders of one recipe.

    Attributes:
        data: the task's binary data; raw: binary text for pre-training, without which plugins are
            only adapted.
        evaluate: the stages that score a row of the table; they write result.json.
        own_backbone, own_pretrained: checkpoints to use in place of training them, fine-tuned and
            before that.
    """

    data: Path
    raw: Optional[Path]
    runs: Path
    settings: Settings
    evaluate: Callable[["Plan", str], list[Stage]]
    device: Device = CPU
    own_backbone: Optional[Path] = None
    own_pretrained: Optional[Path] = None

    def best(self, row: str) -> Path:
        return self.runs / row / BEST

    @property
    def starts_from_pretrained(self) -> bool:
        return self.raw is not None or self.own_pretrained is not None


Builder = Callable[[Plan, str], list[Stage]]


@dataclass(frozen=True)
class Row:
    """A row of the table; `needs_raw`: it makes no sense without pre-training."""

    name: str
    build: Builder
    default: bool = field(default=False, kw_only=True)
    needs_raw: bool = field(default=False, kw_only=True)


def train(plan: Plan, folder: str, row: str, data: Path, options: Options, *inputs: Path) -> Stage:
    """fairseq-train into a folder of `runs`."""
    options = last_wins((*plan.settings.common, *options))
    return Stage(
        folder,
        (row,),
        command=fairseq_train(plan.device, data, plan.runs / folder, options),
        product=plan.best(folder),
        inputs=(data, *inputs),
        kind=Kind.TRAINING,
    )


def use_checkpoint(plan: Plan, folder: str, row: str, checkpoint: Path) -> Stage:
    """A given checkpoint in place of a training."""
    product = plan.best(folder)
    command = ("ln", "-sf", str(checkpoint.resolve()), str(product))
    return Stage(folder, (row,), command, product, inputs=(checkpoint,))


def pretrained(plan: Plan) -> list[Stage]:
    """The model before fine-tuning, trained on raw text or given; nothing without both."""
    if plan.own_pretrained is not None:
        return [use_checkpoint(plan, "pretrained", "pretrained", plan.own_pretrained)]
    if plan.raw is None:
        return []
    settings = plan.settings
    options = (*settings.raw_task, *settings.arch, *settings.model_raw)
    return [train(plan, "pretrained", "pretrained", plan.raw, options)]


def backbone(plan: Plan, row: str) -> list[Stage]:
    """The fine-tuned model."""
    if plan.own_backbone is not None:
        return [use_checkpoint(plan, row, row, plan.own_backbone)]
    settings = plan.settings
    options = (*settings.task, *settings.arch, *settings.model_task)
    if not plan.starts_from_pretrained:
        return [train(plan, row, row, plan.data, options)]
    start = plan.best("pretrained")
    options += ("--finetune-from-model", str(start))
    return [train(plan, row, row, plan.data, options, start)]


def _ratio(ratio: int) -> Options:
    return ("--compression-ratio", str(ratio))


def plugins(kind: str, options: Options, adaptation: Options = ()) -> Builder:
    """Plugins pre-trained on raw text, if there is any, moved to the fine-tuned model and adapted.

    Args:
        kind: rows of one kind share the first step. options: of the plugins, in both steps.
        adaptation: more options of the second step.
    """

    def build(plan: Plan, row: str) -> list[Stage]:
        if plan.raw is None:
            return [adapt(plan, row, (*options, *adaptation))]
        moved = plan.runs / f"step1.{kind}" / "moved.pt"
        return [
            pretrain(plan, kind, row, options),
            move(plan, f"step1.{kind}/moved", kind, row, moved),
            adapt(plan, row, (*options, *adaptation), moved),
        ]

    return build


def pretrain(plan: Plan, kind: str, row: str, options: Options) -> Stage:
    """Plugins for the model before fine-tuning, on raw text."""
    settings = plan.settings
    return train(
        *(plan, f"step1.{kind}", row, plan.raw),
        (
            *(*settings.raw_task, "--arch", "variator"),
            *("--backbone-path", str(plan.best("pretrained"))),
            *("--criterion", "variator_distillation", *options, *settings.plugins_raw),
        ),
        plan.best("pretrained"),
    )


def move(plan: Plan, name: str, kind: str, row: str, out: Path) -> Stage:
    """Pre-trained plugins as plugins of the fine-tuned model."""
    plugins_path = plan.best(f"step1.{kind}")
    return Stage(
        name,
        (row,),
        command=(
            *("pet-fairseq", "move-plugins", str(plugins_path)),
            *("--backbone-path", str(plan.best("backbone")), "--out", str(out)),
        ),
        product=out,
        inputs=(plugins_path, plan.best("backbone")),
    )


def adapt(plan: Plan, row: str, options: Options, start: Optional[Path] = None) -> Stage:
    """Plugins for the fine-tuned model, on the task."""
    settings = plan.settings
    starts = () if start is None else (start,)
    if start is not None:
        options += ("--finetune-from-model", str(start))
    return train(
        *(plan, row, row, plan.data),
        (
            *(*settings.task, "--arch", "variator", "--backbone-path", str(plan.best("backbone"))),
            *("--criterion", "variator_distillation", *settings.plugins_task, *options),
        ),
        *(plan.best("backbone"), *starts),
    )


def unadapted(plan: Plan, row: str) -> list[Stage]:
    """Plugins with their first step only."""
    first = pretrain(plan, "k4", row, _ratio(4))
    return [first, move(plan, row, "k4", row, plan.best(row))]


def untrained(plan: Plan, row: str) -> list[Stage]:
    """Mean pooling and copies: nothing to train."""
    out = plan.best(row)
    return [
        Stage(
            row,
            (row,),
            command=(
                *("pet-fairseq", "new-plugins", *_ratio(4)),
                *("--compression", "mean", "--decompression", "copy"),
                *("--backbone-path", str(plan.best("backbone")), "--out", str(out)),
            ),
            product=out,
            inputs=(plan.best("backbone"),),
        )
    ]


def competitor(plan: Plan, row: str) -> list[Stage]:
    """A model that begins as the backbone and trains all its weights; its --arch is the row."""
    settings = plan.settings
    return [
        train(
            *(plan, row, row, plan.data),
            (
                *(*settings.task, "--arch", row, *_ratio(4)),
                *("--backbone-path", str(plan.best("backbone"))),
                *("--criterion", "variator_distillation", *settings.whole_task),
            ),
            plan.best("backbone"),
        )
    ]


ROWS = (
    Row("backbone", backbone, default=True),
    Row("k2", plugins("k2", _ratio(2)), default=True),
    Row("k4", plugins("k4", _ratio(4)), default=True),
    Row("k8", plugins("k8", _ratio(8)), default=True),
    Row("k16", plugins("k16", _ratio(16)), default=True),
    Row("k32", plugins("k32", _ratio(32)), default=True),
    Row("mean_copy", untrained),
    Row("mean", plugins("mean", (*_ratio(4), "--compression", "mean"))),
    Row("copy", plugins("copy", (*_ratio(4), "--decompression", "copy"))),
    Row("no_pretraining", lambda plan, row: [adapt(plan, row, _ratio(4))]),
    Row("no_adaptation", unadapted, needs_raw=True),
    Row("lambda01", plugins("k4", _ratio(4), ("--task-loss-weight", "0.1"))),
    Row("lambda05", plugins("k4", _ratio(4), ("--task-loss-weight", "0.5"))),
    Row("attention", plugins("attention", (*_ratio(4), "--compression-site", "attention"))),
    Row(
        "attention_kv", plugins("attention_kv", (*_ratio(4), "--compression-site", "attention-kv"))
    ),
    Row("token_pruning", competitor),
    Row("narrow_ffn", competitor),
)
BY_NAME = {row.name: row for row in ROWS}
DEFAULT = tuple(row.name for row in ROWS if row.default)


def build_stages(plan: Plan, names: tuple[str, ...]) -> list[Stage]:
    """All stages of some rows, and the table of what is there.

    Raises:
        UserError: a row that does not exist, or one that needs raw text where there is none.
    """
    for name in names:
        if name not in BY_NAME:
            raise UserError(
                f"--rows {name}: there is no such row; give some of {', '.join(BY_NAME)}"
            )
        if BY_NAME[name].needs_raw and plan.raw is None:
            raise UserError(
                f"--rows {name}: needs pre-training on raw text; prepare the data with RAW_TEXT"
            )
    wanted = {"backbone", *names}  # which the table compares the others to
    rows = [row for row in ROWS if row.name in wanted]
    stages = pretrained(plan)
    for row in rows:
        stages += row.build(plan, row.name)
    for row in rows:
        stages += plan.evaluate(plan, row.name)
    return [*merge(stages), table(plan)]


def table(plan: Plan) -> Stage:
    """The comparison of every row that has a result."""
    return Stage(
        "table",
        ("table",),
        command=(
            *("pet-fairseq", "plugins", str(plan.runs)),
            *("--length", str(plan.settings.length)),
        ),
        product=plan.runs / "plugins.md",
        always=True,
        texts=((plan.runs / "order.txt", "\n".join(BY_NAME)),),
    )


# --- how rows are scored --------------------------------------------------------------------------


def result_stage(plan: Plan, row: str, command: tuple[str, ...], *inputs: Path) -> Stage:
    """A command that writes result.json with --out."""
    out = plan.runs / row / "result.json"
    command = ("pet-fairseq", "score", *command, "--out", str(out))
    return Stage(f"{row}/result", ("evaluate",), command, out, inputs)


def by_classes(plan: Plan, row: str) -> list[Stage]:
    """Accuracy of a model that classifies."""
    best = plan.best(row)
    command = ("classes", str(best), str(plan.data), "--device", plan.device.name)
    return [result_stage(plan, row, command, best, plan.data, plan.best("backbone"))]


def by_generation(
    score: tuple[str, ...], truth: Path, options: Options
) -> Callable[[Plan, str], list[Stage]]:
    """What the model generates for the test set, scored against the truth.

    Args:
        score: `bleu`, `accuracy` or `squad`.
    """

    def stages(plan: Plan, row: str) -> list[Stage]:
        best, output = plan.best(row), plan.runs / row / "generate.txt"
        generate = Stage(
            f"{row}/generate",
            ("evaluate",),
            command=fairseq_generate(plan.device, plan.data, best, options),
            product=output,
            inputs=(plan.data, best, plan.best("backbone")),
            kind=Kind.STDOUT,
        )
        command = (*score, str(output), str(truth))
        return [generate, result_stage(plan, row, command, output, truth)]

    return stages
