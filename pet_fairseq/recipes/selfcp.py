"""Recipes of SelfCP: a language model, its memory, and ways to read long prompts.

A row of the table is a prompt strategy; a number at its end is another ratio, as in former4. In a
row that begins with `control_`, the memory is trained and used with segments of other prompts.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Optional

from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.recipes.device import CPU, Device
from pet_fairseq.recipes.options import AROUND_A_MODEL, Options, rise_and_fall, words
from pet_fairseq.recipes.pipeline import Pipeline, Place, merge
from pet_fairseq.recipes.stage import Kind, Stage, last_wins
from pet_fairseq.recipes.training import (
    BEST,
    fairseq_generate,
    fairseq_train,
    fairseq_validate,
    use_checkpoint,
)
from pet_fairseq.selfcp.segments import STRATEGIES


class Row(NamedTuple):
    """A way to read prompts, and the memory that it uses.

    Attributes:
        memory: the folder of the trained memory, without the seed; rows may share it.
    """

    strategy: str
    memory: str = "memory"
    trained_with: str = "auto"  # --prompt-strategy
    segments_from: str = "own"  # --segments-from


CONTROL = {"memory": "control_memory", "segments_from": "other"}
ROWS = {
    **{strategy: Row(strategy) for strategy in STRATEGIES if strategy != "auto"},
    "recursive": Row("recursive", "recursive_memory", "recursive"),
    **{f"control_{side}": Row(side, **CONTROL) for side in ("former", "latter")},
}
FULL = ("full",)  # for data sets without prompts longer than the model's positions
DEFAULT = (
    *("former", "latter", "concat", "truncate_equal", "truncate_latter_equal", "perplexity_equal"),
    *("control_former", "control_latter", "truncate", "truncate_latter", "perplexity"),
)
ROW = re.compile(r"([a-z_]+)([1-9]\d{0,8})?")

LM_ARCH = words(
    "--arch transformer_lm --decoder-layers 4 --decoder-embed-dim 256 --decoder-ffn-embed-dim 1024 "
    "--decoder-attention-heads 4 --decoder-normalize-before --share-decoder-input-output-embed "
    "--max-target-positions 2048"
)
LM = words(
    "--criterion cross_entropy --sample-break-mode eos --tokens-per-sample 512 --max-tokens 2048 "
    "--lr 1e-3 --dropout 0.1"
)
MEMORY = words("--max-tokens 4096 --lr 1e-3")


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


def parse_row(name: str, ratio: int) -> tuple[Row, int]:
    """The row of a name, and its ratio: the number at the name's end, or else `ratio`.

    Raises:
        UserError: no such row.
    """
    match = ROW.fullmatch(name)
    if match is None or match[1] not in ROWS:
        raise UserError(f"--rows {name}: there is no such row; give some of {', '.join(ROWS)}")
    return ROWS[match[1]], int(match[2] or ratio)


def backbone(setup: Setup) -> Stage:
    """The stage that trains the language model, or takes a given one."""
    if setup.own_backbone is not None:
        return use_checkpoint(
            *("backbone", "backbone", setup.own_backbone, setup.backbone, setup.runs)
        )
    starts = () if setup.lm_from is None else (setup.lm_from,)
    start = tuple(word for path in starts for word in ("--finetune-from-model", str(path)))
    data = setup.data / "lm"
    options = last_wins(
        (
            *(
                *AROUND_A_MODEL,
                "--task",
                "language_modeling",
                *LM_ARCH,
                *LM,
                *rise_and_fall(setup.lm_updates),
            ),
            *(*setup.lm, *start),
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
    """The stage that trains a row's memory tag and connector, for one seed."""
    folder = setup.runs / f"{row.memory}.seed{seed}"
    control = () if row.segments_from == "own" else ("--segments-from", row.segments_from)
    options = last_wins(
        (
            *(*AROUND_A_MODEL, "--task", "selfcp", "--arch", "selfcp", "--criterion", "selfcp_lm"),
            *("--seed", str(seed), "--prompt-strategy", row.trained_with, *control),
            *("--backbone-path", str(setup.backbone), "--window", str(setup.window)),
            *(*MEMORY, *rise_and_fall(setup.memory_updates)),
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


def build_stages(setup: Setup, rows: Sequence[str], seeds: Sequence[int]) -> list[Stage]:
    """All stages of some rows, and the table over the seeds.

    Raises:
        UserError: a row that does not exist.
    """
    parsed = {name: parse_row(name, setup.ratio) for name in rows}
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


# --- how rows are scored --------------------------------------------------------------------------


def by_choice(candidates: Options) -> Evaluate:
    """Score by the share of prompts whose right candidate the model finds most probable."""

    def stages(setup: Setup, reading: Reading) -> list[Stage]:
        out = reading.folder / "result.json"
        command = (
            *("pet-fairseq", "choose", "--path", str(reading.checkpoint)),
            *("--data", str(setup.data), "--candidates", *candidates),
            *("--prompt-strategy", reading.strategy, "--memory-ratio", str(reading.ratio)),
            *("--device", setup.device.name, "--out", str(out)),
        )
        inputs = (setup.data, setup.backbone, reading.checkpoint)
        return [Stage(reading.folder.name, (reading.row,), command, out, inputs)]

    return stages


def by_rouge(options: Options) -> Evaluate:
    """Score generated responses by ROUGE, and the right ones by their perplexity."""

    def stages(setup: Setup, reading: Reading) -> list[Stage]:
        folder, name = reading.folder, reading.folder.name
        overrides = f"{{'prompt_strategy': '{reading.strategy}', 'memory_ratio': {reading.ratio}}}"
        output, log, out = (folder / n for n in ("generate.txt", "validate.txt", "result.json"))
        inputs = (setup.data, setup.backbone, reading.checkpoint)
        model = ("--task", "selfcp", "--model-overrides", overrides)
        pieces = ("--bpe", "sentencepiece", "--sentencepiece-model", str(setup.data / "spm.model"))
        generate = Stage(
            f"{name}/generate",
            (reading.row,),
            command=fairseq_generate(
                setup.device, setup.data, reading.checkpoint, (*model, *pieces, *options)
            ),
            product=output,
            inputs=inputs,
            kind=Kind.STDOUT,
        )
        validate = Stage(
            f"{name}/validate",
            (reading.row,),
            command=fairseq_validate(
                *(setup.device, setup.data, reading.checkpoint),
                (*model, "--valid-subset", "test", "--max-tokens", "8000"),
            ),
            product=log,
            inputs=inputs,
            kind=Kind.STDOUT,
        )
        command = (
            *("pet-fairseq", "score", "rouge", str(output), "--validation", str(log)),
            *("--out", str(out)),
        )
        score = Stage(name, (reading.row,), command, out, (output, log))
        return [generate, validate, score]

    return stages


# --- the recipes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DataSet:
    """A data set of prompts; the sizes are for two CPU cores.

    Attributes:
        window: tokens of a prompt that are read as they are.
        candidates: the possible responses, to be scored `by_choice`; without them, `by_rouge`.
        beam, max_len: of generated responses.
        rows: the default ones.
        lm: options of the language model's training, which override LM.
    """

    window: int
    candidates: Options = ()
    beam: int = 4
    max_len: int = 250
    rows: tuple[str, ...] = DEFAULT
    lm: Options = ()


DATA_SETS = {
    "movie_reviews": DataSet(256, ("positive", "negative")),
    "cicero": DataSet(64, max_len=30, rows=DEFAULT + FULL),
    "xsum": DataSet(512, max_len=60),
    "arxiv": DataSet(512),
    "duc2007": DataSet(512),
    "cola": DataSet(128, ("acceptable", "unacceptable"), rows=DEFAULT + FULL),
    # no two games are the same, so the language model cannot overfit and needs no dropout
    "recall": DataSet(32, beam=1, max_len=6, rows=DEFAULT + FULL, lm=("--dropout", "0")),
}


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Declare the options of a data set's recipe."""
    data_set = DATA_SETS[name]
    parser.add_argument(
        "--rows",
        nargs="+",
        default=list(data_set.rows),
        metavar="ROW",
        help=f"the ways to read a prompt: {', '.join(ROWS)}; a number at the end, as in former4, "
        "is another ratio; full needs a model with positions for the longest prompt "
        f"(default: {' '.join(data_set.rows)})",
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        default=[1],
        metavar="N",
        help="the random seeds of the memory (default: 1)",
    )
    for option, default, about in (
        ("--window", data_set.window, "how many tokens of a prompt are read as they are"),
        ("--ratio", 12, "how many prompt tokens become one memory token"),
        ("--lm-updates", 4000, "how many updates train the language model"),
        ("--memory-updates", 1000, "how many updates train the memory"),
        ("--beam", data_set.beam, "the beam size for generated responses"),
    ):
        parser.add_argument(
            option, type=int, default=default, metavar="N", help=f"{about} (default: %(default)s)"
        )
    parser.add_argument(
        "--backbone",
        type=Path,
        metavar="CHECKPOINT",
        help="a language model to use in place of training one",
    )
    parser.add_argument(
        "--lm-from",
        type=Path,
        metavar="CHECKPOINT",
        help="a language model to start training from",
    )


def build(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages that the options ask for.

    Raises:
        UserError: a row that does not exist, or a number below 1.
    """
    numbers = ("window", "ratio", "lm_updates", "memory_updates", "beam")
    check_positive(**{name: getattr(args, name) for name in numbers})
    data_set = DATA_SETS[place.name]
    data = place.data or place.base / place.name / "data" / "bin"
    runs = place.runs or place.base / place.name / "selfcp"
    generation = words(f"--beam {args.beam} --max-len-b {data_set.max_len}")
    evaluate = by_choice(data_set.candidates) if data_set.candidates else by_rouge(generation)
    setup = Setup(
        *(data, runs, evaluate, args.window, args.ratio, data_set.lm),
        *(args.lm_updates, args.memory_updates, Device(args.device)),
        *(args.backbone, args.lm_from),
    )
    stages = build_stages(setup, args.rows, args.seeds)
    return Pipeline(stages, runs, {"DATA": data, "RUNS": runs})
