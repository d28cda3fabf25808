"""The recipe of Variator for GLUE, and for sentences and classes of the user's."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.runner.fairseq_options import Options, words
from pet_fairseq.runner.pipeline import Pipeline, Place
from pet_fairseq.runner.stage import Stage

from .recipe import add_options, add_pretrained_option, make_pipeline
from .scoring import by_classes, by_generation
from .setup import SETTINGS, Settings, Setup

CLASSES = {"mnli": 3, "qnli": 2, "qqp": 2, "rte": 2, "sst2": 2, "mrpc": 2, "cola": 2}
# of the tasks that GLUE does not score by accuracy alone
POSITIVE_CLASSES = {"qqp": "duplicate", "mrpc": "equivalent", "cola": "acceptable"}
OWN_TASK = "own"  # sentences and classes of the user's
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
    usual = SETTINGS["glue_bert"].schedules
    task, raw, model = (usual[name] for name in ("plugins_task", "plugins_raw", "model_task"))
    many = "how many updates"
    about_batch = "the largest number of tokens in a training batch of the task"
    for option, default, about in (
        ("--updates", task.updates, f"{many} train the plugins and their competitors on the task"),
        ("--raw-updates", raw.updates, f"{many} train them on raw text before"),
        ("--model-updates", model.updates, f"{many} fine-tune the model"),
        ("--max-tokens", task.max_tokens, about_batch),
    ):
        parser.add_argument(
            option,
            type=int,
            default=default,
            metavar="N",
            help=f"with --bert, {about} (default: %(default)s)",
        )
    add_options(parser)
    add_pretrained_option(parser)


def build_glue(args: argparse.Namespace, place: Place) -> Pipeline:
    """The stages for a task of GLUE, as classes or as text.

    Raises:
        UserError: a row that does not exist, a number of updates or tokens below 1, a --bert that
            cannot be used, or a task of one's own whose data are not there.
    """
    names = ("updates", "raw_updates", "model_updates", "max_tokens")
    check_positive(**{name: getattr(args, name) for name in names})
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
        pretrained_path = pretrained_path or args.bert / "checkpoint.pt"
    if args.form == "classes":
        settings = replace(settings, task=(*settings.task, "--num-classes", str(num_classes)))
    return make_pipeline(args, settings, evaluate, folder, args.form, runs, pretrained_path)


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


def settings_from_bert(args: argparse.Namespace) -> Settings:
    """How plugins of an imported BERT are trained.

    Raises:
        UserError: see `read_bert_options`.
    """
    on_task = {"max_tokens": args.max_tokens, "updates": args.updates}
    on_raw = {"updates": args.raw_updates}
    settings = SETTINGS["glue_bert"].changed(
        model_task={"max_tokens": args.max_tokens, "updates": args.model_updates},
        plugins_raw=on_raw,
        plugins_task=on_task,
        whole_raw=on_raw,
        whole_task=on_task,
    )
    arch = read_bert_options(args)
    task = one_separator(settings.task) if arch[:2] == ONE_SEPARATOR else settings.task
    return replace(settings, arch=arch, task=task)


def read_bert_options(args: argparse.Namespace) -> Options:
    """The model options of an imported BERT.

    Raises:
        UserError: not a folder from import-hf, or --form text, which needs a decoder.
    """
    if args.form != "classes":
        raise UserError("--bert: is an encoder; give --form classes")
    path = args.bert / "model_options"
    if not path.is_file():
        raise UserError(f"--bert {path}: no such file; make it by pet-fairseq import-hf")
    return words(path.read_text(encoding="utf-8"))


def one_separator(options: Options) -> Options:
    """The task's options without its separator, as the first sentence ends with one already."""
    place = options.index("--separator-token")
    return (*options[:place], *options[place + 2 :])
