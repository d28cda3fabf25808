#!/usr/bin/env python3
"""Accuracy of a model that classifies sentences on a subset, as JSON.

    python scripts/classify.py CHECKPOINT BIN [--subset test]

The model may be any of fairseq's task sentence_prediction, also one with plugins.
"""

import argparse
import json
import sys

import torch

import pet_fairseq  # noqa: F401  registers the models
from pet_fairseq.errors import UserError
from pet_fairseq.loading import load_model, read_batches


@torch.inference_mode()
def accuracy(checkpoint: str, data: str, subset: str) -> dict:
    """Right answers in percent, and the mean number of tokens.

    Raises:
        UserError: not such a model, or no such subset.
    """
    model, task = load_model(checkpoint, "CHECKPOINT", data)
    head = getattr(task.cfg, "classification_head_name", None)
    if head not in getattr(model, "classification_heads", {}):
        raise UserError(f"CHECKPOINT {checkpoint}: has no head of classes; fine-tune it with one")
    right = total = tokens = 0
    for sample in read_batches(task, subset, sys.maxsize, max_tokens=8000):
        options = {"features_only": True, "classification_head_name": head}
        logits, _ = model(**sample["net_input"], **options)
        target = sample["target"].view(-1)
        right += int((logits.argmax(dim=-1) == target).sum())
        total += len(target)
        tokens += sample["ntokens"]
    return {
        "accuracy": 100 * right / total,
        "right": right,
        "total": total,
        "length": round(tokens / total, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("data", metavar="BIN")
    parser.add_argument("--subset", default="test")
    args = parser.parse_args()
    try:
        print(json.dumps(accuracy(args.checkpoint, args.data, args.subset)))
    except UserError as error:
        sys.exit(f"classify.py: error: {error}")


if __name__ == "__main__":
    main()
