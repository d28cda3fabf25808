"""PET's commands of `pet-fairseq`: parse, call, print."""

from argparse import Namespace
from pathlib import Path

from pet_fairseq.cli_command import Command, Group, OneLineParser, add_sample_options
from pet_fairseq.errors import UserError, check_positive


def _params_arguments(parser: OneLineParser) -> None:
    parser.add_argument(
        "--reference",
        default="transformer_iwslt_de_en",
        metavar="ARCH_OR_CHECKPOINT",
        help="the model whose size is 100%%: the name of an architecture, or the teacher's "
        "checkpoint (default: %(default)s)",
    )
    parser.add_argument(
        "--rate",
        type=float,
        metavar="R",
        help="list the widths that bring a model with these options nearest to R percent",
    )
    parser.rename("--target-rate", "--rate")
    parser.add_argument(
        "--length",
        type=int,
        default=25,
        metavar="N",
        help="the length, in tokens, of the source and of the target sentence for which "
        "multiply-adds are counted (default: %(default)s, the mean of IWSLT'14)",
    )


def _params(args: Namespace) -> None:
    from fairseq.models.transformer import TransformerModelBase

    from pet_fairseq.nn.parameter_counts import count_parameters
    from pet_fairseq.pet import multiply_adds, params

    check_positive(length=args.length)
    options = args.rest
    checkpoint = options[0] if options and not options[0].startswith("-") else None
    if checkpoint is not None and len(options) > 1:
        raise UserError(f"{options[1]}: give a checkpoint or model options, not both")
    if checkpoint is not None and args.rate is not None:
        raise UserError("--rate: give model options instead of a checkpoint")
    reference_model = params.reference_model(args.reference)
    reference = count_parameters(reference_model)
    if args.rate is not None:
        print(params.format_widths(params.find_widths(options, args.rate, reference)))
        return
    model = (
        params.checkpoint_model(checkpoint, "CHECKPOINT")
        if checkpoint is not None
        else params.option_model(options)
    )
    print(params.format_counts(count_parameters(model), args.reference, reference))
    if not all(isinstance(m, TransformerModelBase) for m in (model, reference_model)):
        print("multiply-adds: counted for Transformers only")
        return
    cost, reference_cost = (
        multiply_adds.count_multiply_adds(m, args.length) for m in (model, reference_model)
    )
    print(multiply_adds.format_saving(cost, reference_cost, args.length))


def _sample_heads_arguments(parser: OneLineParser) -> None:
    add_sample_options(parser, "the checkpoint of the wide student", subset="train", sentences=1000)
    parser.add_argument(
        "--heads",
        type=int,
        required=True,
        metavar="N",
        help="the number of heads that each attention keeps",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the checkpoint to write"
    )
    parser.add_argument(
        "--score",
        choices=("contribution", "weight"),
        default="contribution",
        help="how heads are scored: contribution, the mean norm of what a head adds to its layer's "
        "output, or weight, the sum of its absolute weights, which is the same in all layers that "
        "share them (default: %(default)s)",
    )


def _sample_heads(args: Namespace) -> None:
    from pet_fairseq.pet.head_sampling import format_sampled, sample_heads

    print(format_sampled(sample_heads(**vars(args))))
    print(
        f"wrote {args.out}; fine-tune it with --finetune-from-model {args.out} "
        f"$(pet-fairseq model-options {args.out})"
    )


def _suggest_pairs_arguments(parser: OneLineParser) -> None:
    add_sample_options(
        parser, "the checkpoint of the trained teacher", subset="valid", sentences=200
    )
    parser.add_argument(
        "--stacks",
        default="encoder,decoder",
        metavar="NAMES",
        help="where to look for pairs: encoder, decoder or encoder,decoder (default: %(default)s)",
    )
    parser.add_argument(
        "--candidates",
        default="thesis",
        choices=("thesis", "all"),
        help="the pairs to try: those that PET's thesis considered, or every two projections "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="also write pairs.md, pairs.json and pairs.png into this folder",
    )


def _suggest_pairs(args: Namespace) -> None:
    from pet_fairseq.pet.pair_search.report import suggest_pairs

    print(suggest_pairs(**vars(args)))


COMMANDS = (
    Command(
        name="params",
        group=Group.PET,
        help="count a model's parameters and multiply-adds beside its teacher's",
        usage="pet-fairseq params [--reference R] (CHECKPOINT | --arch NAME [MODEL OPTIONS])",
        description="Count the parameters of a checkpoint, or of the model that the options "
        "describe, and say what percentage of the reference's layer parameters that is, and what "
        "share of the computation in the reference's layers it saves.",
        epilog="All other options describe the model; see fairseq-train --arch NAME --help.",
        add_arguments=_params_arguments,
        run=_params,
        keeps_rest=True,
    ),
    Command(
        name="sample-heads",
        group=Group.PET,
        help="keep the best attention heads in each layer of a wide student",
        description="Keep the best heads of every attention and write a smaller checkpoint.",
        add_arguments=_sample_heads_arguments,
        run=_sample_heads,
    ),
    Command(
        name="suggest-pairs",
        group=Group.PET,
        help="find out which parts of a trained model could share their parameters",
        add_arguments=_suggest_pairs_arguments,
        run=_suggest_pairs,
    ),
)
