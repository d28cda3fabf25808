"""Which positions of a batch hold tokens, as indices."""

from torch import Tensor

Positions = tuple[Tensor, Tensor]  # N rows and N columns, row by row: an index of B x T


def real_positions(tokens: Tensor, padding_idx: int, first_column: int = 0) -> Positions:
    """Where the tokens (B x T) from a column on are no padding.

    The host waits for the device here, once; a boolean mask would make it wait at every use.
    """
    real = tokens.ne(padding_idx)
    real[:, :first_column] = False
    return real.nonzero(as_tuple=True)
