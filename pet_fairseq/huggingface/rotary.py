"""Rotary positions: queries and keys are rotated by angles that grow with their position.

J. Su et al., RoFormer, 2021, eq. 34, in the layout of Hugging Face's Llama: dimensions i and
i + D / 2 of a head are a pair, which is rotated together.
"""

import json
import math
from typing import Optional

import torch
from torch import Tensor

from pet_fairseq.errors import UserError

SCALINGS = ("default", "linear", "llama3", "factors")  # factors: only from GGUF


def angular_frequencies(head_dim: int, theta: float, scaling: Optional[dict] = None) -> Tensor:
    """The angles, in radians, by which one position more rotates each pair of dimensions.

    Hugging Face's libraries call them `inv_freq`.

    Args:
        theta: the base; pair i has the wavelength 2 pi theta^(2 i / D) in positions.
        scaling: `rope_scaling` of Llama's config.json, or None. The type `factors` has a list
            `factors`, as in GGUF, by which the frequencies are divided.
    Returns:
        D / 2, float32.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    frequencies = 1.0 / theta**exponents
    scaling = scaling or {}
    kind = scaling.get("rope_type", "default")
    if kind == "linear":
        return frequencies / scaling["factor"]
    if kind == "factors":
        return frequencies / torch.tensor(scaling["factors"]).view_as(frequencies)
    if kind == "llama3":
        return _scale_long_wavelengths(frequencies, **scaling)
    return frequencies


def _scale_long_wavelengths(
    frequencies: Tensor,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
    **_,
) -> Tensor:
    """Llama 3.1's scaling: divide the frequencies of long waves by `factor`, keep the others.

    Long are waves of which fewer than `low_freq_factor` fit into the original context, short are
    those of which more than `high_freq_factor` do; in between the frequency is interpolated.
    """
    waves_in_context = original_max_position_embeddings * frequencies / (2 * math.pi)
    kept = (waves_in_context - low_freq_factor) / (high_freq_factor - low_freq_factor)
    kept = kept.clamp(0, 1)
    return frequencies * kept + frequencies / factor * (1 - kept)


def parse_scaling(text: str, head_dim: int) -> Optional[dict]:
    """The value of --rope-scaling as a dict, None if it is empty.

    Raises:
        UserError: it is no JSON object, of an unknown type, or not for heads of this width.
    """
    if not text:
        return None
    try:
        scaling = dict(json.loads(text))
        angular_frequencies(head_dim, 1.0, scaling)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise UserError(f"--rope-scaling {text}: not readable ({error})") from error
    if scaling.get("rope_type") not in SCALINGS:
        kinds = ", ".join(SCALINGS)
        raise UserError(f"--rope-scaling {text}: its rope_type is not one of {kinds}")
    return scaling


def rotate_pairs(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate the pairs of dimensions of x, ... x T x D; cosines and sines: T x D / 2, or D / 2."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)


class RotaryPositions:
    """Rotates queries and keys; all layers share one, whose table grows with the positions.

    It is no module, so that a model in half precision keeps its angles in float32.

    Args:
        frequencies: D / 2, from `angular_frequencies`.
    """

    def __init__(self, frequencies: Tensor):
        self.frequencies = frequencies
        self.table = torch.empty(2, 0, len(frequencies))  # cosines and sines: 2 x T x D / 2

    def rotate(self, x: Tensor, *positions: slice) -> Tensor:
        """Rotate x, B x H x T x D; the slices together give its T positions."""
        table = self._angles(max(part.stop for part in positions), x.device)
        return rotate_pairs(
            x, *torch.cat([table[:, part] for part in positions], dim=1).to(x.dtype)
        )

    def move(self, x: Tensor, steps: int) -> Tensor:
        """Rotate x, B x H x T x D, by `steps` more positions, or back if `steps` is negative."""
        cosines, sines = self._angles(abs(steps) + 1, x.device)[:, abs(steps)].to(x.dtype)
        return rotate_pairs(x, cosines, sines if steps > 0 else -sines)

    def _angles(self, length: int, device: torch.device) -> Tensor:
        """Cosines and sines of all positions below `length`: 2 x length x D / 2, float32."""
        if self.table.size(1) < length or self.table.device != device:
            positions = torch.arange(max(length, 2 * self.table.size(1)), dtype=torch.float32)
            angles = positions[:, None] * self.frequencies
            self.table = torch.stack([angles.cos(), angles.sin()]).to(device)
        return self.table[:, :length]
