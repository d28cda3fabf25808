"""The commands `pet-fairseq score ...`: parse, call, print."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from pet_fairseq.cli_command import (
    Command,
    Group,
    add_backbone_run_option,
    add_batch_option,
    add_comet_option,
    add_device_option,
    add_scores_file_option,
    add_subset_option,
)
from pet_fairseq.devices import choose_device
from pet_fairseq.files import check_folder_of, write_json


def _scored(
    score: Callable[[Namespace], dict], not_shown: Sequence[str] = ()
) -> Callable[[Namespace], None]:
    """A command that prints scores, and writes them to --out if that is given.

    Args:
        not_shown: the names of scores that are written only.
    """

    def run(args: Namespace) -> None:
        check_folder_of(args.out, "--out")
        scores = score(args)
        if args.out is not None:
            write_json(args.out, scores)
        print(json.dumps({name: x for name, x in scores.items() if name not in not_shown}))

    return run


def _add_output(parser: ArgumentParser, or_else: str = "") -> None:
    what = f"a file with what fairseq-generate printed{or_else}"
    parser.add_argument("output", type=Path, metavar="OUTPUT", help=what)


# --- texts ----------------------------------------------------------------------------------------


def _bleu_arguments(parser: ArgumentParser) -> None:
    _add_output(parser, ", or with a translation on each line")
    parser.add_argument(
        "reference",
        metavar="REFERENCE",
        help="the raw target text of the test set, or sacrebleu:NAME:SOURCE-TARGET for one that "
        "sacreBLEU knows, such as sacrebleu:wmt19:de-en",
    )
    add_comet_option(parser)
    parser.add_argument(
        "--source",
        type=Path,
        metavar="FILE",
        help="for --comet: the raw source text (default: sacreBLEU's, if it has the test set)",
    )
    add_device_option(parser, "COMET runs")
    add_scores_file_option(parser)


def _bleu(args: Namespace) -> dict:
    from pet_fairseq.results.bleu import bleu_scores
    from pet_fairseq.results.sacrebleu_sets import named_set, set_files

    source, reference = args.source, Path(args.reference)
    if named := named_set(args.reference, "REFERENCE"):
        of_set, reference = set_files(named, "REFERENCE")
        source = source or of_set
    scores = bleu_scores(args.output, reference)
    if args.comet is not None:
        from pet_fairseq.results.comet import comet_scores

        gpus = int(choose_device(args.device) == "cuda")
        scores |= comet_scores(args.comet, source, args.output, reference, gpus)
    return scores


def _wer_arguments(parser: ArgumentParser) -> None:
    _add_output(parser, ", or with a pronunciation on each line")
    parser.add_argument(
        "pronunciations",
        type=Path,
        metavar="PRONUNCIATIONS",
        help="a file with a line for each word: its right pronunciations, between tabs",
    )
    add_scores_file_option(parser)


def _wer(args: Namespace) -> dict:
    from pet_fairseq.results.word_errors import wer_scores

    return wer_scores(args.output, args.pronunciations)


def _rouge_arguments(parser: ArgumentParser) -> None:
    _add_output(parser)
    parser.add_argument(
        "--responses",
        type=Path,
        metavar="FILE",
        help="the right responses, one on each line (default: the T lines of OUTPUT)",
    )
    parser.add_argument(
        "--validation",
        type=Path,
        metavar="LOG",
        help="what fairseq-validate printed, from which to take the responses' perplexity",
    )
    add_scores_file_option(parser)


def _rouge(args: Namespace) -> dict:
    from pet_fairseq.results.fairseq_output import read_length, read_perplexity
    from pet_fairseq.results.score.rouge import rouge_scores

    scores = rouge_scores(args.output, args.responses)
    if args.validation is not None:
        scores["ppl"] = read_perplexity(args.validation)
        if (length := read_length(args.validation)) is not None:
            scores["read"] = length
    return scores


# --- answers --------------------------------------------------------------------------------------


def _accuracy_arguments(parser: ArgumentParser) -> None:
    _add_output(parser)
    parser.add_argument(
        "answers", type=Path, metavar="ANSWERS", help="the right answers, one on each line"
    )
    add_scores_file_option(parser)


def _accuracy(args: Namespace) -> dict:
    from pet_fairseq.results.score.answers import accuracy_scores

    return accuracy_scores(args.output, args.answers)


def _squad_arguments(parser: ArgumentParser) -> None:
    _add_output(parser)
    parser.add_argument(
        "answers",
        type=Path,
        metavar="ANSWERS",
        help="a JSON object with a list of right answers for each question",
    )
    add_scores_file_option(parser)


def _squad(args: Namespace) -> dict:
    from pet_fairseq.results.score.answers import squad_scores

    return squad_scores(args.output, args.answers)


# --- classes --------------------------------------------------------------------------------------


def _classes_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="a model of the task sentence_prediction"
    )
    parser.add_argument("data", metavar="BIN", help="the folder with the sentences and classes")
    add_subset_option(parser, "test")
    add_batch_option(parser, max_tokens=8000)
    parser.add_argument(
        "--positive-class",
        metavar="NAME",
        help="also give F1 and Matthews' correlation of this class",
    )
    add_device_option(parser)
    add_scores_file_option(parser)


def _classes(args: Namespace) -> dict:
    from pet_fairseq.results.score.classification import class_scores

    options = (args.subset, args.device, args.max_tokens, args.positive_class)
    return class_scores(args.checkpoint, args.data, *options)


# --- prompts --------------------------------------------------------------------------------------


def _prompts_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="a language model, or plugins for one"
    )
    parser.add_argument(
        "data",
        metavar="BIN",
        help="the folder with the texts, one on each line, from fairseq-preprocess --only-source",
    )
    parser.add_argument(
        "--prompt-end",
        required=True,
        metavar="WORD",
        help="the word that ends a prompt; everything after the first one is the response",
    )
    add_subset_option(parser, "test")
    parser.add_argument(
        "--texts",
        type=int,
        default=100,
        metavar="N",
        help="how many texts to read at most, spread over the subset (default: %(default)s)",
    )
    parser.add_argument(
        "--cut",
        type=int,
        default=1,
        metavar="K",
        help="let the model read only the last 1/K of each prompt, for comparison with plugins "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--closed-answers",
        action="store_true",
        help="the responses are a closed set of answers, such as positive and negative: also count "
        "how often the model expects the right one most",
    )
    add_device_option(parser)
    add_scores_file_option(parser)


def _prompts(args: Namespace) -> dict:
    from pet_fairseq.results.score.prompts import prompt_scores

    options = (args.prompt_end, args.subset, args.texts, args.cut, args.closed_answers, args.device)
    return prompt_scores(args.checkpoint, args.data, *options)


# --- table ----------------------------------------------------------------------------------------


def _table_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        type=Path,
        metavar="RUNS",
        help="a folder that holds one folder for each run and seed, NAME.seed<N>/result.json; "
        "table.md is written into it",
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="the name of a run, without its seed"
    )


def _table(args: Namespace) -> None:
    from pet_fairseq.results.score.tables import write_seeds_table

    print(write_seeds_table(args.runs, args.names), end="")


# --- tasks ----------------------------------------------------------------------------------------


def _tasks_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "tasks",
        nargs="+",
        metavar="TASK=FOLDER",
        help="the folder of a task's runs, with plugins.json; give a task once for each seed",
    )
    add_backbone_run_option(parser)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also write the table to this file, as Markdown"
    )


def _tasks(args: Namespace) -> None:
    from pet_fairseq.results.score.tables import write_tasks_table

    print(write_tasks_table(args.tasks, args.backbone, args.out), end="")


COMMANDS = (
    Command(
        name="score bleu",
        group=Group.REPORTS,
        help="score translations by sacreBLEU's BLEU and chrF, and by COMET",
        description="Score translations by sacreBLEU's BLEU and chrF, and by COMET if a model of "
        "it is given. fairseq-generate needs --tokenizer and --remove-bpe, so that OUTPUT has "
        "detokenised text.",
        add_arguments=_bleu_arguments,
        run=_scored(_bleu),
        needs_models=False,
    ),
    Command(
        name="score wer",
        group=Group.REPORTS,
        help="score pronunciations by their word and phone error rates",
        description="Score pronunciations by word and phone error rates, in percent. A word is "
        "right if any of its pronunciations is given; phones are compared with the nearest one. "
        "Phones stand between blanks.",
        add_arguments=_wer_arguments,
        run=_scored(_wer),
        needs_models=False,
    ),
    Command(
        name="score rouge",
        group=Group.REPORTS,
        help="score responses by ROUGE and exact matches",
        description="Score responses by ROUGE and exact matches. Make OUTPUT with --bpe "
        "sentencepiece or --remove-bpe, so that it has detokenised text. Tokens are words, stemmed "
        "if they are ASCII, and single characters of scripts without spaces between words, such as "
        "Chinese. The scores files2rouge_... have the words and sentences of the tool files2rouge.",
        add_arguments=_rouge_arguments,
        run=_scored(_rouge),
        needs_models=False,
    ),
    Command(
        name="score accuracy",
        group=Group.REPORTS,
        help="count the generated answers that are right, letter by letter",
        description="Count the generated answers that are right, letter by letter. OUTPUT needs no "
        "--tokenizer and no --remove-bpe: Moses tokens and BPE pieces are joined as English.",
        add_arguments=_accuracy_arguments,
        run=_scored(_accuracy),
        needs_models=False,
    ),
    Command(
        name="score squad",
        group=Group.REPORTS,
        help="score generated answers by SQuAD's exact match and F1",
        description="Score generated answers by SQuAD's exact match and F1. OUTPUT needs no "
        "--tokenizer and no --remove-bpe: Moses tokens and BPE pieces are joined as English.",
        add_arguments=_squad_arguments,
        run=_scored(_squad),
        needs_models=False,
    ),
    Command(
        name="score classes",
        group=Group.REPORTS,
        help="count the sentences that a model classifies correctly",
        add_arguments=_classes_arguments,
        run=_scored(_classes, not_shown=("by_sentence",)),
    ),
    Command(
        name="score prompts",
        group=Group.REPORTS,
        help="measure how fast a language model reads prompts and how well it goes on",
        add_arguments=_prompts_arguments,
        run=_scored(_prompts),
    ),
    Command(
        name="score table",
        group=Group.REPORTS,
        help="tabulate scores with their mean and standard deviation over seeds",
        add_arguments=_table_arguments,
        run=_table,
        needs_models=False,
    ),
    Command(
        name="score tasks",
        group=Group.REPORTS,
        help="compare compressed models over several tasks, with their average",
        description="Compare compressed models over several tasks and seeds: scores and their "
        "average, trained parameters, FLOPs, and the differences from the backbone.",
        add_arguments=_tasks_arguments,
        run=_tasks,
        needs_models=False,
    ),
)
