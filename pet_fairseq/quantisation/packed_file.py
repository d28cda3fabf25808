"""The packed file: a model's parameters in 8 or 4 bits a weight, and what builds the model again.

torch writes it as a dict of four flat tensors, and it is read under torch's safe loading only:

    codes   uint8     the integers of all matrices, one or two a byte (grid.pack)
    scales  bfloat16  one for each row of these matrices
    floats  float16   all other parameters, and buffers that are stored, such as an output bias
    about   uint8     JSON under LZMA: the format, the bits, each parameter's name and shape in the
                      order of the data, the checksum of the data, and what the caller adds
"""

import json
import lzma
import math
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pet_fairseq.checkpoints.saving import save_state
from pet_fairseq.errors import UNREADABLE, UnsafeCheckpointError, UserError, is_refusal
from pet_fairseq.quantisation.rounding import check_bits, dequantise, pack, quantise, unpack

FORMAT = "pet_fairseq packed 1"
DATA = {"codes": torch.uint8, "scales": torch.bfloat16, "floats": torch.float16}
ABOUT_LIMIT = 1 << 28  # bytes of JSON; a few kilobytes of LZMA can stand for any number of them


class Packed(NamedTuple):
    """What a packed file holds.

    Attributes:
        parameters: in float32, by name.
        about: what the writer has added.
    """

    bits: int
    parameters: dict[str, Tensor]
    about: dict[str, Any]


def write_packed(file: Path, packed: Packed) -> dict[str, int]:
    """Write a file and return the size of each of its four parts in bytes.

    Parameters that are not on the grid are rounded to it.
    """
    matrices = [quantise(p, packed.bits) for p in packed.parameters.values() if p.dim() == 2]
    floats = [p.half().flatten() for p in packed.parameters.values() if p.dim() != 2]
    state = {
        "codes": pack(join([codes for codes, _ in matrices], torch.int8), packed.bits),
        "scales": join([scales for _, scales in matrices], torch.bfloat16),
        "floats": join(floats, torch.float16),
    }
    about = {
        "format": FORMAT,
        "bits": packed.bits,
        "shapes": {name: list(p.shape) for name, p in packed.parameters.items()},
        "checksum": checksum(state),
        **packed.about,
    }
    text = lzma.compress(json.dumps(about, separators=(",", ":")).encode())
    state["about"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    save_state(state, file)
    return {name: tensor.nbytes for name, tensor in state.items()}


def join(tensors: list[Tensor], dtype: torch.dtype) -> Tensor:
    return torch.cat([torch.empty(0, dtype=dtype), *(tensor.flatten() for tensor in tensors)])


def checksum(state: dict[str, Tensor]) -> int:
    """CRC-32 of the data; torch's reader checks none."""
    value = 0
    for name in DATA:
        value = zlib.crc32(state[name].view(torch.uint8).numpy().data, value)
    return value


def read_packed(path: str) -> Packed:
    """Read a packed file and dequantise its parameters.

    Raises:
        UserError: no such file, cut short, damaged, of another kind, or refused as unsafe.
    """
    if not Path(path).is_file():
        raise UserError(f"FILE {path}: no such file")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        about = read_about(state)
        bits, shapes = about.pop("bits"), about.pop("shapes")
        check_bits(bits, "bits")
        return Packed(bits, dequantise_all(state, bits, shapes), about)
    except (*UNREADABLE, lzma.LZMAError, RecursionError) as error:
        if is_refusal(error, path):
            raise UnsafeCheckpointError(
                f"FILE {path}: refused: it holds more than tensors, which could run code while "
                "loading"
            ) from error
        raise UserError(
            f"FILE {path}: cut short, damaged or not written by `pet-fairseq pack`; pack the model "
            "again"
        ) from error


def read_about(state: dict[str, Tensor]) -> dict[str, Any]:
    """The file's description of itself; raises ValueError if the data do not agree with it."""
    data = lzma.LZMADecompressor().decompress(state["about"].numpy().tobytes(), ABOUT_LIMIT)
    about = json.loads(data)
    if about.pop("format") != FORMAT or about.pop("checksum") != checksum(state):
        raise ValueError("another format, or damaged")
    return about


def dequantise_all(
    state: dict[str, Tensor], bits: int, shapes: dict[str, list[int]]
) -> dict[str, Tensor]:
    """The parameters of these shapes in float32; raises ValueError if there are more or fewer."""
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    others = [name for name in shapes if name not in matrices]
    weights = sum(sizes[name] for name in matrices)
    codes = unpack(state["codes"], bits, weights).split([sizes[name] for name in matrices])
    scales = state["scales"].split([shapes[name][0] for name in matrices])
    floats = state["floats"].float().split([sizes[name] for name in others])
    values = dict(zip(others, floats))
    for name, its_codes, its_scales in zip(matrices, codes, scales):
        values[name] = dequantise(its_codes.view(shapes[name]), its_scales[:, None])
    return {name: values[name].view(shape) for name, shape in shapes.items()}
