"""Arrays and scalars of numbers are data; what numpy could be made to do beside that is refused."""

from argparse import Namespace
from collections import OrderedDict
from pickle import UnpicklingError

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.logging.meters import AverageMeter
from omegaconf import OmegaConf

from pet_fairseq.checkpoints.numpy_types import NUMBERS, NumberDtype
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from tests.checkpoints.written import Malicious, write_checkpoint

VALUES = [
    *(np.arange(6).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.array(7), np.zeros((0, 3))),
    *(np.arange(5000), np.arange(3, dtype=">i4"), np.array([1j, 2]), np.array([True, False])),
    *(np.float64(0.1), np.int64(-3), np.bool_(True), np.complex64(2j), np.longdouble(0.1)),
]


def write_with(path, value, **options):
    """A checkpoint with something among the numbers of its training."""
    write_checkpoint(path)
    state = torch.load(path)
    state["extra_state"]["metrics"] = {"valid": [(0, "bleu", "AverageMeter", {"sum": value})]}
    torch.save(state, path, **options)


def read(path):
    state = load_checkpoint(str(path), "--restore-file")
    return state["extra_state"]["metrics"]["valid"][0][3]["sum"]


def refused(path, text) -> None:
    with pytest.raises(UserError, match=text) as error:
        load_checkpoint(str(path), "--restore-file")
    assert str(error.value).startswith(f"--restore-file {path}: ")
    assert "\n" not in str(error.value) and "weights_only" not in str(error.value)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype.str}{value.shape}")
def test_numpy_types(value, tmp_path):
    """Also written again, from what was read; then in numpy's own form, as any reader has it."""
    path = tmp_path / "checkpoint.pt"
    write_with(path, value)
    for _ in range(2):
        found = read(path)
        assert isinstance(found, np.ndarray if isinstance(value, np.ndarray) else type(value))
        assert found.dtype.newbyteorder("=") == value.dtype.newbyteorder("=")  # as numpy reads it
        assert np.array_equal(found, value)
        assert np.shape(found + found) == np.shape(value)
        write_with(path, found)
    state = torch.load(path, weights_only=False)
    plain = state["extra_state"]["metrics"]["valid"][0][3]["sum"]
    assert type(plain) is type(value) and np.array_equal(plain, value)


def test_every_dtype_of_numbers():
    kinds = {np.dtype(code).kind for code in NUMBERS}
    assert kinds == set("biufc")
    assert all(np.dtype(kind).str[1:] in NUMBERS for kind in (bool, int, float, complex))


@pytest.mark.parametrize("value", [np.arange(6), np.float64(0.1)], ids=["array", "scalar"])
@pytest.mark.parametrize("name", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_names_of_numpy_1_and_2(value, name, tmp_path):
    """Whichever wrote the file, and whichever reads it."""
    path = tmp_path / "checkpoint.pt"
    write_with(path, value, _use_new_zipfile_serialization=False)
    written = path.read_bytes()
    mine = type(value).__reduce__(value)[0].__module__.encode()
    assert b"c" + mine + b"\n" in written
    path.write_bytes(written.replace(b"c" + mine + b"\n", b"c" + name.encode() + b"\n"))
    assert np.array_equal(read(path), value)


HIDING_PLACES = {
    "array of objects": lambda code: np.array([1, code], dtype=object),
    "field of an array": lambda code: np.array([(1, code)], dtype=[("a", "i4"), ("b", "O")]),
    "metadata of a dtype": lambda code: np.dtype("i8", metadata={"a": code}),
    "array of such a dtype": lambda code: np.zeros(2, np.dtype("i8", metadata={"a": code})),
    "containers": lambda code: OrderedDict(a=[({"b": Namespace(c=[code])},)]),
    "options": lambda code: OmegaConf.create({"a": [code]}, flags={"allow_objects": True}),
    "meter": lambda code: with_attribute(AverageMeter(), "val", code),
    "dictionary": lambda code: with_attribute(Dictionary(), "symbols", [code]),
    "tensor": lambda code: with_attribute(torch.ones(2), "more", code),
}


def with_attribute(thing, name, value):
    setattr(thing, name, value)
    return thing


@pytest.mark.parametrize("place", HIDING_PLACES)
def test_hidden_code_is_refused(place, tmp_path):
    path, marker = tmp_path / "checkpoint.pt", tmp_path / "marker"
    write_with(path, HIDING_PLACES[place](Malicious(marker)))
    refused(path, "refused: .*source you trust")
    assert not marker.exists()
    torch.load(path, weights_only=False)
    assert marker.exists(), "the file of this test is harmless"


class Call:
    """Has a pickle call something, and perhaps set the state of what it returns."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


RECONSTRUCT, SCALAR = np.zeros(1).__reduce__()[0], np.float64(1).__reduce__()[0]
POINTERS = b"\x41" * 16
STRUCTURED = (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 27)


def number(code="i8"):
    return Call(np.dtype, (code, False, True), (3, "<", None, None, None, -1, -1, 0))


FORGERIES = {
    "objects": Call(np.dtype, ("O", False, True)),
    "objects from bytes": Call(np.ndarray, ((2,), "O", POINTERS)),
    "numbers that claim fields": Call(np.dtype, ("i8", False, True), STRUCTURED),
    "numbers that claim a size": Call(
        np.dtype, ("i8", False, True), (3, "<", None, None, None, 4096, 1, 0)
    ),
    "a dtype of any class": Call(
        RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, (2,), Namespace(), False, POINTERS)
    ),
    "a list for the bytes": Call(
        RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, (2,), number(), False, [1, 2])
    ),
    "too few bytes": Call(
        RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, (2**40,), number(), False, POINTERS)
    ),
    "a negative shape": Call(
        RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, (-2, -1), number(), False, POINTERS)
    ),
    "an object as a scalar": Call(SCALAR, (np.dtype("O"), [1])),
    "fields from an array": Call(SCALAR, (np.dtype([("a", "O")]), np.zeros(2, "i8"))),
    "a scalar of two": Call(SCALAR, (number(), POINTERS)),
    "text": np.array(["a"]),
    "dates": np.zeros(2, "M8[s]"),
    "bytes": np.zeros(2, "V8"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_numbers_are_refused(name, tmp_path):
    path = tmp_path / "checkpoint.pt"
    write_with(path, FORGERIES[name])
    refused(path, "refused: .*such as numpy|not a readable checkpoint")


def test_memory_is_not_freed_while_others_see_it(tmp_path):
    """A pickle may set an array's state twice, between which a tensor may share its memory."""
    path = tmp_path / "checkpoint.pt"
    write_with(path, np.arange(4))
    array = read(path)
    tensor = torch.from_numpy(array)
    with pytest.raises(UnpicklingError, match="set twice"):
        array.__setstate__((1, (2,), NumberDtype("i8"), False, bytes(16)))
    assert tensor.tolist() == [0, 1, 2, 3]
