"""fairseq-train in bfloat16, on a GPU or a CPU.

fairseq's own --bf16 switches to a TPU on the command line; its trainer does not need one.
"""

import logging

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed.utils import call_main


def train(arguments: list[str]) -> None:
    """Train as `fairseq-train ARGUMENTS` does, but in bfloat16."""
    logging.root.handlers.clear()  # so that fairseq_cli.train sets up the log, not fairseq's tasks
    import fairseq_cli.train

    args = options.parse_args_and_arch(options.get_training_parser(), input_args=arguments)
    args.bf16 = True
    cfg = convert_namespace_to_omegaconf(args)
    call_main(cfg, fairseq_cli.train.main)
