"""The command `pet-fairseq export`."""

import sys
from argparse import Namespace

from pet_fairseq.cli_command import (
    Command,
    Group,
    OneLineParser,
    add_new_folder_option,
)

FORMS = ("fairseq", "ctranslate2", "huggingface", "onnx", "marian")


def _arguments(parser: OneLineParser) -> None:
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a Transformer, a PET student or a model of --arch low_rank, or the folder of "
        "import-hf, bilingual or export that holds one",
    )
    parser.add_argument(
        "--data",
        metavar="BIN",
        help="the folder that fairseq-preprocess wrote (default: CHECKPOINT if that is a folder, "
        "else the one that it names)",
    )
    parser.add_argument(
        "--to",
        required=True,
        choices=FORMS,
        help="the software that is to run the model",
    )
    parser.add_argument(
        "--precision",
        metavar="TYPE",
        help="the type of the weights for CTranslate2, ONNX or Bergamot: fp32 (default) or "
        "int8; for CTranslate2 also fp16, bf16, int16, or what it calls int8_float32, "
        "int8_float16 and int8_bfloat16",
    )
    parser.rename("--quantization", "--precision")
    parser.add_argument(
        "--shortlist",
        type=int,
        metavar="N",
        help="compute the logits of few target pieces only: for each source piece the N that go "
        "with it most in the training set of --data (20 is a good start), and frequent ones; for "
        "--to ctranslate2",
    )
    parser.add_argument(
        "--segmentation",
        metavar="FILE",
        help="BPE codes or the SentencePiece model of the training text, for --to "
        "huggingface, onnx and marian (default: the one that pet-fairseq translate finds)",
    )
    parser.add_argument(
        "--backbone-path",
        metavar="FILE",
        help="of a model of --arch low_rank: the checkpoint of the frozen model, if it is no "
        "longer where it was",
    )
    add_new_folder_option(parser)


def _run(args: Namespace) -> None:
    from pet_fairseq.export.export import ONLY_FOR, export

    options = {name: getattr(args, name) for name in ONLY_FOR}
    lacks = export(args.checkpoint, args.data, args.to, args.out, args.backbone_path, **options)
    if lacks is not None:
        print(lacks, file=sys.stderr)
    print(f"wrote {args.out}")


COMMANDS = (
    Command(
        name="export",
        group=Group.MAIN,
        help="write a translation model for fairseq, CTranslate2, transformers, ONNX, Marian",
        description="Write a folder with the model's plain form, in which no parameters are "
        "shared between layers and every attention has only the heads that it uses. Of a model of "
        "--arch low_rank, of any task, --to fairseq writes the model with the updates in its "
        "weights, which may need this package.",
        add_arguments=_arguments,
        run=_run,
    ),
)
