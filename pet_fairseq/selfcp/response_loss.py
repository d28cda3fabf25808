"""How well a model predicts the responses of records, record by record."""

import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
import torch

from pet_fairseq.checkpoints.subsets import read_batches
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder_of, read_text, write_json
from pet_fairseq.markdown import table
from pet_fairseq.selfcp.task import load_selfcp
from pet_fairseq.statistics import BOOTSTRAP_SAMPLES, Difference, bootstrap


@torch.inference_mode()
def response_losses(
    path: str,
    data: str,
    subset: str = "test",
    sentences: int = sys.maxsize,
    max_tokens: int = 8000,
    device: str = "cpu",
    out: Optional[Path] = None,
    **overrides,
) -> dict:
    """The loss of each record's response, and of all.

    Args:
        sentences: how many records at most, from all over the subset.
        overrides: options of the model, such as prompt_strategy.
    Returns:
        nll (nats per token of the responses and their </s>), perplexity, the mean number of tokens
        and memory tokens read in place of query and prompt, and by record, in the order of the
        subset, `nats` and `tokens`.
    Raises:
        UserError: no such files, or not a model of this kind.
    """
    check_folder_of(out, "--out")
    device = check_device(device)
    model, task = load_selfcp(path, data, **overrides)
    model.to(device)
    by_record: dict[int, tuple[float, int]] = {}
    read = 0
    for sample in read_batches(task, subset, sentences, max_tokens, device):
        logits, extra = model(**sample["net_input"])[:2]
        target = sample["target"]
        real = target.ne(task.dictionary.pad())
        lprobs = logits.float().log_softmax(dim=-1).gather(2, target[..., None])[..., 0]
        nats = -lprobs.masked_fill(~real, 0).sum(dim=1, dtype=torch.float64)
        records = zip(sample["id"].tolist(), nats.tolist(), real.sum(dim=1).tolist())
        by_record |= {number: (loss, tokens) for number, loss, tokens in records}
        read += int(extra["read"].sum())
    losses, tokens = zip(*(by_record[number] for number in sorted(by_record)))
    nll = sum(losses) / sum(tokens)
    result = {
        "nll": nll,
        "perplexity": math.exp(nll),
        "total": len(losses),
        "read": read / len(losses),
        "nats": losses,
        "tokens": tokens,
    }
    if out is not None:
        write_json(out, result)
    return result


# --- rows side by side ----------------------------------------------------------------------------


class Losses(NamedTuple):
    """What `response_losses` found of a row: a mean over its seeds for each record."""

    name: str
    nats: Sequence[float]
    tokens: Sequence[int]
    read: float

    @property
    def nll(self) -> float:
        return sum(self.nats) / sum(self.tokens)


def compare_losses(words: Sequence[str], against: str) -> str:
    """A table of rows: nll, and the difference to one of them with its 95% interval.

    Args:
        words: NAME=FILE of `response_losses`; several files of one name are its seeds.
    Raises:
        UserError: a file that cannot be read, no row `against`, or rows of other records.
    """
    files: dict[str, list[Path]] = {}
    for word in words:
        name, _, file = word.partition("=")
        if not (name and file):
            raise UserError(
                f"{word}: give NAME=FILE, for example own=runs/former.seed1/result.json"
            )
        files.setdefault(name, []).append(Path(file))
    if against not in files:
        raise UserError(f"--against {against}: not among {', '.join(files)}")
    rows = {name: mean_over_seeds(name, paths) for name, paths in files.items()}
    base = rows[against]
    cells = [
        [
            *(name, f"{row.read:.1f}", f"{row.nll:.3f}", f"{math.exp(row.nll):.2f}"),
            "" if row is base else paired_difference(row, base).text(digits=3),
        ]
        for name, row in rows.items()
    ]
    return table(["row", "read", "nll", "perplexity", f"nll minus that of {against}"], cells)


def mean_over_seeds(name: str, files: Sequence[Path]) -> Losses:
    """Losses that are means over files; raises UserError if they are of different records."""
    seeds = [read_losses(name, file) for file in files]
    check_same_records(seeds)
    nats = [statistics.fmean(losses) for losses in zip(*(seed.nats for seed in seeds))]
    return Losses(name, nats, seeds[0].tokens, statistics.fmean(seed.read for seed in seeds))


def read_losses(name: str, file: Path) -> Losses:
    """The losses in a file; raises UserError if it cannot be read."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; make it by pet-fairseq response-loss")
    try:
        content = json.loads(read_text(file, name))
        return Losses(name, content["nats"], content["tokens"], float(content["read"]))
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{file}: has no losses; make it by pet-fairseq response-loss") from error


def check_same_records(rows: Sequence[Losses]) -> None:
    """Raise UserError if rows are of different records, as far as the lengths tell."""
    for row in rows[1:]:
        if list(row.tokens) != list(rows[0].tokens):
            raise UserError(
                f"{row.name}: has other responses than {rows[0].name}; score the same data"
            )


def paired_difference(ours: Losses, theirs: Losses) -> Difference:
    """The difference in nats per token, over records that are drawn anew with replacement.

    Raises:
        UserError: the rows are of different records.
    """
    check_same_records([theirs, ours])
    nats, tokens = np.subtract(ours.nats, theirs.nats), np.asarray(ours.tokens, dtype=float)
    return bootstrap(
        lambda drawn: nats[drawn].sum() / tokens[drawn].sum(), len(nats), BOOTSTRAP_SAMPLES
    )
