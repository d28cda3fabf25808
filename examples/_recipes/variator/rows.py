"""Recipes of Variator: a model, plugins for it and their competitors.

ROWS has the rows of the table in its order; a new one needs one entry.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.arguments import unknown_row
from pet_fairseq.runner.fairseq_commands import BEST, fairseq_train, use_checkpoint
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.pipeline import merge
from pet_fairseq.runner.stage import PRODUCT, Kind, Stage, drop_overridden

from .setup import Setup

Builder = Callable[[Setup, str], list[Stage]]


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        build: makes its stages.
        default: whether it is trained if the user names no rows.
        needs_raw: whether it makes no sense without pre-training on raw text.
    """

    name: str
    build: Builder
    default: bool = field(default=False, kw_only=True)
    needs_raw: bool = field(default=False, kw_only=True)


def train(
    setup: Setup, folder: str, row: str, data: Path, options: Options, *inputs: Path
) -> Stage:
    """The stage of a fairseq-train into a folder of `runs`.

    Args:
        inputs: files that it reads beside the data.
    """
    seed = () if setup.seed is None else ("--seed", str(setup.seed))
    options = drop_overridden((*setup.settings.common, *options, *seed))
    return Stage(
        folder,
        (row,),
        command=fairseq_train(setup.device, data, setup.runs / folder, options),
        product=setup.best(folder),
        inputs=(data, *inputs),
        kind=Kind.TRAINING,
    )


def pretrained(setup: Setup) -> list[Stage]:
    """The model before fine-tuning: the user's, or trained on raw text if there is any."""
    if setup.own_pretrained is not None:
        return [
            use_checkpoint(
                "pretrained",
                "pretrained",
                setup.own_pretrained,
                setup.best("pretrained"),
                setup.runs,
            )
        ]
    if setup.raw is None:
        return []
    settings = setup.settings
    model = (*settings.arch, *settings.raw_loss, *settings.schedule("model_raw"))
    options = (*settings.raw_task, *model)
    return [train(setup, "pretrained", "pretrained", setup.raw, options)]


def backbone(setup: Setup, row: str) -> list[Stage]:
    """The fine-tuned model: the user's, or trained."""
    if setup.own_backbone is not None:
        return [use_checkpoint(row, row, setup.own_backbone, setup.best(row), setup.runs)]
    settings = setup.settings
    model = (*settings.arch, *settings.task_loss, *settings.schedule("model_task"))
    options: Options = (*settings.task, *model)
    if not setup.starts_from_pretrained:
        return [train(setup, row, row, setup.data, options)]
    start = setup.best("pretrained")
    options += ("--finetune-from-model", str(start))
    return [train(setup, row, row, setup.data, options, start)]


def _ratio(ratio: int) -> Options:
    return ("--compression-ratio", str(ratio))


def plugins(kind: str, options: Options, adaptation: Options = ()) -> Builder:
    """Plugins pre-trained on raw text, if there is any, moved to the fine-tuned model and adapted.

    Args:
        kind: names the first step, which rows of the same kind share.
        options: of the plugins, in both steps. adaptation: more options of the second step.
    """

    def build(setup: Setup, row: str) -> list[Stage]:
        if not setup.has_first_steps:
            return [adapt(setup, row, (*options, *adaptation))]
        moved = setup.runs / f"step1.{kind}" / "moved.pt"
        return [
            pretrain(setup, kind, row, options),
            move(setup, f"step1.{kind}/moved", kind, row, moved),
            adapt(setup, row, (*options, *adaptation), moved),
        ]

    return build


def pretrain(setup: Setup, kind: str, row: str, options: Options) -> Stage:
    """Train plugins for the model before fine-tuning, on raw text."""
    settings = setup.settings
    options = (*settings.plugin_options, *options, *settings.schedule("plugins_raw"))
    return distil_raw(setup, kind, row, "variator", options)


def distil_raw(setup: Setup, kind: str, row: str, arch: str, options: Options) -> Stage:
    """Distil the model before fine-tuning into a cheaper form of it, on raw text.

    With `first_steps` it is a link to what another task's runs have.
    """
    folder = f"step1.{kind}"
    if setup.first_steps is not None:
        theirs = setup.first_steps / folder / BEST
        return use_checkpoint(folder, row, theirs, setup.best(folder), setup.runs)
    assert setup.raw is not None, "rows that need raw text are refused without it"
    return train(
        setup,
        folder,
        row,
        setup.raw,
        (
            *(*setup.settings.raw_task, "--arch", arch),
            *("--backbone-path", str(setup.best("pretrained"))),
            *("--criterion", "variator_distillation", *options),
        ),
        setup.best("pretrained"),
    )


def move(setup: Setup, name: str, kind: str, row: str, out: Path) -> Stage:
    """Make pre-trained plugins into plugins of the fine-tuned model."""
    plugins_path = setup.best(f"step1.{kind}")
    return Stage(
        name,
        (row,),
        command=(
            *("pet-fairseq", "move-plugins", str(plugins_path)),
            *("--backbone-path", str(setup.best("backbone")), "--out", PRODUCT),
        ),
        product=out,
        inputs=(plugins_path, setup.best("backbone")),
    )


