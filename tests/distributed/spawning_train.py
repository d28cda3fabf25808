"""fairseq-train as it runs on a machine with two GPUs: it starts a process for each by itself.

torch is made to count two GPUs; with --cpu fairseq then does all that it does there, on the CPU.

Usage: spawning_train.py ARGUMENTS OF fairseq-train...
"""

import torch

torch.cuda.device_count = lambda: 2

from fairseq_cli.train import cli_main  # noqa: E402  reads the number of GPUs when it is loaded

if __name__ == "__main__":
    cli_main()
