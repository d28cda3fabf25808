"""Demonstrations as memory tokens: into a bank, and out of it for a prompt (SelfCP, section 3.2).

A demonstration is a record's query, prompt and response, compressed as one segment after </s>.
Its key is its first memory token; the key that is searched for is that of a query and prompt,
compressed in the same way (SelfCP, eq. 4). A causal model's first memory token does not depend on
how many follow, so the search compresses to one.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Optional, Union

import numpy as np
import torch
from torch import Tensor

from pet_fairseq.checkpoints.backbone import file_hash
from pet_fairseq.checkpoints.dictionaries import dictionary_hash
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder
from pet_fairseq.selfcp.bank.bank import Bank, Hit, Writer, create, locked
from pet_fairseq.selfcp.bank.manifest import MANIFEST, Manifest, Source, read_manifest
from pet_fairseq.selfcp.compressor import Compressor
from pet_fairseq.selfcp.dataset import PromptDataset
from pet_fairseq.selfcp.segments import memory_length

MADE_WITH = {  # what memory depends on, by its key in the manifest, in a user's words
    "backbone": "backbone",
    "connector": "memory tag and connector",
    "dictionary": "dictionary",
}


# --- whose memory it is ---------------------------------------------------------------------------


def made_with(compressor: Compressor) -> dict[str, str]:
    """SHA-256 of what the memory depends on, by the names of MADE_WITH."""
    return {
        "backbone": bytes(file_hash(compressor.cfg.backbone_path).tolist()).hex(),
        "connector": compressor.weights_hash,
        "dictionary": dictionary_hash(compressor.dictionary).hex(),
    }


def check_made_with(manifest: Manifest, folder: Path, compressor: Compressor) -> None:
    """Raise UserError if the memory is of another model, naming the part that differs."""
    for part, ours in made_with(compressor).items():
        theirs = manifest.made_with.get(part, "none")
        if theirs != ours:
            raise UserError(
                f"{folder}: built with another {MADE_WITH[part]} (sha256 {theirs[:12]}) than this "
                f"model's ({ours[:12]}); give the bank of this model"
            )


def open_bank(folder: Path, compressor: Compressor) -> Bank:
    """Open the bank of demonstrations that a compressor made.

    Raises:
        UserError: no bank, damaged, unfinished, or of another model.
    """
    bank = Bank(folder)
    check_made_with(bank.manifest, folder, compressor)
    if bank.manifest.unfinished:
        raise UserError(f"{folder}: {bank.manifest.unfinished}")
    return bank


# --- texts ----------------------------------------------------------------------------------------


def longest_text(positions: int, ratio: float) -> int:
    """The most tokens of text that fit into the positions with </s> and the memory tags."""
    return next(n for n in range(positions, 0, -1) if 1 + n + memory_length(n, ratio) <= positions)


def segment(
    compressor: Compressor, text: Tensor, ratio: float, response: Optional[Tensor] = None
) -> Tensor:
    """The segment of a demonstration or of a search: </s>, the text, and the response after it.

    If the backbone has no positions for all of it, the latter part of the text is cut off (SelfCP,
    section 3.2), and if that is not enough, the latter part of the response.
    """
    longest = longest_text(compressor.inner.max_positions(), ratio)
    response = text[:0] if response is None else response[:longest]
    whole = torch.cat([text[: longest - len(response)], response]).long().cpu()
    end = torch.tensor([compressor.dictionary.eos()])
    return torch.cat([end, whole]).to(compressor.memory_tag.device)


def digest(text: Tensor) -> int:
    """64 bits of a hash of the tokens, by which to tell whether two texts are the same."""
    tokens = text.cpu().numpy().astype("<i4").tobytes()
    return int.from_bytes(hashlib.blake2b(tokens, digest_size=8).digest(), "little")


# --- out of a bank --------------------------------------------------------------------------------


@torch.no_grad()
def find(bank: Bank, compressor: Compressor, texts: list[Tensor], shots: int) -> list[list[Hit]]:
    """Find demonstrations for texts (query and prompt), best first; none of the text itself."""
    segments = [[segment(compressor, text, bank.manifest.memory_ratio)] for text in texts]
    keys = torch.cat(compressor.compress(segments, [1] * len(segments)))
    return bank.search(keys.float().cpu().numpy(), shots, [digest(text) for text in texts])


def recall_memory(
    bank: Bank, compressor: Compressor, texts: list[Tensor], shots: int
) -> list[Sequence[Tensor]]:
    """The memory tokens (m x C) of each text's demonstrations, the most similar one last."""
    like = compressor.memory_tag
    return [
        [torch.tensor(bank.memory(hit.number)).to(like) for hit in reversed(hits)]
        for hits in find(bank, compressor, texts, shots)
    ]


