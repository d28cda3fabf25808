"""The options of `pet-fairseq compress` and of the commands of its stages."""

import os
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from pet_fairseq.cli_command import add_comet_option
from pet_fairseq.compress.training import (
    DEFAULT_FORM,
    DEFAULT_METHOD,
    FEWEST_UPDATES,
    METHODS,
    MOST_EPOCHS,
    SMALL_TEXT,
    STUDENT_FORMS,
)
from pet_fairseq.export.commands import FORMS
from pet_fairseq.predict.shared_options import add_beam_options, add_sampling_options
from pet_fairseq.predict.speed.commands import add_text_options
from pet_fairseq.runner.arguments import add_precision_option, add_run_options

PAIRS = {
    "train": "in place of --data: raw text of the train set, a sentence a line",
    "valid": "raw text of the valid set (default: held out of the training text)",
    "test": "raw text of the test set, beside --data, too (default: as --test says, or held out of "
    "the training text)",
}


def _default_rates() -> str:
    """The default method's rate, then the rates of the methods that have another one."""
    usual = METHODS[DEFAULT_METHOD].rate
    others = {name: method.rate for name, method in METHODS.items() if method.rate != usual}
    return ", ".join([f"{usual:g}", *(f"{name}: {rate:g}" for name, rate in others.items())])


def compress_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "teacher",
        type=Path,
        metavar="TEACHER",
        help="a checkpoint of a translation model, a folder of pet-fairseq import-hf or bilingual, "
        "one of Hugging Face's files, or one of CTranslate2",
    )
    _add_data_options(parser.add_argument_group("what to train on"))
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder for everything made",
    )
    _add_engine_options(parser.add_argument_group("of a teacher in CTranslate2"))
    text = parser.add_argument_group(
        "how the teacher translates --text", "in --jobs processes, on GPUs one for each at least"
    )
    add_beam_options(text)
    add_sampling_options(text)
    _add_size_options(parser.add_argument_group("how small"))
    _add_training_options(parser.add_argument_group("how to train"))
    _add_test_options(parser.add_argument_group("what to compare on"))
    _add_form_options(parser.add_argument_group("where it goes"))
    run = parser.add_argument_group("how to run it")
    add_run_options(run)
    add_precision_option(run, "on a GPU bf16, or fp16 where it lacks that")


def _add_data_options(group) -> None:
    group.add_argument(
        "--data",
        type=_data_folders,
        metavar="BIN[:BIN2...]",
        help="the folder from fairseq-preprocess that it was trained on; or several, as for "
        "fairseq-train: each epoch trains on the next one, and the other sets are in the first",
    )
    for split, meaning in PAIRS.items():
        group.add_argument(
            f"--{split}-pair",
            type=Path,
            nargs=2,
            metavar=("SOURCE", "TARGET"),
            help=meaning,
        )
    group.add_argument(
        "--text",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE",
        help="source sentences, one a line, plain, .gz or .zst, that the teacher translates; alone "
        "or beside --train-pair or --data",
    )
    group.add_argument(
        "--repeat-pairs",
        type=int,
        default=1,
        metavar="N",
        help="how often the pairs of --train-pair or --data are trained on for each time that the "
        "translations of --text are (default: %(default)s)",
    )
    group.add_argument(
        "--vocabulary",
        default="keep",
        metavar="keep|trim|N",
        help="of the teacher's pieces, all; those that the training text has; or N of them for "
        "each side, the single characters and the most frequent ones; with a teacher in "
        "CTranslate2 N new ones, made of the text (default: %(default)s)",
    )
    for side in ("source", "target"):
        group.add_argument(
            f"--{side}-lang",
            metavar="LANG",
            help="of a teacher of several languages: the one to translate "
            + ("from" if side == "source" else "to"),
        )


def _add_engine_options(group) -> None:
    group.add_argument(
        "--sentencepiece",
        type=Path,
        nargs="+",
        default=(),
        metavar="MODEL",
        help="the SentencePiece model of its text, or those of source and target "
        "(default: what lies beside it)",
    )
    group.add_argument(
        "--bpe",
        type=Path,
        metavar="CODES",
        help="in place of that, codes of subword-nmt, before which Moses' tokenizer stands",
    )


