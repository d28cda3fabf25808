"""The command that makes a bilingual model of a multilingual one."""

from argparse import ArgumentParser, Namespace

from pet_fairseq.cli_command import Command, Group, add_new_folder_option


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="of fairseq's translation_multi_simple_epoch or translation_from_pretrained_bart",
    )
    parser.add_argument("--source-lang", required=True, metavar="LANG", help="to translate from")
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="to translate to")
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="with the dictionaries that it was trained with, and data of the pair, if any "
        "(default: the folder that the checkpoint names)",
    )
    add_new_folder_option(parser)


def _run(args: Namespace) -> None:
    from pet_fairseq.multilingual.bilingual import write_bilingual

    pair = (args.source_lang, args.target_lang)
    print(write_bilingual(args.checkpoint, *pair, args.out, args.data))


COMMANDS = (
    Command(
        name="bilingual",
        group=Group.CHECKPOINTS,
        help="make a bilingual model of a multilingual one, for one pair of its languages",
        add_arguments=_arguments,
        run=_run,
    ),
)
