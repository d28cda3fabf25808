"""A cache of a teacher's features, which spares running the teacher again in every epoch."""

from collections.abc import Callable

import torch
from torch import Tensor

from pet_fairseq.distillation.token_positions import Positions


class TeacherCache:
    """Features of sentence pairs, so that the teacher runs once for a pair and not in every epoch.

    The teacher has no dropout, so a pair's features differ between batches by rounding only. Keys
    are the tokens themselves: noise on the data, or another data set, only misses the cache. It
    serves training on the CPU: all tensors that it takes and returns are there.
    """

    def __init__(self, limit_mb: float, padding_idx: int):
        self.free_bytes = int(limit_mb * 2**20)
        self.enabled = self.free_bytes > 0
        self.padding_idx = padding_idx
        self.features: dict[bytes, Tensor] = {}

    def lookup(self, sample: dict, at: Positions, compute: Callable[[], Tensor]) -> Tensor:
        """The features at the target positions `at`, from the cache or computed: N x C."""
        keys = pair_keys(sample, self.padding_idx)
        if all(key in self.features for key in keys):
            return torch.cat([self.features[key] for key in keys])
        features = compute()
        positions = torch.bincount(at[0], minlength=len(keys))  # how many each pair has
        for key, part in zip(keys, features.split(positions.tolist())):
            self._keep(key, part)
        return features

    def _keep(self, key: bytes, part: Tensor) -> None:
        size = part.numel() * part.element_size()
        if key in self.features or size > self.free_bytes:
            return
        self.free_bytes -= size
        self.features[key] = part.clone()  # a view would keep the whole batch


def pair_keys(sample: dict, padding_idx: int) -> list[bytes]:
    """One key per sentence pair of a batch, the same in every batch whatever its padding."""
    sides = (
        sample["net_input"]["src_tokens"],
        sample["net_input"]["prev_output_tokens"],
        sample["target"],
    )
    rows = zip(*(side.numpy() for side in sides))
    return [b"|".join(tokens[tokens != padding_idx].tobytes() for tokens in row) for row in rows]
