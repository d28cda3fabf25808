"""Checkpoints as fairseq writes them, damaged ones and harmful ones."""

import os
from argparse import Namespace

from fairseq import checkpoint_utils

from tests.helpers import build


def write_checkpoint(path, seed=1):
    """What fairseq's trainer writes for a small model: options as dicts and a Namespace."""
    model = build(seed=seed)
    cfg = {"task": {"_name": "translation", "data": "bin"}, "model": Namespace(arch="tiny")}
    state = {
        "args": None,
        "cfg": cfg,
        "model": model.state_dict(),
        "optimizer_history": [
            {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": seed}
        ],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    checkpoint_utils.torch_persistent_save(state, str(path))
    return model


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


class Malicious:
    """Creates a file when unpickled without protection."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)
