"""The map of memory tokens: their cosines with the prompt's tokens (SelfCP, Figure 4)."""

from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from pet_fairseq.checkpoints.subsets import load_subset
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder, write_figure, write_json
from pet_fairseq.nn.to_device import move_batch
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.reading_plan import plan_reading
from pet_fairseq.selfcp.task import load_selfcp

MOST_LABELLED = 60  # tokens up to which the axis names each


class SegmentMap(NamedTuple):
    """A compressed part of one prompt, and how similar its memory tokens are to its words."""

    words: list[str]
    cosines: Tensor  # memory tokens x words, on the CPU


def cosines(memory: Tensor, tokens: Tensor) -> Tensor:
    """The cosine of each vector of `memory` (m x C) with each of `tokens` (n x C): m x n."""
    return F.normalize(memory, dim=1) @ F.normalize(tokens, dim=1).T


@torch.inference_mode()
def similarities(model: SelfCpModel, query: Tensor, prompt: Tensor) -> list[SegmentMap]:
    """Compare the memory of each segment of a prompt with the embeddings of its words.

    Args:
        query, prompt: tokens, on any device.
    """
    reader, cfg = model.encoder, model.cfg
    dictionary, embed = reader.dictionary, reader.inner.embed_tokens
    query = torch.cat([query.new_tensor([dictionary.eos()]), query])
    words = [dictionary[i] for i in prompt.tolist()]
    query, prompt = move_batch([query, prompt], embed.weight.device)
    plan = plan_reading(
        [len(prompt)],
        cfg.window,
        [cfg.prompt_strategy],
        [cfg.memory_ratio],
        longest=cfg.segment_tokens,
    )
    (pieces,) = reader.carry_out(plan, [query], [prompt], [prompt])
    maps = []
    for piece, memory in zip(plan.pieces[0], pieces):
        if piece.compressed:
            segment = slice(piece.start, piece.stop)
            similarity = cosines(memory, embed(prompt[segment]))
            maps.append(SegmentMap(words[segment], similarity.cpu()))
    return maps


def memory_map(
    path: str, data: str, subset: str, index: int, out: Path, device: str = "cpu", **overrides
) -> list[SegmentMap]:
    """Write memory_map.json and memory_map.png for one record of a subset.

    Raises:
        UserError: not a model of this kind, no such record, one that is not compressed, or no such
            device.
    """
    device = check_device(device)
    model, task = load_selfcp(path, data, **overrides)
    dataset = load_subset(task, subset)
    if not 0 <= index < len(dataset):
        raise UserError(f"--index {index}: {subset} has records 0 to {len(dataset) - 1}")
    record = dataset[index]
    maps = similarities(model.to(device), record["query"].long(), record["prompt"].long())
    if not maps:
        raise UserError(
            f"--index {index}: nothing of its prompt of {len(record['prompt'])} tokens is "
            f"compressed with --prompt-strategy {model.cfg.prompt_strategy}; give a longer one, "
            "or a strategy that compresses"
        )
    check_folder(out, "--out")
    content = [{"words": s.words, "cosines": s.cosines.tolist()} for s in maps]
    figure = plot(maps)
    write_json(out / "memory_map.json", content)
    write_figure(out / "memory_map.png", figure)
    return maps


def plot(maps: list[SegmentMap]) -> Figure:
    """Plot a panel for each segment: memory tokens down, the segment's words across."""
    longest = max(len(segment.words) for segment in maps)
    size = (max(6, min(24, 0.16 * longest)), sum(1.6 + 0.12 * len(s.cosines) for s in maps))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(maps), 1, squeeze=False)[:, 0]
    limit = max(float(segment.cosines.abs().max()) for segment in maps)
    for axes, segment in zip(panels, maps):
        image = axes.imshow(segment.cosines, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit)
        axes.set(ylabel="memory token", xlabel="token of the prompt")
        if len(segment.words) <= MOST_LABELLED:
            style = {"rotation": 90, "fontsize": 6, "parse_math": False}  # a `$` is no formula
            axes.set_xticks(range(len(segment.words)), segment.words, **style)
    figure.suptitle("How near the memory tokens of each segment are to its words")
    figure.colorbar(image, ax=list(panels), label="cosine")
    return figure
