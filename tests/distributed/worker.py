"""One process of several that train all cases, one after the other.

Usage: worker.py FOLDER OUT RANK PROCESSES OPTIONS OF fairseq-train...
It writes what became of each case to OUT.
"""

import sys
import traceback
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from fairseq.logging import metrics
from fairseq.models import distributed_fairseq_model
from fairseq.trainer import Trainer
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.cases import CASES, DATA, Case, build, read_options


def on_cpus(device_ids, output_device, **options) -> DistributedDataParallel:
    """torch's wrapper without the device numbers that fairseq gives it, which CPUs do not have."""
    return DistributedDataParallel(**options)


distributed_fairseq_model.DistributedDataParallel = on_cpus


def train(case: Case, folder: Path, rank: int, processes: int, options: list[str]) -> dict:
    """Do three updates and a validation, each on two batches."""
    cfg = read_options(case, folder, f"--distributed-world-size={processes}", *options)
    task, model = build(cfg)
    criterion = task.build_criterion(cfg.criterion)
    batches = DATA[case.data].batches(task)
    begin = values(model, criterion)
    trainer = Trainer(cfg, task, model, criterion)
    trainer.reset_dummy_batch(batches[0])
    pairs = [batches[i : i + 2] for i in range(0, len(batches), 2)]
    if processes > 1:
        pairs = [[pair[rank] if rank < len(pair) else {}] for pair in pairs]
    logs = [trainer.train_step(samples) for samples in pairs]
    with metrics.aggregate(new_root=True) as validation:
        for sample in pairs[0]:
            trainer.valid_step(sample)
    logs.append(validation.get_smoothed_values())
    return {"begin": begin, "end": values(model, criterion), "logs": logs}


def values(model, criterion) -> dict[str, torch.Tensor]:
    """A copy of all parameters."""
    named = [*model.named_parameters(), *criterion.named_parameters("criterion")]
    return {name: tensor.detach().clone() for name, tensor in named}


def main(folder: str, out: str, rank: str, processes: str, *options: str) -> None:
    torch.set_num_threads(1)
    if int(processes) > 1:
        distributed.init_process_group(
            "gloo",
            init_method=f"file://{out}.store".replace(f".{rank}", ""),
            rank=int(rank),
            world_size=int(processes),
            timeout=timedelta(seconds=30),
        )
    results = {}
    for name, case in CASES.items():
        try:
            results[name] = train(case, Path(folder), int(rank), int(processes), list(options))
        except Exception:
            results[name] = {"error": traceback.format_exc()}
    torch.save(results, out)


main(*sys.argv[1:])
