"""What fairseq 0.12.3.1 takes from numpy and later releases of numpy no longer have.

* `np.compat.long`, which is `int`, where samples end at `eos` (`--sample-break-mode eos`) and where
  lengths are put into buckets (`--num-batch-buckets`);
* `np.percentile(..., interpolation=)`, called `method=` since numpy 1.22, for these buckets.

Both stand in constructors of fairseq's data sets that offer no hook. The other removed names in
fairseq, `np.int` and `np.float`, are in the masking of speech and in a non-autoregressive layer,
which this package does not use.
"""

from types import ModuleType, SimpleNamespace

import numpy as np
from fairseq.data import bucket_pad_length_dataset


def apply() -> None:
    """Let fairseq's data sets work with the numpy that is installed; once is enough."""
    add_missing(np)
    bucket_pad_length_dataset.get_buckets = length_buckets


def add_missing(numpy: ModuleType) -> None:
    """Give numpy `compat.long` if it lacks it; what it has stays as it is."""
    if not hasattr(numpy, "compat"):
        setattr(numpy, "compat", SimpleNamespace(long=int))  # noqa: B010  unknown to type checkers


def length_buckets(sizes: np.ndarray, count: int) -> np.ndarray:
    """The lengths to which sentences are padded: at most `count`, each for equally many of them.

    Args:
        sizes: the length of each sentence.
        count: how many buckets.
    Returns:
        the longest length of each bucket, in rising order, each once.
    """
    shares = np.linspace(0, 100, count + 1)
    return np.unique(np.percentile(sizes, shares, method="lower")[1:])