def _data_folders(word: str) -> list[Path]:
    """The folders of `a:b`."""
    folders = word.split(os.pathsep)
    if not all(folders):
        raise ArgumentTypeError(
            f"{word}: a folder beside '{os.pathsep}' is missing; give it, or leave the "
            f"'{os.pathsep}' out"
        )
    return [Path(folder) for folder in folders]


def _add_size_options(group) -> None:
    group.add_argument(
        "--rate",
        type=float,
        metavar="PERCENT",
        help="the student's layer parameters in percent of the teacher's (default: "
        f"{_default_rates()})",
    )
    group.add_argument(
        "--megabytes",
        type=float,
        metavar="MB",
        help="the size of the model exported to CTranslate2 in int8, embeddings included",
    )
    group.add_argument(
        "--shortlist",
        type=int,
        metavar="N",
        help="for CTranslate2: for each source piece the N target pieces that go with it most are "
        "translated to, and frequent ones (20 is a good start; worth it from 8,000 pieces on)",
    )


def _add_form_options(group) -> None:
    group.add_argument(
        "--to",
        nargs="+",
        default=(),
        choices=FORMS,
        metavar="FORM",
        help="the student also in these forms, each a folder as pet-fairseq export --to writes it, "
        "in int8 where it has a choice, and measured by pet-fairseq translate; one that cannot "
        f"hold it is refused before the training: {', '.join(FORMS)}",
    )


def _add_training_options(group) -> None:
    group.add_argument(
        "--method",
        choices=METHODS,
        default=DEFAULT_METHOD,
        help="distil: word-level distillation into a plain Transformer; deep-shallow: into one "
        "with many encoder layers and one decoder layer; pet: into one whose layers share "
        "parameters, after the simplified task; pet-patient: as pet, and the student also imitates "
        "the teacher's layers (default: %(default)s)",
    )
    group.add_argument(
        "--student-form",
        choices=STUDENT_FORMS,
        default=DEFAULT_FORM,
        help="pre-norm: fairseq's Transformer with norms before its layers; post-norm: with norms "
        "behind them, which the library transformers can hold with two dictionaries; marian: that "
        "of Marian and Bergamot, the engine of Firefox, for which it is exported; needs "
        "SentencePiece and one dictionary for both languages (default: %(default)s)",
    )
    group.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help=f"how many updates train the student (default: {MOST_EPOCHS} epochs of a text of up "
        f"to {SMALL_TEXT:,} tokens, half as many of one eight times as long, and so on; at least "
        f"{FEWEST_UPDATES:,} updates); fewer if the validation loss stops falling",
    )
    group.add_argument(
        "--hours", type=float, metavar="H", help="train for as many updates as fit into H hours"
    )
    group.add_argument(
        "--lr",
        type=float,
        metavar="RATE",
        help="the peak learning rate (default: 0.7 over the student's width, at most 0.014, or "
        "0.01 for PET); in long trainings a half or a quarter of that can be better",
    )
    group.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="how many tokens a device has in memory at a time (default: a batch, 8,192 on a GPU); "
        "with fewer, gradients are accumulated and a batch stays as large; for a GPU that is out "
        "of memory",
    )
    group.add_argument(
        "--seed", type=int, default=1, help="the random seed of the training (default: %(default)s)"
    )


def _add_test_options(group) -> None:
    group.add_argument(
        "--test",
        default="test",
        metavar="NAME",
        help="a subset of the data, or else another folder from fairseq-preprocess with a subset "
        "`test`; or a test set that sacreBLEU knows, such as sacrebleu:wmt19, in the teacher's "
        "languages or in those of sacrebleu:wmt19:de-en (default: %(default)s)",
    )
    group.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="raw target text (default: the target side of the data, detokenised)",
    )
    add_comet_option(group)
    group.add_argument(
        "--rouge", action="store_true", help="also score by ROUGE, for models that summarise"
    )
    add_text_options(group)


def updates_options(parser: ArgumentParser) -> None:
    parser.add_argument("log", type=Path, metavar="LOG", help="what fairseq-train printed")
    parser.add_argument(
        "--hours", type=float, required=True, help="the hours that all trainings together may take"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1,
        help="the share of that time for this training (default: %(default)s)",
    )
    parser.add_argument(
        "--at-least",
        type=int,
        default=1,
        metavar="N",
        help="the smallest number to print (default: %(default)s)",
    )
