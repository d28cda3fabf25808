"""The command `pet-fairseq serve`."""

from pet_fairseq.errors import UserError
from pet_fairseq.serve import options


def add_commands(commands) -> None:
    command = commands.add_parser(
        "serve",
        help="answer HTTP requests with a model, its compression ratio chosen by the load",
        epilog="also --tokenizer and --bpe with their options, as for fairseq-interactive",
        allow_abbrev=False,
    )
    options.add_options(command)
    command.set_defaults(run=_serve)


def _serve(args, rest) -> int:
    try:
        from pet_fairseq.serve.run import serve
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise UserError("aiohttp is missing; pip install 'pet-fairseq[serve]'") from error
    serve(args, rest)
    return 0
