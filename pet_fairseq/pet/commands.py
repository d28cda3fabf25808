"""PET's commands of `pet-fairseq`: parse, call, print."""

from pathlib import Path

from pet_fairseq.command_options import add_sample_options
from pet_fairseq.errors import UserError


def add_commands(commands) -> None:
    """Add them to argparse's sub-parsers."""
    command = commands.add_parser(
        "params",
        help="parameters and compression rate of a checkpoint or of model options",
        usage="pet-fairseq params [--reference R] (CHECKPOINT | --arch NAME [MODEL OPTIONS])",
        description="Counts the parameters of a checkpoint, or of the model of some options.",
        epilog="all other options go to the model, see fairseq-train --arch NAME --help",
        allow_abbrev=False,
    )
    command.add_argument(
        "--reference",
        default="transformer_iwslt_de_en",
        metavar="ARCH_OR_CHECKPOINT",
        help="what 100%% is: an architecture or the teacher's checkpoint (default: %(default)s)",
    )
    command.add_argument(
        "--target-rate",
        type=float,
        metavar="R",
        help="list widths for these options whose compression rate is nearest to R percent",
    )
    command.set_defaults(run=_params)

    command = commands.add_parser(
        "model-options",
        help="the options for fairseq-train that build a checkpoint's model again",
    )
    command.add_argument("checkpoint", metavar="CHECKPOINT", help="a file that fairseq wrote")
    command.set_defaults(run=_model_options)

    command = commands.add_parser(
        "sample-heads",
        help="keep the best attention heads of each layer of a wide PET student",
        description="Keeps the best heads of every attention and writes a smaller checkpoint.",
    )
    add_sample_options(command, "the wide student", subset="train", sentences=1000)
    command.add_argument("--heads", type=int, required=True, help="heads to keep per attention")
    command.add_argument("--out", type=Path, required=True, help="checkpoint to write")
    command.add_argument(
        "--score",
        choices=("contribution", "weight"),
        default="contribution",
        help="contribution: mean norm of what a head adds to its layer's output; weight: sum of "
        "its absolute weights, equal in layers that share them (default: %(default)s)",
    )
    command.set_defaults(run=_sample_heads)

    command = commands.add_parser(
        "suggest-pairs", help="which slots of a trained model could share parameters"
    )
    add_sample_options(command, "the trained teacher", subset="valid", sentences=200)
    command.add_argument(
        "--stacks", default="encoder,decoder", help="encoder, decoder or both (default: both)"
    )
    command.add_argument(
        "--candidates",
        default="thesis",
        choices=("thesis", "all"),
        help="the pairs that PET's thesis considered, or every two projections",
    )
    command.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for pairs.md, pairs.json and pairs.png"
    )
    command.set_defaults(run=_suggest_pairs)


def _params(args, rest) -> int:
    from pet_fairseq.pet import sizes

    checkpoint = rest[0] if rest and not rest[0].startswith("-") else None
    if checkpoint is not None and len(rest) > 1:
        raise UserError(f"{rest[1]}: give a checkpoint or model options, not both")
    if checkpoint is not None and args.target_rate is not None:
        raise UserError("--target-rate: give model options instead of a checkpoint")
    reference = sizes.reference_counts(args.reference)
    if args.target_rate is not None:
        print(sizes.format_widths(sizes.find_widths(rest, args.target_rate, reference)))
        return 0
    counts = (
        sizes.checkpoint_counts(checkpoint, "CHECKPOINT")
        if checkpoint is not None
        else sizes.option_counts(rest)
    )
    print(sizes.format_counts(counts, args.reference, reference))
    return 0


def _model_options(args, rest) -> int:
    from pet_fairseq.model_options import model_options

    print(" ".join(model_options(args.checkpoint)))
    return 0


def _sample_heads(args, rest) -> int:
    from pet_fairseq.pet.head_sampling import format_sampled, sample_heads

    options = {k: v for k, v in vars(args).items() if k not in ("command", "run")}
    print(format_sampled(sample_heads(**options)))
    print(
        f"wrote {args.out}; fine-tune it with --finetune-from-model {args.out} "
        f"$(pet-fairseq model-options {args.out})"
    )
    return 0


def _suggest_pairs(args, rest) -> int:
    from pet_fairseq.pet.pair_report import suggest_pairs

    options = {k: v for k, v in vars(args).items() if k not in ("command", "run")}
    print(suggest_pairs(**options))
    return 0
