"""Memory tokens of demonstrations on disk, found by the cosine of the first ones (SelfCP, eq. 4).

A bank is a folder of three files that only grow, and a manifest that says how much of them counts:

memory.f32  the memory tokens, one demonstration after another: M x C
first.f32   the first memory token of each, scaled to length 1: N x C
index.bin   where each one's memory ends, a digest of its text, the crc32 of its memory
bank.json   what made the bank and of which data; block by block the SHA-256 of the last two files

C is the width of the language model. Numbers are little-endian. Bytes that the manifest does not
count are left from an interrupted build: they are not read, and the next build overwrites them.
"""

import hashlib
import os
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np

from pet_fairseq.errors import UserError
from pet_fairseq.files import folder_lock, temporary_path
from pet_fairseq.selfcp.bank.manifest import MANIFEST, Block, Manifest, Source, read_manifest

FILES = MEMORY, FIRST, INDEX = "memory.f32", "first.f32", "index.bin"
FLOAT = np.dtype("<f4")
ENTRY = np.dtype([("end", "<u8"), ("text", "<u8"), ("crc", "<u4")])
MAX_KEYS = 32  # how many are compared with the bank in one product


class Hit(NamedTuple):
    """The number of a demonstration, counted from 0, and the cosine of its key with the query's."""

    number: int
    cosine: float


class Bank:
    """Reads an existing bank; its files are memory-mapped.

    Raises:
        UserError: no bank, or the manifest, the index or the first memory tokens are damaged.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = read_manifest(folder)
        number, width = self.manifest.records, self.manifest.width
        self.first = map_file(folder / FIRST, FLOAT, (number, width))
        self.memories = map_file(folder / MEMORY, FLOAT, (self.manifest.memory_tokens, width))
        self.index = map_file(folder / INDEX, ENTRY, (number,))
        ends = accumulate((block.records for block in self.manifest.blocks), initial=0)
        for (start, stop), block in zip(pairwise(ends), self.manifest.blocks):
            check_sha256(folder / FIRST, self.first[start:stop], block.first)
            check_sha256(folder / INDEX, self.index[start:stop], block.index)
        self.ends = self.index["end"].astype(np.int64)
        self.texts = self.index["text"].copy()

    def __len__(self) -> int:
        return len(self.first)

    def memory(self, number: int) -> np.ndarray:
        """The memory tokens of a demonstration, m x C.

        Raises:
            UserError: they are damaged.
        """
        start = self.ends[number - 1] if number else 0
        memory = self.memories[start : self.ends[number]]
        if zlib.crc32(memory.data) != self.index["crc"][number]:
            raise UserError(
                f"{self.folder / MEMORY}: damaged (memory of demonstration {number}); build the "
                "bank anew"
            )
        return memory

    def search(
        self, keys: np.ndarray, number: int, texts: Optional[Sequence[int]] = None
    ) -> list[list[Hit]]:
        """The most similar demonstrations for each key, best first; of equal ones the first.

        Exact: as if each cosine were computed in double precision, whatever the other keys are.

        Args:
            keys: B x C. number: how many for each, fewer if there are no more. texts: B, digests;
            no demonstration of the same text is given for a key.
        Raises:
            UserError: a key that is not finite.
        """
        if not np.isfinite(keys).all():
            raise UserError(
                f"{self.folder}: the model gives keys that are not finite to search by; use single "
                "precision, or train the memory again"
            )
        units = unit(keys)
        hits = []
        for start in range(0, len(units), MAX_KEYS):
            block = units[start : start + MAX_KEYS]
            for i, scores in enumerate(block.astype(FLOAT) @ self.first.T, start):
                if texts is not None:
                    scores[self.texts == np.uint64(texts[i])] = -np.inf
                hits.append(self.best(units[i], scores, number))
        return hits

    def best(self, key: np.ndarray, scores: np.ndarray, number: int) -> list[Hit]:
        """The best `number` by cosines in double precision.

        Args:
            key: C, of length 1; scores: N, the cosines in single precision, -inf for what is out.
        """
        number = min(number, len(scores))
        if number < 1:
            return []
        threshold = np.partition(scores, -number)[-number]
        # four times the bound on the rounding of a product of two vectors of length 1
        margin = len(key) * 2 * np.finfo(FLOAT).eps
        near = np.flatnonzero((scores >= threshold - margin) & (scores > -np.inf))
        cosines = (self.first[near] * key).sum(axis=1)
        order = np.argsort(-cosines, kind="stable")[:number]
        return [Hit(int(near[i]), float(cosines[i])) for i in order]


class Writer:
    """Appends to an existing bank; used inside `locked` only.

    Raises:
        UserError: as Bank.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = Bank(folder).manifest

    def begin(self, source: Source) -> int:
        """Begin or continue a data set; returns how many of its records the bank holds already.

        Raises:
            UserError: another data set has been begun and is to be finished first.
        """
        manifest = self.manifest
        known = [other.sha256 for other in manifest.sources]
        if source.sha256 not in known:
            if known and manifest.unfinished:
                raise UserError(f"{self.folder}: {manifest.unfinished}")
            manifest.sources.append(source)
            manifest.write(self.folder)
        elif source.sha256 != known[-1]:
            return source.records
        return manifest.records - sum(before.records for before in manifest.sources[:-1])

    def append(self, memories: Sequence[np.ndarray], texts: Sequence[int]) -> None:
        """Add demonstrations; when this returns they are on disk.

        Args:
            memories: m x C for each. texts: a digest of each one's query and prompt.
        Raises:
            UserError: memory that is not finite.
        """
        memory = np.concatenate(memories).astype(FLOAT)
        if not np.isfinite(memory).all():
            raise UserError(f"{self.folder}: the model gives memory that is not finite; train it")
        first = unit(np.stack([tokens[0] for tokens in memories])).astype(FLOAT)
        before = self.manifest.memory_tokens
        ends = before + np.cumsum([len(tokens) for tokens in memories])
        index = np.empty(len(memories), ENTRY)
        index["end"], index["text"] = ends, texts
        starts = [0, *(ends - before)]
        index["crc"] = [zlib.crc32(memory[start:stop].data) for start, stop in pairwise(starts)]
        for name, data in ((MEMORY, memory), (FIRST, first), (INDEX, index)):
            counted = before if name == MEMORY else self.manifest.records
            write_at(self.folder / name, counted * data[:1].nbytes, data)
        self.manifest.blocks.append(Block(len(memories), len(memory), sha256(first), sha256(index)))
        self.manifest.write(self.folder)


