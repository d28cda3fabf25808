"""The state that all sites of a model share while it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Optional

from torch import Tensor


class Grouping:
    """The ratio in use (1: no plugins) and which positions of the batch at hand are grouped."""

    def __init__(self) -> None:
        self.ratio = 1
        self.padding_mask: Optional[Tensor] = None
        self.first_ungrouped: Optional[int] = None

    @contextmanager
    def batch(
        self, padding_mask: Optional[Tensor], first_ungrouped: Optional[int] = None
    ) -> Iterator[None]:
        """Inside the block the sites group the positions of this batch.

        Args:
            padding_mask: B x T', True = in no group; None: T' is T and all positions are grouped.
            first_ungrouped: the first position that some sentence has in no group although it is
                not padding; from there to T every position is also computed alone, and positions
                in no group take that output. None: only padding is in no group.
        """
        self.padding_mask, self.first_ungrouped = padding_mask, first_ungrouped
        try:
            yield
        finally:
            self.padding_mask, self.first_ungrouped = None, None

    @contextmanager
    def with_ratio(self, ratio: int) -> Iterator[None]:
        """Inside the block another ratio is in use."""
        before = self.ratio
        self.ratio = ratio
        try:
            yield
        finally:
            self.ratio = before
