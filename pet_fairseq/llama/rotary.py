"""Rotary positions: queries and keys are turned by angles that grow with their position.

J. Su et al., RoFormer, 2021, eq. 34, in the layout of Hugging Face's Llama: dimension i of a head
is turned together with dimension i + D / 2.
"""

import json
import math
from typing import Optional

import torch
from torch import Tensor

from pet_fairseq.errors import UserError

SCALINGS = ("default", "linear", "llama3", "factors")


def inverse_frequencies(head_dim: int, theta: float, scaling: Optional[dict] = None) -> Tensor:
    """The angle, in radians, by which a step of one position turns each pair of dimensions.

    Args:
        theta: the base, whose powers are the wavelengths over 2 pi.
        scaling: `rope_scaling` of Llama's config.json; None for none. Of type `factors`: a factor
            for each pair, as GGUF has them.
    Returns:
        D / 2, float32.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    frequencies = 1.0 / theta**exponents
    kind = (scaling or {}).get("rope_type", "default")
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
    """Llama 3.1: waves longer than the old context are stretched, those in between in part."""
    waves_in_context = original_max_position_embeddings * frequencies / (2 * math.pi)
    kept = (waves_in_context - low_freq_factor) / (high_freq_factor - low_freq_factor)
    kept = kept.clamp(0, 1)
    return frequencies * kept + frequencies / factor * (1 - kept)


def parse_scaling(text: str, head_dim: int) -> Optional[dict]:
    """The value of --rope-scaling as a dict, None if it is empty.

    Raises:
        UserError: no JSON object, of a type that is not known here, or not for this width.
    """
    if not text:
        return None
    try:
        scaling = dict(json.loads(text))
        inverse_frequencies(head_dim, 1.0, scaling)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise UserError(f"--rope-scaling {text}: not readable ({error})") from error
    if scaling.get("rope_type") not in SCALINGS:
        kinds = ", ".join(SCALINGS)
        raise UserError(f"--rope-scaling {text}: its rope_type is not one of {kinds}")
    return scaling


def turn(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Turn the pairs of dimensions of x, ... x T x D, by angles given as T x D / 2 or D / 2."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)


class RotaryPositions:
    """Turns queries and keys; all layers of a model share one. Its table grows with the positions.

    No module: a model that is turned into half precision keeps its angles in float32.
    """

    def __init__(self, frequencies: Tensor):
        self.frequencies = frequencies
        self.table = torch.empty(2, 0, len(frequencies))  # cosines and sines: 2 x T x D / 2

    def rotate(self, x: Tensor, *positions: slice) -> Tensor:
        """Turn x, B x H x T x D, whose T positions the slices give together."""
        table = self._angles(max(part.stop for part in positions), x.device)
        return turn(x, *torch.cat([table[:, part] for part in positions], dim=1).to(x.dtype))

    def move(self, x: Tensor, steps: int) -> Tensor:
        """Turn what is rotated by so many positions more, or fewer below 0: B x H x T x D."""
        cosines, sines = self._angles(abs(steps) + 1, x.device)[:, abs(steps)].to(x.dtype)
        return turn(x, cosines, sines if steps > 0 else -sines)

    def _angles(self, length: int, device: torch.device) -> Tensor:
        if self.table.size(1) < length or self.table.device != device:
            positions = torch.arange(max(length, 2 * self.table.size(1)), dtype=torch.float32)
            angles = positions[:, None] * self.frequencies
            self.table = torch.stack([angles.cos(), angles.sin()]).to(device)
        return self.table[:, :length]