# --- into a bank ----------------------------------------------------------------------------------


def ratio_of(folder: Path, compressor: Compressor, wanted: Optional[float]) -> float:
    """The ratio of the bank in a folder; if there is none, the wanted one or the model's.

    Raises:
        UserError: the bank there has another ratio than the wanted one.
    """
    if not (folder / MANIFEST).is_file():
        return wanted or float(compressor.cfg.memory_ratio)
    ratio = read_manifest(folder).memory_ratio
    if wanted not in (None, ratio):
        raise UserError(
            f"--memory-ratio {wanted:g}: {folder} was begun with {ratio:g}; give that or another "
            "folder"
        )
    return ratio


def describe(
    compressor: Compressor, records: PromptDataset, data: str, subset: str, ratio: float
) -> Source:
    """Describe where demonstrations come from.

    Raises:
        UserError: there are none.
    """
    if records.parts["response"] is None or not len(records):
        missing = "responses" if len(records) else "records"
        raise UserError(f"--subset {subset}: has no {missing} in {data}; give one that has")
    files = [
        Path(data, f"{subset}.{part}.{end}") for part in records.parts for end in ("bin", "idx")
    ]
    hashes = bytes(number for file in files for number in file_hash(str(file)).tolist())
    lengths = np.sum([part.sizes for part in records.parts.values()], axis=0)
    cut = int((lengths > longest_text(compressor.inner.max_positions(), ratio)).sum())
    return Source(data, subset, hashlib.sha256(hashes).hexdigest(), len(records), cut)


def start(folder: Path, compressor: Compressor, source: Source, ratio: float) -> None:
    """Make an empty bank, if there is none yet.

    Raises:
        UserError: there is a bank of other data, or there are other files.
    """
    check_folder(folder, "--out")
    with locked(folder):
        if not (folder / MANIFEST).is_file():
            create(folder, compressor.memory_tag.size(-1), ratio, made_with(compressor))
        sources = read_manifest(folder).sources
    if sources and sources[0].sha256 != source.sha256:
        raise UserError(
            f"--out {folder}: a bank of other data ({sources[0].subset} of {sources[0].data}); "
            "give another folder, or add to it with `pet-fairseq bank add`"
        )


def fill(
    folder: Path,
    compressor: Compressor,
    records: Union[PromptDataset, Sequence[dict]],
    source: Source,
    block: int,
    report: Callable[[str], None],
) -> int:
    """Append the records that the bank does not hold yet, and return how many these are.

    Args:
        block: how many are compressed and written together; report: is given lines of progress.
    Raises:
        UserError: a bank that is damaged, of another model, or unfinished with other data.
    """
    with locked(folder):
        writer = Writer(folder)
        check_made_with(writer.manifest, folder, compressor)
        done = writer.begin(source)
        for begin in range(done, len(records), block):
            end = min(begin + block, len(records))
            batch = [records[i] for i in range(begin, end)]
            writer.append(*compress_records(compressor, batch, writer.manifest.memory_ratio))
            report(f"{end:,} of {len(records):,} demonstrations")
    return len(records) - done


def prompt_of(record: dict) -> Tensor:
    """The tokens of a record's query and prompt."""
    return torch.cat([record["query"], record["prompt"]])


@torch.no_grad()
def compress_records(
    compressor: Compressor, records: list[dict], ratio: float
) -> tuple[list[np.ndarray], list[int]]:
    """Compress demonstrations.

    Returns:
        memory tokens of each, m x C in single precision; digests of each one's query and prompt.
    """
    prompts = [prompt_of(record) for record in records]
    texts = [
        segment(compressor, prompt, ratio, record["response"])
        for prompt, record in zip(prompts, records)
    ]
    numbers = [max(1, memory_length(len(text) - 1, ratio)) for text in texts]
    memories = compressor.compress([[text] for text in texts], numbers)
    return [m.float().cpu().numpy() for m in memories], [digest(prompt) for prompt in prompts]