def locked(folder: Path) -> AbstractContextManager[None]:
    """Inside the block no other process writes the bank.

    Raises:
        UserError: another process is writing it.
    """
    return folder_lock(folder, f"{folder}: another process is writing this bank; wait for it")


def create(folder: Path, width: int, memory_ratio: float, made_with: dict[str, str]) -> None:
    """Make an empty bank.

    Raises:
        UserError: the folder holds other files.
    """
    others = sorted(
        path.name for path in folder.iterdir() if path != temporary_path(folder / MANIFEST)
    )
    if others:
        raise UserError(
            f"{folder}: holds other files ({others[0]}), but no {MANIFEST}; give an empty folder"
        )
    Manifest(width, memory_ratio, made_with, [], []).write(folder)


# --- bytes ----------------------------------------------------------------------------------------


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors scaled to length 1, in double precision; vectors of zeros stay zeros."""
    vectors = vectors.astype(np.float64)
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors / np.where(lengths > 0, lengths, 1)


def map_file(path: Path, dtype: np.dtype, shape: tuple) -> np.ndarray:
    """Map the start of a file to memory, read-only, as an array of this type and shape.

    Raises:
        UserError: the file is too short for it.
    """
    needed = dtype.itemsize * int(np.prod(shape))
    size = path.stat().st_size if path.is_file() else 0
    if size < needed:
        raise UserError(
            f"{path}: cut short, {size:,} of {needed:,} bytes are there; build the bank anew"
        )
    return (
        np.asarray(np.memmap(path, dtype, "r", shape=shape)) if needed else np.empty(shape, dtype)
    )


def write_at(path: Path, offset: int, data: np.ndarray) -> None:
    """Write the data at this offset and end the file there; all is on disk when this returns."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(data.tobytes())
        file.flush()
        os.fsync(file.fileno())


def sha256(data: np.ndarray) -> str:
    return hashlib.sha256(data.view(np.uint8).data).hexdigest()


def check_sha256(path: Path, data: np.ndarray, expected: str) -> None:
    if sha256(data) != expected:
        raise UserError(f"{path}: damaged; build the bank anew")