def adapt(setup: Setup, row: str, options: Options, start: Optional[Path] = None) -> Stage:
    """Train plugins for the fine-tuned model, on the task.

    Args:
        start: a file of plugins to start from.
    """
    settings = setup.settings
    starts = () if start is None else (start,)
    if start is not None:
        options += ("--finetune-from-model", str(start))
    return train(
        setup,
        row,
        row,
        setup.data,
        (
            *(*settings.task, "--arch", "variator", "--backbone-path", str(setup.best("backbone"))),
            *settings.plugin_options,
            *("--criterion", "variator_distillation", *settings.schedule("plugins_task"), *options),
        ),
        setup.best("backbone"),
        *starts,
    )


def unadapted(setup: Setup, row: str) -> list[Stage]:
    """Plugins that are pre-trained but not adapted to the task."""
    first = pretrain(setup, "k4", row, _ratio(4))
    return [first, move(setup, row, "k4", row, setup.best(row))]


def untrained(setup: Setup, row: str) -> list[Stage]:
    """Plugins without parameters, by mean pooling and copying."""
    return [
        Stage(
            row,
            (row,),
            command=(
                *("pet-fairseq", "new-plugins", str(setup.best("backbone")), *_ratio(4)),
                *("--compression", "mean", "--decompression", "copy"),
                *setup.settings.plugin_options,
                *("--out", PRODUCT),
            ),
            product=setup.best(row),
            inputs=(setup.best("backbone"),),
            renamed=(("--backbone-path", ""),),
        )
    ]


def competitor(arch: str, options: Options) -> Builder:
    """A cheaper form of the backbone, all of whose weights are trained, on the task only."""

    def build(setup: Setup, row: str) -> list[Stage]:
        return [distil_task(setup, row, arch, options)]

    return build


def pretrained_competitor(arch: str, options: Options) -> Builder:
    """A competitor that is first distilled on raw text, as long as plugins are (section A.2)."""

    def build(setup: Setup, row: str) -> list[Stage]:
        if not setup.has_first_steps:
            return [distil_task(setup, row, arch, options)]
        on_raw = (*options, *setup.settings.schedule("whole_raw"))
        first = distil_raw(setup, row, row, arch, on_raw)
        return [first, distil_task(setup, row, arch, options, first.product)]

    return build


def distil_task(
    setup: Setup, row: str, arch: str, options: Options, start: Optional[Path] = None
) -> Stage:
    """Distil the fine-tuned model into a cheaper form of it, on the task.

    Args:
        start: a checkpoint to start from in place of the backbone's weights.
    """
    settings = setup.settings
    starts = () if start is None else (start,)
    more = () if start is None else ("--finetune-from-model", str(start))
    return train(
        setup,
        row,
        row,
        setup.data,
        (
            *(*settings.task, "--arch", arch, *options),
            *("--backbone-path", str(setup.best("backbone"))),
            *("--criterion", "variator_distillation", *settings.schedule("whole_task"), *more),
        ),
        setup.best("backbone"),
        *starts,
    )


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
    Row("no_pretraining", lambda setup, row: [adapt(setup, row, _ratio(4))]),
    Row("no_adaptation", unadapted, needs_raw=True),
    Row("lambda01", plugins("k4", _ratio(4), ("--task-loss-weight", "0.1"))),
    Row("lambda05", plugins("k4", _ratio(4), ("--task-loss-weight", "0.5"))),
    Row("attention", plugins("attention", (*_ratio(4), "--compression-site", "attention"))),
    Row(
        "attention_kv", plugins("attention_kv", (*_ratio(4), "--compression-site", "attention-kv"))
    ),
    Row("token_pruning", competitor("token_pruning", _ratio(4))),
    Row("narrow_ffn", pretrained_competitor("narrow_ffn", _ratio(4))),
    Row("first_3", pretrained_competitor("first_layers", ("--kept-layers", "3"))),
    Row("first_4", pretrained_competitor("first_layers", ("--kept-layers", "4"))),
)
BY_NAME = {row.name: row for row in ROWS}
DEFAULT = tuple(row.name for row in ROWS if row.default)


def build_stages(
    setup: Setup, names: tuple[str, ...], known: tuple[Row, ...] = ROWS
) -> list[Stage]:
    """All stages of some rows, and the table of all rows that have a result.

    Args:
        known: the rows that the recipe has, in the order of its table.
    Raises:
        UserError: a row that does not exist, or one that needs raw text where there is none.
    """
    by_name = {row.name: row for row in known}
    for name in names:
        if name not in by_name:
            raise unknown_row(name, by_name)
        if by_name[name].needs_raw and not setup.has_first_steps:
            raise UserError(
                f"--rows {name}: needs pre-training on raw text; prepare the data with RAW_TEXT"
            )
    wanted = {"backbone", *names}  # the table compares the others to the backbone
    rows = [row for row in known if row.name in wanted]
    stages = pretrained(setup)
    for row in rows:
        stages += row.build(setup, row.name)
    for row in rows:
        stages += setup.evaluate(setup, row.name)
    return [*merge(stages), table(setup, tuple(by_name))]


def table(setup: Setup, order: tuple[str, ...]) -> Stage:
    """The comparison of every row that has a result."""
    return Stage(
        "table",
        ("table",),
        command=(
            *("pet-fairseq", "plugins", str(setup.runs)),
            *("--length", str(setup.settings.length)),
        ),
        product=setup.runs / "plugins.md",
        always=True,
        texts=((setup.runs / "order.txt", "\n".join(order)),),
    )
