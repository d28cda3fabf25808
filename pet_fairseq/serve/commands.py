"""The command `pet-fairseq serve`."""

from argparse import Namespace

from pet_fairseq.cli_command import Command, Group
from pet_fairseq.errors import UserError
from pet_fairseq.serve.options import add_options

MISSING = {
    "aiohttp": "aiohttp is missing",
    "prometheus_client": "prometheus_client is missing",
}


def _run(args: Namespace) -> None:
    try:
        from pet_fairseq.serve.run import serve
    except ModuleNotFoundError as error:
        if error.name not in MISSING:
            raise
        line = f"{MISSING[error.name]}; pip install 'pet-fairseq[serve]'"
        raise UserError(line) from error
    serve(args, args.rest)


COMMANDS = (
    Command(
        name="serve",
        group=Group.MAIN,
        help="answer HTTP requests, compressing as much as the load demands",
        description="Answer HTTP requests with a model; the load decides its compression ratio.",
        epilog="Also give --tokenizer and --bpe with their options, as for fairseq-interactive.",
        add_arguments=add_options,
        run=_run,
        needs_models=False,  # they are registered in the model's process
        keeps_rest=True,
    ),
)
