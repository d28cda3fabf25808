"""One rank of a distributed fairseq-train; writes its parameters to a file when it is done.

Usage: remembering_train.py OUT ARGUMENTS OF fairseq-train...
"""

import sys

import fairseq_cli.train
import torch

out = sys.argv.pop(1)
trainers = []


class RememberedTrainer(fairseq_cli.train.Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        trainers.append(self)


fairseq_cli.train.Trainer = RememberedTrainer
fairseq_cli.train.cli_main()
torch.save(dict(trainers[0].model.state_dict()), out)
