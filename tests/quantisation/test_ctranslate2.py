"""What CTranslate2's int8 makes of weights that are on a grid, as its file has them."""

import struct

import numpy as np
import pytest

from pet_fairseq.quantisation.packing import pack_model, unpack_model
from pet_fairseq.quantisation.rounding import quantise
from tests.quantisation.test_packing import parameters, save

DTYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")


def read_variables(path) -> dict[str, np.ndarray]:
    """The variables in CTranslate2's model.bin."""
    with open(path, "rb") as file:

        def number(kind):
            return struct.unpack(kind, file.read(struct.calcsize(kind)))[0]

        def string():
            return file.read(number("H"))[:-1].decode()

        number("I"), string(), number("I")  # versions and the model's kind
        variables = {}
        for _ in range(number("I")):
            name = string()
            shape = [number("I") for _ in range(number("B"))]
            dtype = DTYPES[number("B")]
            variables[name] = np.frombuffer(file.read(number("I")), dtype).reshape(shape)
    return variables


@pytest.fixture
def export(tmp_path):
    """From bits to the packed and unpacked model's parameters, and its int8 variables."""
    pytest.importorskip("ctranslate2")
    from pet_fairseq.decoding.export import export

    def make(bits):
        checkpoint, data = save(tmp_path, bits=bits)
        pack_model(checkpoint, data, bits, tmp_path / "packed")
        unpack_model(str(tmp_path / "packed"), tmp_path / "wide")
        model = str(tmp_path / "wide/model.pt")
        export(model, str(tmp_path / "wide"), "ctranslate2", tmp_path / "engine", "int8")
        variables = read_variables(tmp_path / "engine/model.bin")
        return parameters(model, tmp_path / "wide"), variables

    return make


def rows_in_int8(variables):
    """Codes and scale of every row; CTranslate2 divides by its scale."""
    for name, scales in variables.items():
        if name.endswith("_scale"):
            yield from zip(variables[name.removesuffix("_scale")], 1 / np.float64(scales))


def test_8_bits_stay_the_same_integers(export):
    trained, variables = export(8)
    expected = {}
    for matrix in (p.detach() for p in trained.values() if p.dim() == 2):
        for codes, scale in zip(*quantise(matrix, 8)):
            expected[codes.numpy().tobytes()] = scale.item()
    rows = list(rows_in_int8(variables))
    assert len({codes.tobytes() for codes, _ in rows}) == len(expected)
    for codes, scale in rows:
        assert scale == pytest.approx(expected[codes.tobytes()], rel=2**-23)


def test_4_bits_move_by_no_more_than_int8_rounds(export):
    """A row's 15 values are not among its 255: half a step of int8 comes on top."""
    trained, variables = export(4)
    matrices = [p.detach().double().numpy() for p in trained.values() if p.dim() == 2]
    by_width = {
        width: np.concatenate([matrix for matrix in matrices if matrix.shape[1] == width])
        for width in {matrix.shape[1] for matrix in matrices}
    }
    moved = []
    for codes, scale in rows_in_int8(variables):
        rows = by_width[len(codes)]
        distances = np.abs(rows - codes * scale).max(axis=1) / np.abs(rows).max(axis=1)
        moved.append(distances.min())
    assert 0.3 / 127 < max(moved) < 0.501 / 127
