"""Trains all cases in one process and in two, with one backend after the other.

Usage: worker.py FOLDER
PROCESSES.RANK.pt in the folder gets what became of each case in that process.
"""

import copy
import multiprocessing
import sys
import traceback
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from fairseq.logging import metrics
from fairseq.models import distributed_fairseq_model
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.cases import (
    BACKENDS,
    CASES,
    DATA,
    WORKERS,
    Case,
    build,
    prepare,
    read_options,
)


def on_cpus(device_ids, output_device, **options) -> DistributedDataParallel:
    """torch's wrapper without the device numbers that fairseq gives it, which CPUs do not have."""
    return DistributedDataParallel(**options)


distributed_fairseq_model.DistributedDataParallel = on_cpus


def train(case: Case, cfg: DictConfig, folder: Path, rank: int, processes: int) -> dict:
    """Do three updates and a validation, each on two batches but for the last update."""
    metrics.reset()
    task, model = build(cfg)
    criterion = task.build_criterion(cfg.criterion)
    batches = DATA[case.data].batches(task)
    begin = values(model, criterion)
    trainer = Trainer(cfg, task, model, criterion)
    trainer.reset_dummy_batch(batches[0])
    pairs = [batches[i : i + 2] for i in range(0, len(batches), 2)]
    if processes > 1:  # without a batch of its own a process gets an empty one, as from fairseq
        pairs = [[pair[rank] if rank < len(pair) else {}] for pair in pairs]
    logs = [trainer.train_step(samples) for samples in pairs]
    with metrics.aggregate(new_root=True) as validation:
        for sample in pairs[0]:
            trainer.valid_step(sample)
    logs.append(validation.get_smoothed_values())
    result = {"begin": begin, "end": values(model, criterion), "logs": logs}
    if cfg.distributed_training.ddp_backend == "legacy_ddp":
        path = str(folder / "saved.pt")
        trainer.consolidate_optimizer()
        trainer.save_checkpoint(path, {"train_iterator": {"epoch": 1}})  # the first process does it
        again = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
        again.load_checkpoint(path)  # the first process reads it and sends it to the other
        result["loaded"] = values(again.get_model(), again.get_criterion())
    return result


def values(model, criterion) -> dict[str, torch.Tensor]:
    """A copy of all parameters."""
    named = [*model.named_parameters(), *criterion.named_parameters("criterion")]
    return {name: tensor.detach().clone() for name, tensor in named}


def train_cases(read: dict[str, DictConfig], folder: Path, processes: int, rank: int) -> None:
    """Train all cases in this process, with the options as they are read."""
    if processes > 1:
        distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=processes,
            timeout=timedelta(seconds=300),
        )
    results = {}
    for backend, given in BACKENDS.items() if processes > 1 else [("", {})]:
        for name, case in CASES.items():
            cfg = copy.deepcopy(read[name])
            cfg.distributed_training.update(distributed_world_size=processes, **given)
            try:
                results[name, backend] = train(case, cfg, folder, rank, processes)
            except Exception:
                results[name, backend] = {"error": traceback.format_exc()}
    torch.save(results, folder / f"{processes}.{rank}.pt")


def main(folder: Path) -> int:
    torch.set_num_threads(1)
    prepare(folder)
    # here, once for all: it takes 0.2 seconds each
    read = {name: read_options(case, folder) for name, case in CASES.items()}
    fork = multiprocessing.get_context("fork").Process
    workers = [fork(target=train_cases, args=(read, folder, *worker)) for worker in WORKERS]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return int(any(worker.exitcode for worker in workers))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
