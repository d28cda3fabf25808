"""The files of Marian and of Bergamot: npz, Marian's binary format, and their options."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from pet_fairseq.predict.bergamot import CONFIG, VOCABULARY
from pet_fairseq.predict.shared_options import BEAM_SEARCH

NPZ, MARIAN_CONFIG = "model.npz", "config.yml"
# of Marian's binary format
FLOAT32, INT8, INTGEMM8 = 0x0404, 0x0101, 0x4101
ALIGNMENT = 256
OPTIONS = "special:model.yml"


def write_npz(path: Path, tensors: Mapping[str, np.ndarray], options: str) -> None:
    """Write Marian's own file of a model; its options are text that ends in a zero."""
    text = np.frombuffer(options.encode() + b"\0", dtype=np.int8)
    np.savez(path, **tensors, **{OPTIONS: text})


class Item(NamedTuple):
    """A tensor of a binary file."""

    name: str
    kind: int
    shape: tuple[int, ...]
    data: bytes


def write_binary(path: Path, tensors: Mapping[str, np.ndarray], options: str, rounds: bool) -> None:
    """Write the binary file of a model, as Marian's src/common/binary.cpp lays it out.

    After the version and the number of items come a header for each, all names, all shapes, and
    the data, which begin at multiples of ALIGNMENT.

    Args:
        rounds: whether matrices have 8 bits.
    """
    items = [Item(OPTIONS, INT8, (len(options) + 1,), options.encode() + b"\0")]
    for name, tensor in tensors.items():
        kind = INTGEMM8 if rounds and is_rounded(name) else FLOAT32
        data = eight_bits(name, tensor) if kind == INTGEMM8 else tensor.astype("<f4").tobytes()
        items.append(Item(name, kind, tensor.shape, data))
    items = [item._replace(data=item.data + padding(len(item.data))) for item in items]
    names = [item.name.encode() + b"\0" for item in items]
    head = struct.pack("<QQ", 1, len(items))
    for encoded, item in zip(names, items):
        head += struct.pack("<QQQQ", len(encoded), item.kind, len(item.shape), len(item.data))
    head += b"".join(names)
    head += b"".join(struct.pack(f"<{len(item.shape)}i", *item.shape) for item in items)
    gap = padding(len(head) + 8)
    with path.open("wb") as file:
        file.write(head + struct.pack("<Q", len(gap)) + gap)
        file.writelines(item.data for item in items)


def padding(length: int) -> bytes:
    """Zeros from a length up to the next multiple of ALIGNMENT."""
    return bytes(-length % ALIGNMENT)


def is_rounded(name: str) -> bool:
    """Whether Marian rounds a tensor of this name: the embeddings and all matrices of layers."""
    return name == "Wemb" or name.rpartition("_")[2].startswith("W")


def eight_bits(name: str, matrix: np.ndarray) -> bytes:
    """A matrix in 8 bits, symmetric around 0, and at the end what its numbers are multiplied by.

    Those of layers are transposed, outputs x inputs, under their shape inputs x outputs.
    """
    scale = np.float32(127) / np.abs(matrix).max()
    rounded = np.rint(matrix * scale).clip(-127, 127).astype(np.int8)
    rounded = rounded if name == "Wemb" else rounded.T
    return rounded.tobytes() + struct.pack("<f", scale)


def write_configurations(folder: Path, file: str, gemm: str) -> None:
    """Write the options with which marian-decoder and Bergamot open the folder.

    Args:
        file, gemm: Bergamot's file of the model, and in which precision it multiplies.
    """
    search = {"normalize": float(BEAM_SEARCH.lenpen), "word-penalty": 0.0}
    common = {"relative-paths": True, "vocabs": [VOCABULARY] * 2, **search}
    marian = {**common, "models": [NPZ], "beam-size": BEAM_SEARCH.beam}
    bergamot = {
        **common,
        "models": [file],
        "beam-size": 1,
        "gemm-precision": gemm,
        "skip-cost": True,
        "cpu-threads": 0,
        "max-length-break": 128,
        "max-length-factor": 2.0,
        "mini-batch-words": 1024,
        "workspace": 128,
        "quiet": True,
        "quiet-translation": True,
        "alignment": "soft",
    }
    for name, options in ((MARIAN_CONFIG, marian), (CONFIG, bergamot)):
        (folder / name).write_text(yaml.safe_dump(options), encoding="utf-8")
