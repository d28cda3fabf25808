"""The positions of a batch that hold tokens, as indices."""

from torch import Tensor

Positions = tuple[Tensor, Tensor]  # N rows and N columns, row by row: an index of B x T


def real_positions(tokens: Tensor, padding_idx: int, first_column: int = 0) -> Positions:
    """The positions of the tokens (B x T) that are not padding, from column `first_column` on.

    The host waits for the device here, once; a boolean mask would make it wait at every use.
    """
    real = tokens.ne(padding_idx)
    real[:, :first_column] = False
    rows, columns = real.nonzero(as_tuple=True)
    return rows, columns
