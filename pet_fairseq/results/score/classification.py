"""The accuracy of a model that classifies sentences: any of fairseq's task sentence_prediction."""

import sys
from collections import Counter

import torch

from pet_fairseq.checkpoints.loading import load_model, read_batches
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError


@torch.inference_mode()
def class_scores(
    checkpoint: str, data: str, subset: str = "test", device: str = "auto", max_tokens: int = 8000
) -> dict:
    """Classify a subset and count the sentences that get the right class.

    Args:
        checkpoint: may have plugins. data: the folder with the sentences and classes.
        device: cpu, cuda, or auto, which uses CUDA if torch finds a GPU.
        max_tokens: of a batch, padding included.
    Returns:
        accuracy, percent; majority_class, that of always choosing the most frequent class of the
        subset; right and total, sentences; length, the mean number of tokens in a sentence;
        by_sentence, a text with 1 for each sentence that is right and 0 for the others, in their
        order.
    Raises:
        UserError: not such a model, data with other dictionaries, no such subset, one without
            classes or with a text that is longer than a batch or than the model takes, or no such
            device.
    """
    device = check_device(device)
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
    model.to(device)
    right, tokens, classes = {}, 0, Counter()
    limits = {"max_tokens": max_tokens, "max_positions": model.max_positions()}
    for sample in read_batches(task, subset, sys.maxsize, device=device, **limits):
        if "target" not in sample:
            raise UserError(
                f"--subset {subset}: has no classes in {data}; give another subset, or run "
                "fairseq-preprocess on its labels, too"
            )
        options = {"features_only": True, "classification_head_name": head}
        logits, _ = model(**sample["net_input"], **options)
        target = sample["target"].view(-1)
        right |= zip(sample["id"].tolist(), (logits.argmax(dim=-1) == target).int().tolist())
        classes.update(target.tolist())
        tokens += sample["ntokens"]
    hits = [right[i] for i in sorted(right)]
    return {
        "accuracy": 100 * sum(hits) / len(hits),
        "majority_class": 100 * max(classes.values()) / len(hits),
        "right": sum(hits),
        "total": len(hits),
        "length": round(tokens / len(hits), 1),
        "by_sentence": "".join(map(str, hits)),
    }
