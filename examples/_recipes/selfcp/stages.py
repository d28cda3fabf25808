"""The stages of SelfCP's recipes: a language model, its memory, and ways to read long prompts."""

from collections.abc import Sequence

from pet_fairseq.runner.fairseq_commands import BEST, fairseq_train, use_checkpoint
from pet_fairseq.runner.fairseq_options import Options, rise_and_fall
from pet_fairseq.runner.pipeline import merge
from pet_fairseq.runner.stage import Kind, Stage, drop_overridden

from .equal_rank import equal_rank, shapes_of
from .rows import Row, parse_row
from .setup import Reading, Settings, Setup

SMALLEST_RATIO = 2  # of those that training draws (--memory-ratio-range)


def backbone(setup: Setup) -> Stage:
    """The stage that trains the language model, or takes a given one."""
    if setup.own_backbone is not None:
        return use_checkpoint(
            "backbone", "backbone", setup.own_backbone, setup.backbone, setup.runs
        )
    starts = () if setup.lm_from is None else (setup.lm_from,)
    start = tuple(word for path in starts for word in ("--finetune-from-model", str(path)))
    settings = setup.settings
    data = setup.data / "lm"
    options = drop_overridden(
        (
            *(*settings.around_a_model, "--task", "language_modeling", *settings.arch),
            *(*settings.lm, *rise_and_fall(settings.lm_updates), *settings.more_lm, *start),
        )
    )
    return Stage(
        "backbone",
        ("backbone",),
        command=fairseq_train(setup.device, data, setup.backbone.parent, options),
        product=setup.backbone,
        inputs=(data, *starts),
        kind=Kind.TRAINING,
    )


def memory(setup: Setup, row: Row, seed: int, group: str) -> Stage:
    """The stage that trains a row's memory tag, connector and low-rank updates, for one seed."""
    settings = setup.settings
    folder = setup.runs / f"{row.memory}.seed{seed}"
    control = () if row.segments_from == "own" else ("--segments-from", row.segments_from)
    options = drop_overridden(
        (
            *(*settings.around_a_model, "--task", "selfcp", "--arch", "selfcp"),
            *("--criterion", "selfcp_lm"),
            *("--seed", str(seed), "--prompt-strategy", row.trained_with, *control),
            *low_rank(setup, row),
            *("--backbone-path", str(setup.backbone), "--window", str(settings.window)),
            *(*settings.memory, *rise_and_fall(settings.memory_updates)),
            *tags_alone(settings, row),
            *default_start(row),
            *setup.memory_options,
        )
    )
    return Stage(
        folder.name,
        (group,),
        command=fairseq_train(setup.device, setup.data, folder, options),
        product=folder / BEST,
        inputs=(setup.data, setup.backbone),
        kind=Kind.TRAINING,
    )


def low_rank(setup: Setup, row: Row) -> Options:
    """The options of a row's low-rank updates, if it has any."""
    if not row.lora_on:
        return ()
    if row.lora_on == "reader":  # in the place of SelfCP's tag and connector
        rank = equal_rank(*shapes_of(setup))
    else:
        settings = setup.settings
        rank = settings.autocompressor_rank if row.tags_alone else settings.icae_rank
    return ("--lora-rank", str(rank), "--lora-on", row.lora_on)


def tags_alone(settings: Settings, row: Row) -> Options:
    """The options of a memory without a connector, with a tag for each of a segment's tokens."""
    if not row.tags_alone:
        return ()
    given = dict(zip(settings.memory, settings.memory[1:]))
    longest = int(given.get("--segment-tokens", settings.window))
    tags = -(-longest // SMALLEST_RATIO)
    return ("--connector", "none", "--memory-tags", str(tags))


def default_start(row: Row) -> Options:
    """The options of rows whose connector has no states to be standardised."""
    return ("--standardise-on", "0") if row.tags_alone or row.lora_on == "reader" else ()


def build_stages(setup: Setup, rows: Sequence[str], seeds: Sequence[int]) -> list[Stage]:
    """All stages of some rows, and the table over the seeds.

    Raises:
        UserError: a row that does not exist.
    """
    parsed = {name: parse_row(name, setup.settings.ratio) for name in rows}
    stages = [backbone(setup)]
    for seed in seeds:
        for name, (row, ratio) in parsed.items():
            group = name if row.memory == "recursive_memory" else row.memory
            stages.append(memory(setup, row, seed, group))
            checkpoint = setup.runs / f"{row.memory}.seed{seed}" / BEST
            folder = setup.runs / f"{name}.seed{seed}"
            reading = Reading(name, row.strategy, ratio, checkpoint, folder)
            stages += setup.evaluate(setup, reading)
    return [*merge(stages), table(setup, rows)]


def table(setup: Setup, rows: Sequence[str]) -> Stage:
    command = ("pet-fairseq", "score", "table", str(setup.runs), *rows)
    return Stage("table", ("table",), command, setup.runs / "table.md", always=True)
