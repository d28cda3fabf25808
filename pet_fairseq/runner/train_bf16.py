"""fairseq-train in bfloat16, on a GPU or a CPU.

fairseq's own --bf16 switches to a TPU on the command line; its trainer does not need one.
"""

import logging
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed.utils import call_main
from torch.nn.attention import SDPBackend, sdpa_kernel


def train(arguments: list[str]) -> None:
    """Train as `fairseq-train ARGUMENTS` does, but in bfloat16."""
    for library in ("fairseq", "pet_fairseq"):  # what pet-fairseq silences, but not in trainings
        logging.getLogger(library).setLevel(logging.INFO)
    logging.root.handlers.clear()  # so that fairseq_cli.train sets up the log, not fairseq's tasks
    import fairseq_cli.train

    args = options.parse_args_and_arch(options.get_training_parser(), input_args=arguments)
    args.bf16 = True
    cfg = convert_namespace_to_omegaconf(args)
    with attention_kernel(args):
        call_main(cfg, fairseq_cli.train.main)


def attention_kernel(args: Namespace) -> AbstractContextManager:
    """The block in which torch computes attention by the faster of its kernels.

    On a CPU the gradient of torch's fused kernel takes 20 ms a call in bfloat16, however short the
    sequences; plain attention is faster for up to about 150 tokens. So sentences have that, prompts
    and blocks of text do not.
    """
    of_sentences = hasattr(args, "source_lang") or hasattr(args, "num_classes")
    return sdpa_kernel(SDPBackend.MATH) if args.cpu and of_sentences else nullcontext()
