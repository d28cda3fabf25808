"""numpy's arrays and scalars in a checkpoint, if they are numbers.

`fairseq-train --eval-bleu` leaves some among its meters. numpy's own functions that rebuild them
would also make arrays of objects, and take a file's word for how many bytes a number has. What is
below stands in their places while a checkpoint is read: it knows numbers only.
"""

from pickle import UnpicklingError
from typing import Any, Optional

import numpy as np

# codes of dtypes as pickles have them, such as b1, i8, f4 and c16
NUMBERS = frozenset(
    np.dtype(code).str[1:]
    for code in "?" + np.typecodes["AllInteger"] + np.typecodes["AllFloat"]  # complex ones too
)


class NumberDtype:
    """A dtype of numbers, in the place of numpy.dtype.

    Raises:
        UnpicklingError: of anything else, also if hidden in fields, subarrays or metadata.
    """

    def __init__(self, code: str, align: bool = False, copy: bool = False):
        if code not in NUMBERS:
            raise UnpicklingError(f"Unsupported class numpy.dtype.{code}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple) -> None:
        _version, byte_order, *others = state
        if others != [None, None, None, -1, -1, 0]:
            raise UnpicklingError("Unsupported class numpy.dtype.fields")
        self.dtype = self.dtype.newbyteorder(byte_order)


class NumberArray(np.ndarray):
    """An array of numbers, in the place of numpy.ndarray; written again it is a plain one."""

    def __new__(cls) -> "NumberArray":
        return super().__new__(cls, 0)

    def __setstate__(self, state: tuple) -> None:
        _version, shape, kind, is_fortran, content = state
        if self.size:  # others may look at the memory that a second time would free
            raise UnpicklingError("Unsupported class numpy.ndarray: set twice")
        super().__setstate__((1, shape, dtype_of(kind), is_fortran, bytes_of(content)))

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def dtype_of(kind: Any) -> np.dtype:
    """The dtype of what a pickle names as one.

    Raises:
        UnpicklingError: it is something else.
    """
    if type(kind) is not NumberDtype:
        raise UnpicklingError(f"Unsupported class numpy.dtype.{type(kind).__name__}")
    return kind.dtype


def bytes_of(content: Any) -> bytes:
    """What a pickle gives as the bytes of numbers.

    Raises:
        UnpicklingError: it is something else.
    """
    if type(content) is not bytes:
        raise UnpicklingError(f"Unsupported class numpy.ndarray.{type(content).__name__}")
    return content


def empty_array(kind: Any, shape: Any, code: Any) -> NumberArray:
    """What numpy's `_reconstruct` makes before the array's state is known."""
    return NumberArray()


def scalar(kind: Any, content: Optional[bytes] = None) -> np.generic:
    """A number of numpy's, in the place of numpy's `scalar`.

    Raises:
        UnpicklingError: of anything else.
        ValueError: its bytes are not those of one number.
    """
    (number,) = np.frombuffer(bytes_of(content), dtype_of(kind))
    return number


# under the names that numpy 1 and numpy 2 write
NUMPY_TYPES = [
    (NumberArray, "numpy.ndarray"),
    (NumberDtype, "numpy.dtype"),
    *((empty_array, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]
