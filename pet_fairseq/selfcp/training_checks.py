"""What is checked before a training: whether records fit into the model, and segments have tags.

The range that training draws ratios from is `drawn` here; None: all prompts have --memory-ratio.
"""

import logging
from collections.abc import Iterator
from typing import Optional

import torch

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.dataset import PromptDataset
from pet_fairseq.selfcp.draws import Range
from pet_fairseq.selfcp.options import SelfCpConfig
from pet_fairseq.selfcp.reader import PromptReader
from pet_fairseq.selfcp.segments import AT_ANY_RATIO, WITHOUT_MEMORY, memory_length

logger = logging.getLogger(__name__)


# --- memory tags ----------------------------------------------------------------------------------


def check_tags_suffice(cfg: SelfCpConfig, drawn: Optional[Range]) -> None:
    """Raise UserError if the longest segment becomes more memory tokens than there are tags."""
    if cfg.memory_tags == 1 or cfg.prompt_strategy in WITHOUT_MEMORY:  # all share one
        return
    longest = cfg.segment_tokens or cfg.window
    ratio = min([cfg.memory_ratio, *(drawn or ())])  # validation has the first
    needed = memory_length(longest, ratio)
    if cfg.memory_tags < needed:
        raise UserError(
            f"--memory-tags {cfg.memory_tags}: a segment of {longest} tokens becomes {needed} "
            f"memory tokens at ratio {ratio:g}; give as many tags, larger ratios in "
            "--memory-ratio and --memory-ratio-range, or a smaller window"
        )


# --- records --------------------------------------------------------------------------------------


def check_records_fit(
    dataset: PromptDataset, option: str, split: str, reader: PromptReader, drawn: Optional[Range]
) -> None:
    """Raise UserError if a record does not fit into the model.

    Args:
        option, split: what named the data set.
    """
    positions = reader.inner.max_positions()
    ratio = lowest_ratio(reader.cfg, drawn)
    for lengths in lengths_left(dataset, split, reader, ratio):
        needed = reader.positions_needed(*lengths, ratio)
        if needed > positions:
            at, remedy = explain(reader.cfg.prompt_strategy, ratio, drawn)
            raise UserError(
                f"{option} {split}: a query, its prompt and response come to {needed} tokens"
                f"{at}, but the backbone has {positions} positions; give {remedy}"
            )


def lowest_ratio(cfg: SelfCpConfig, drawn: Optional[Range]) -> Optional[float]:
    """The lowest ratio; None where it is raised for a prompt that would not fit."""
    if drawn is None:
        return cfg.memory_ratio
    return drawn[0] if cfg.prompt_strategy in WITHOUT_MEMORY else None


def lengths_left(
    dataset: PromptDataset, split: str, reader: PromptReader, ratio: Optional[float]
) -> Iterator[tuple[int, int, int]]:
    """The data set's `lengths`, of prompts that are thinned out those that are left.

    How much is left, only the backbone tells, which reads those that do not fit whole.
    """
    if not reader.thins_out:
        yield from dataset.lengths()
        return
    assert ratio is not None, "these strategies have no memory, and no raised ratios"
    positions = reader.inner.max_positions()
    lengths = list(dataset.lengths())
    long = {i for i, of_one in enumerate(lengths) if sum(of_one) > positions}
    if long:
        logger.info(
            f"reading {len(long):,} long records of {split}, to see how much of them is left"
        )
    for i, (query, prompt, after) in enumerate(lengths):
        yield query, tokens_left(dataset, i, reader, ratio) if i in long else prompt, after


def tokens_left(dataset: PromptDataset, index: int, reader: PromptReader, ratio: float) -> int:
    """How many tokens are left of a prompt that is thinned out."""
    record, device = dataset[index], reader.memory_tag.device
    end = torch.tensor([dataset.dictionary.eos()])
    query = torch.cat([end, record["query"].long()]).to(device)
    return len(reader.thin_out(query, record["prompt"].long().to(device), ratio))


def explain(strategy: str, ratio: Optional[float], drawn: Optional[Range]) -> tuple[str, str]:
    """At which ratio a record does not fit, and what to give in place of what was given."""
    if strategy == "full":
        return "", "a --prompt-strategy that reads less or shorter records"
    remedy = "a smaller --window or shorter records"
    if strategy in AT_ANY_RATIO:
        return "", remedy
    if ratio is None:
        return " at any memory ratio", remedy
    given = "--memory-ratio" if drawn is None else "the least of --memory-ratio-range,"
    return f" at {given} {ratio:g}", f"a larger ratio, {remedy}"
