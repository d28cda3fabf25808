"""Subsets of a task's data, and batches of sentences from all over them."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationTask
from tqdm import tqdm

from pet_fairseq.errors import NO_SENTENCES, UserError, check_positive
from pet_fairseq.nn.to_device import move_batch


def load_subset(task: FairseqTask, subset: str, **options: Any) -> FairseqDataset:
    """Load a subset of the task's data.

    Args:
        options: of the task's load_dataset, such as its epoch.
    Raises:
        UserError: there is no such subset, or it is empty or damaged.
    """
    try:
        task.load_dataset(subset, **options)
    except UserError:
        raise
    except (ValueError, struct.error) as error:
        if NO_SENTENCES in str(error):
            raise UserError(f"--subset {subset}: is empty; give another one") from error
        raise UserError(
            f"--subset {subset}: its files in {_data_folder(task, options)} are cut short or "
            f"damaged ({error}); run fairseq-preprocess again"
        ) from error
    except (FileNotFoundError, AssertionError) as error:  # sentence_prediction asserts
        folder = _data_folder(task, options)
        present = ", ".join(sorted({path.name.split(".")[0] for path in folder.rglob("*.idx")}))
        line = f"--subset {subset}: not in {folder}, which has {present}"
        if not present:
            line = f"{folder}: holds no data; give a folder made by fairseq-preprocess"
        raise UserError(line) from error
    return task.dataset(subset)


def _data_folder(task: FairseqTask, options: dict[str, Any]) -> Path:
    """The folder from which the epoch among the options of `load_dataset` reads."""
    folders = (task.cfg or task.args).data.split(os.pathsep)  # language_modeling has args
    return Path(folders[(options.get("epoch", 1) - 1) % len(folders)])


def read_batches(
    task: FairseqTask,
    subset: str,
    sentences: int,
    max_tokens: int,
    device: str = "cpu",
    max_positions: Union[int, tuple[int, ...], None] = None,
) -> Iterator[dict]:
    """Yield batches of at most `sentences` sentences from all over a subset, in even steps.

    On a terminal standard error shows how far it is, after some seconds.

    Args:
        max_tokens: of a batch, padding included. max_positions: as the model gives them, None if it
            takes sentences of any length.
    Raises:
        UserError: no such subset, `sentences` or `max_tokens` below 1, or a sentence that is longer
            than a batch or than the model takes.
    """
    check_positive(sentences=sentences, max_tokens=max_tokens)
    dataset = load_subset(task, subset)
    indices = even_steps(len(dataset), sentences)
    batches = batches_of_similar_length(dataset, indices, max_tokens)
    with tqdm(desc=subset, total=len(indices), unit=" sentences", disable=None, delay=5) as bar:
        for batch in batches:
            sample = dataset.collater([dataset[i] for i in batch])
            check_sample_lengths(sample, subset, max_positions)
            yield move_batch(sample, device)
            bar.update(len(batch))


def check_sample_lengths(
    sample: dict, subset: str, max_positions: Union[int, tuple[int, ...], None]
) -> None:
    """Raise UserError if a batch has more columns than the model positions, as it gives them."""
    limits = max_positions if isinstance(max_positions, tuple) else (max_positions,)
    for name, limit in zip(("src_tokens", "prev_output_tokens"), limits):
        tokens = sample["net_input"].get(name)
        if tokens is not None and limit is not None and tokens.size(1) > limit:
            raise UserError(
                f"--subset {subset}: a sentence has {tokens.size(1)} tokens, and the model takes "
                f"{limit} at most; shorten the texts and run fairseq-preprocess again"
            )


def check_batch(longest: int, max_tokens: int) -> None:
    """Raise UserError if the longest sentence, in tokens, does not fit into a batch."""
    if max_tokens < longest:
        raise UserError(
            f"--max-tokens {max_tokens}: a sentence has {longest} tokens; give {longest} or more"
        )


def read_samples(
    task: TranslationTask,
    subset: str,
    sentences: int,
    max_tokens: int,
    max_positions: tuple[int, int],
    device: str = "cpu",
) -> list[dict]:
    """Read sentences from all over a subset, in even steps, as batches of similar lengths.

    Args:
        sentences: how many at most. max_tokens: of a batch, padding included.
        max_positions: longest source and target; longer sentences are left out.
    Raises:
        UserError: no such subset, no target side or no short enough sentence in it, `sentences`
            below 1, or `max_tokens` below the longest sentence.
    """
    check_positive(sentences=sentences)
    dataset = load_subset(task, subset)
    if dataset.tgt is None:
        raise UserError(f"--subset {subset}: has no target sentences in {task.cfg.data}")
    indices = spread_indices(dataset, subset, sentences, max_positions)
    samples = [
        dataset.collater([dataset[i] for i in batch])
        for batch in batches_of_similar_length(dataset, indices, max_tokens)
    ]
    return [move_batch(sample, device) for sample in samples]


def spread_indices(
    dataset: FairseqDataset, subset: str, sentences: int, max_positions: tuple[int, int]
) -> list[int]:
    """Choose sentences from all over a data set, in even steps; too long ones are left out.

    Raises:
        UserError: none is left.
    """
    indices = np.array(even_steps(len(dataset), sentences), dtype=np.int64)
    indices, _ = dataset.filter_indices_by_size(indices, max_positions)
    if not len(indices):
        raise UserError(
            f"--subset {subset}: none of its {len(dataset)} sentences can be read by the model, "
            f"which takes {max_positions[0]} source and {max_positions[1]} target tokens at most"
        )
    return list(indices)


def even_steps(total: int, number: int) -> list[int]:
    """At most `number` of the indices below `total`, in even steps from the first on."""
    number = min(number, total)
    return [i * total // number for i in range(number)]


def batches_of_similar_length(
    dataset: FairseqDataset, indices: list[int], max_tokens: int
) -> list[list[int]]:
    """Divide indices into batches of at most `max_tokens` tokens, padding included, short first.

    Raises:
        UserError: a single sentence is longer.
    """
    indices = sorted(indices, key=dataset.num_tokens)
    if indices:
        check_batch(dataset.num_tokens(indices[-1]), max_tokens)
    batches: list[list[int]] = []
    for index in indices:  # each is the longest of its batch so far
        if not batches or (len(batches[-1]) + 1) * dataset.num_tokens(index) > max_tokens:
            batches.append([])
        batches[-1].append(index)
    return batches
