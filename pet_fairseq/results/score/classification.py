"""The scores of a model that classifies sentences: any of fairseq's task sentence_prediction."""

import math
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Optional

import torch
from fairseq.tasks import FairseqTask
from torch import nn

from pet_fairseq.checkpoints.dictionaries import check_class_numbers, class_names
from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.checkpoints.subsets import read_batches
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError


@torch.inference_mode()
def class_scores(
    checkpoint: str,
    data: str,
    subset: str = "test",
    device: str = "auto",
    max_tokens: int = 8000,
    positive_class: Optional[str] = None,
) -> dict:
    """Classify a subset and count the sentences that get the right class.

    Args:
        checkpoint: may have plugins. data: the folder with the sentences and classes.
        device: cpu, cuda, or auto, which uses CUDA if torch finds a GPU.
        max_tokens: of a batch, padding included.
        positive_class: the class that F1 and Matthews' correlation are of.
    Returns:
        accuracy, percent; majority_class, that of always choosing the most frequent class of the
        subset; with positive_class f1 and matthews, percent; right and total, sentences; length,
        the mean number of tokens in a sentence; by_sentence, a text with 1 for each sentence that
        is right and 0 for the others, in their order.
    Raises:
        UserError: not such a model, data with other dictionaries, no such subset, one without
            classes, with classes that the model lacks, or with a text that is longer than a batch
            or than the model takes, or no such class or device.
    """
    device = check_device(device)
    model, task = load_classifier(checkpoint, data)
    model.to(device)
    head = task.cfg.classification_head_name
    positive = None if positive_class is None else class_number(task, positive_class)
    found: dict[int, tuple[int, int]] = {}  # by sentence: its class and the answer
    tokens = 0
    limits = {"max_tokens": max_tokens, "max_positions": model.max_positions()}
    for sample in read_batches(task, subset, sys.maxsize, device=device, **limits):
        if "target" not in sample:
            raise UserError(
                f"--subset {subset}: has no classes in {data}; give another subset, or run "
                "fairseq-preprocess on its labels, too"
            )
        options = {"features_only": True, "classification_head_name": head}
        logits, _ = model(**sample["net_input"], **options)
        classes, answers = sample["target"].view(-1).tolist(), logits.argmax(dim=-1).tolist()
        check_class_numbers(classes, logits.size(-1), f"--subset {subset} of {data}")
        found |= zip(sample["id"].tolist(), zip(classes, answers))
        tokens += sample["ntokens"]
    pairs = [found[i] for i in sorted(found)]
    hits = [int(answer == own) for own, answer in pairs]
    return {
        "accuracy": 100 * sum(hits) / len(hits),
        "majority_class": 100 * max(Counter(own for own, _ in pairs).values()) / len(hits),
        **({} if positive is None else positive_scores(pairs, positive)),
        "right": sum(hits),
        "total": len(hits),
        "length": round(tokens / len(hits), 1),
        "by_sentence": "".join(map(str, hits)),
    }


def load_classifier(checkpoint: str, data: str) -> tuple[nn.Module, FairseqTask]:
    """A model with a head for classes, and its task.

    Raises:
        UserError: as `load_model`, or a model without classes.
    """
    model, task = load_model(checkpoint, "CHECKPOINT", data)
    if getattr(task.cfg, "regression_target", False):
        raise UserError(
            f"CHECKPOINT {checkpoint}: was trained with --regression-target and has no classes; "
            "give a model that has"
        )
    head = getattr(task.cfg, "classification_head_name", None)
    if head not in getattr(model, "classification_heads", {}):
        raise UserError(
            f"CHECKPOINT {checkpoint}: has no classification head; fine-tune it with one"
        )
    return model, task


def class_number(task, name: str) -> int:
    """The number of a class, as the targets have it.

    Raises:
        UserError: no such class.
    """
    names = class_names(task)
    if name not in names:
        raise UserError(
            f"--positive-class {name}: the data have no such class, but {', '.join(names)}"
        )
    return names.index(name)


def positive_scores(pairs: Iterable[tuple[int, int]], positive: int) -> dict[str, float]:
    """F1 and Matthews' correlation of a class, percent, from each sentence's class and answer."""
    counts = Counter((own == positive, answer == positive) for own, answer in pairs)
    return {"f1": 100 * f1(counts), "matthews": 100 * matthews(counts)}


def f1(pairs: Counter[tuple[bool, bool]]) -> float:
    """F1 of the positive class, as GLUE has it for MRPC and QQP; 0 if nothing is found.

    Args:
        pairs: how often (the class is positive, the answer is positive).
    """
    found, wrong, missed = pairs[True, True], pairs[False, True], pairs[True, False]
    return 2 * found / (2 * found + wrong + missed) if found else 0.0


def matthews(pairs: Counter[tuple[bool, bool]]) -> float:
    """Matthews' correlation of classes and answers, from -1 to 1, as GLUE has it for CoLA.

    Args:
        pairs: as of `f1`. If all answers, or all classes, are the same, it is 0.
    """
    found, wrong, missed = pairs[True, True], pairs[False, True], pairs[True, False]
    others = pairs[False, False]
    sums = (found + wrong, found + missed, others + wrong, others + missed)
    return (found * others - wrong * missed) / math.sqrt(math.prod(sums)) if all(sums) else 0.0
