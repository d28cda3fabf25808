"""A RoBERTa of random weights with plugins, texts for it, and a server process that has it.

Imported by serve.py and serve_accuracy.py beside it, and by scripts in scripts/reliability.
"""

import contextlib
import logging
import os
import random
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Union

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

import pet_fairseq
from pet_fairseq.variator.model import VariatorModel
from pet_fairseq.variator.options import VariatorConfig

pet_fairseq.register()
logging.getLogger("asyncio").setLevel(logging.WARNING)  # fairseq turns on every logger

WORDS = 1000
HEAD = "sentence_classification_head"


class Shape(NamedTuple):
    """Sizes of the model and its plugins."""

    layers: int
    width: int
    ffn: int
    heads: int
    ratios: Sequence[int]
    bottleneck_dim: int = 64
    site: str = "ffn"


class Server(NamedTuple):
    address: str
    process: subprocess.Popen

    @property
    def pid(self) -> int:
        """The process that listens."""
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        """The process that listens, and its children, one of which has the model (Linux)."""
        started = Path(f"/proc/{self.pid}/task").glob("*/children")
        return [self.pid, *(int(pid) for file in started for pid in file.read_text().split())]

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self.address.removeprefix("http://").split(":")
        return host, int(port)


def make_task(folder: Path) -> SentencePredictionTask:
    for name, words in (("input0", [f"w{i}" for i in range(WORDS)]), ("label", ["no", "yes"])):
        (folder / name).mkdir()
        dictionary = Dictionary()
        for word in words:
            dictionary.add_symbol(word)
        dictionary.save(str(folder / name / "dict.txt"))
    cfg = SentencePredictionConfig(data=str(folder), num_classes=2, init_token=0)
    cfg.classification_head_name, cfg.regression_target, cfg.seed = HEAD, False, 1
    return SentencePredictionTask.setup_task(cfg)


def save(path: Path, model, model_cfg: Namespace, task) -> str:
    options = {**vars(task.cfg), "_name": "sentence_prediction"}
    state = {
        "args": None,
        "cfg": {"model": model_cfg, "task": options},
        "model": model.state_dict(),
        "optimizer_history": [{"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 1}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save(state, path)
    return str(path)


def make_files(folder: Path, shape: Shape) -> str:
    """Write a random backbone and plugins, and return the CHECKPOINT for them."""
    torch.manual_seed(1)
    task = make_task(folder)
    options = Namespace(
        arch="roberta_base",
        _name="roberta_base",
        encoder_layers=shape.layers,
        encoder_embed_dim=shape.width,
        encoder_ffn_embed_dim=shape.ffn,
        encoder_attention_heads=shape.heads,
        max_positions=512,
    )
    ARCH_CONFIG_REGISTRY["roberta_base"](options)
    backbone = build_model(options, task)
    backbone.register_classification_head(HEAD, num_classes=2)
    path = save(folder / "backbone.pt", backbone, options, task)
    files = []
    for ratio in shape.ratios:
        cfg = VariatorConfig(
            backbone_path=path,
            compression_ratio=ratio,
            bottleneck_dim=shape.bottleneck_dim,
            compression_site=shape.site,
        )
        cfg._name = "variator"
        model = VariatorModel.build_model(cfg, task)
        files.append(save(folder / f"{ratio}.pt", model, Namespace(**vars(cfg)), task))
    return os.pathsep.join(files)


def random_texts(lengths: Sequence[int], count: int = 500) -> list[str]:
    """Texts of different numbers of words, from the shortest to the longest."""
    draw = random.Random(1)
    return [
        " ".join(f"w{draw.randrange(WORDS)}" for _ in range(draw.randint(*lengths)))
        for _ in range(count)
    ]


@contextlib.contextmanager
def server(*options, log: Union[int, IO] = subprocess.DEVNULL) -> Iterator[Server]:
    """A server on a free port, and where its log goes; it is told to stop after the block."""
    command = [sys.executable, "-m", "pet_fairseq.cli", "serve", "--port", "0", *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        for line in process.stdout or ():
            if line.startswith("listening on "):
                break
        else:
            raise SystemExit(f"the server did not start; try: {' '.join(command)}")
        yield Server(line.split()[-1], process)
    finally:
        process.terminate()
        process.wait()
