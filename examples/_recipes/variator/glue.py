"""The recipe of Variator for GLUE, and for sentences and classes of the user's."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.pipeline import Pipeline, Place
from pet_fairseq.runner.stage import Stage

from .recipe import add_options, add_pretrained_option, make_pipeline
from .scoring import by_classes, by_generation
from .setup import SETTINGS, Settings, Setup, read_model_options

CLASSES = {"mnli": 3, "qnli": 2, "qqp": 2, "rte": 2, "sst2": 2, "mrpc": 2, "cola": 2}
# of the tasks that GLUE does not score by accuracy alone
POSITIVE_CLASSES = {"qqp": "duplicate", "mrpc": "equivalent", "cola": "acceptable"}
OWN_TASK = "own"  # sentences and classes of the user's
LENGTH = "--max-positions"  # of the model, and of a text that the task does not shorten
ONE_SEPARATOR = ("--arch", "bert")  # between the sentences of a pair; RoBERTa has two


def add_glue_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this recipe, and those of all of Variator's."""
    parser.add_argument(
        "--task",
        required=True,
        choices=(*CLASSES, OWN_TASK),
        help=f"the task of GLUE, or {OWN_TASK} for data of your own",
    )
    parser.add_argument(
        "--form",
        choices=("classes", "text"),
        default="classes",
        help="classes for an encoder with a classification head, text for an encoder-decoder that "
        "answers a question (default: %(default)s)",
    )
    parser.add_argument(
        "--bert",
        type=Path,
        metavar="FOLDER",
        help="start from the model in this folder, which pet-fairseq import-hf wrote and which "
        "prepare.sh was given as BERT; only with --form classes",
    )
    of_bert, others = (SETTINGS[name].schedules for name in ("glue_bert", "glue_classes"))
    many = "how many updates"
    for option, schedule, about in (
        ("--updates", "plugins_task", f"{many} train the plugins and their competitors"),
        ("--raw-updates", "plugins_raw", f"{many} train them on raw text before"),
        ("--model-updates", "model_task", f"{many} fine-tune the model"),
        ("--max-tokens", "model_task", "the largest number of tokens in a batch of the task"),
        ("--raw-max-tokens", "plugins_raw", "the same of raw text, for plugins and competitors"),
    ):
        field = "max_tokens" if option.endswith("max-tokens") else "updates"
        usual, with_bert = (getattr(known[schedule], field) for known in (others, of_bert))
        parser.add_argument(
            option,
            type=int,
            metavar="N",
            help=f"{about} (default: {usual}, with --bert {with_bert})",
        )
    add_options(parser)
    add_pretrained_option(parser)
    parser.add_argument(
        "--first-steps",
        type=Path,
        metavar="RUNS",
        help="the runs of another task with the same model before fine-tuning: what was trained on "
        "raw text there is used here",
    )


def build_glue(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages for a task of GLUE, as classes or as text.

    Raises:
        UserError: a row that does not exist, a number of updates or tokens below 1, a --bert that
            cannot be used or has other words than the data, --first-steps without a model, or a
            task of one's own whose data are not there.
    """
    names = ("updates", "raw_updates", "model_updates", "max_tokens", "raw_max_tokens")
    check_positive(**given(**{name: getattr(args, name) for name in names}))
    base = place.base / place.name / args.task
    folder = place.data or base / "data"
    runs = place.runs or base / args.form
    pretrained_path = args.pretrained
    num_classes = count_classes(args.task, folder)
    settings = SETTINGS["glue_text" if args.form == "text" else "glue_classes"]
    evaluate: Callable[[Setup, str], list[Stage]] = partial(
        by_classes, positive_class=POSITIVE_CLASSES.get(args.task)
    )
    if args.form == "text":
        truth = folder / "raw" / "test.answer"
        evaluate = by_generation(("accuracy",), truth, settings.generate)
    if args.bert is not None:
        settings = settings_from_bert(args)
        check_words(args.bert, folder)
        pretrained_path = pretrained_path or args.bert / "checkpoint.pt"
    if args.first_steps is not None and pretrained_path is None:
        raise UserError(
            "--first-steps: is for the model that the first steps began with; name it by --bert or "
            "--pretrained"
        )
    settings = with_lengths(settings, args)
    if args.form == "classes":
        settings = replace(settings, task=(*settings.task, "--num-classes", str(num_classes)))
    return make_pipeline(
        args, settings, evaluate, folder, args.form, runs, pretrained_path, args.first_steps
    )


def count_classes(task: str, folder: Path) -> int:
    """How many classes a task has; for the user's own, those that its prepared data have.

    Raises:
        UserError: data of one's own that are not there.
    """
    if task != OWN_TASK:
        return CLASSES[task]
    path = folder / "classes.txt"
    if not path.is_file():
        raise UserError(
            f"--task {OWN_TASK}: {path}: no such file; make the data by examples/glue/prepare.sh "
            f"{OWN_TASK} FOLDER, or name them with --data"
        )
    return len(path.read_text(encoding="utf-8").splitlines())


def with_lengths(settings: Settings, args: argparse.Namespace) -> Settings:
    """The settings with the updates and tokens that the user gives."""
    on_task = given(max_tokens=args.max_tokens, updates=args.updates)
    on_raw = given(max_tokens=args.raw_max_tokens, updates=args.raw_updates)
    return settings.changed(
        model_task=given(max_tokens=args.max_tokens, updates=args.model_updates),
        plugins_raw=on_raw,
        plugins_task=on_task,
        whole_raw=on_raw,
        whole_task=on_task,
    )


def given(**values: Optional[int]) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}


def settings_from_bert(args: argparse.Namespace) -> Settings:
    """How plugins of an imported BERT are trained.

    Raises:
        UserError: see `read_bert_options`.
    """
    settings = SETTINGS["glue_bert"]
    arch = read_bert_options(args)
    task = one_separator(settings.task) if arch[:2] == ONE_SEPARATOR else settings.task
    if LENGTH in arch:  # what is too long for the model is too long for its plugins
        task = (*task, LENGTH, arch[arch.index(LENGTH) + 1])
    return replace(settings, arch=arch, task=task)


def check_words(bert: Path, folder: Path) -> None:
    """Refuse data that were made with other words than the model has.

    Raises:
        UserError: they were.
    """
    words, of_bert = folder / "dict.txt", bert / "dict.txt"
    if words.is_file() and of_bert.is_file() and words.read_bytes() != of_bert.read_bytes():
        raise UserError(
            f"--bert {bert}: the words of {words} are not those of {of_bert}; make the data in a "
            f"new folder by BERT={bert} examples/glue/prepare.sh, and name it with --data"
        )


def read_bert_options(args: argparse.Namespace) -> Options:
    """The model options of an imported BERT.

    Raises:
        UserError: not a folder from import-hf, or --form text, which needs a decoder.
    """
    if args.form != "classes":
        raise UserError("--bert: is an encoder; give --form classes")
    return read_model_options(args.bert, "--bert")


def one_separator(options: Options) -> Options:
    """The task's options without its separator, as the first sentence ends with one already."""
    place = options.index("--separator-token")
    return (*options[:place], *options[place + 2 :])
