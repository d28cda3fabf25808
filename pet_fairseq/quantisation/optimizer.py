"""Optimizer `quantised_adam`: training with the model's weights on a grid of few bits."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from omegaconf import II
from torch import Tensor

from pet_fairseq.errors import UserError, first_given
from pet_fairseq.quantisation.rounding import check_bits, fake_quantise

logger = logging.getLogger(__name__)


@dataclass
class QuantisedAdamConfig(FairseqAdamConfig):
    quantised_bits: int = field(
        default=8,
        metadata={
            "help": "bits of every weight of a trained matrix, embeddings included: 8 or 4, with "
            "one scale a row; biases and norms are rounded to float16"
        },
    )
    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")
    use_bmuf: bool = II("optimization.use_bmuf")


@register_optimizer("quantised_adam", dataclass=QuantisedAdamConfig)
class QuantisedAdam(FairseqAdam):
    """Adam on master copies in full precision; the model has the storable values nearest to them.

    Gradients are taken at the values in the model and applied to the masters (the straight-through
    estimator). A parameter is quantised once, wherever the model uses it, and what is saved is on
    the grid. Parameters that are not trained stay as they are.
    """

    def __init__(self, cfg: QuantisedAdamConfig, params: Iterable[Tensor]):
        params = list(params)
        check_options(cfg, params)
        super().__init__(cfg, params)
        self.masters = [parameter.detach().clone() for parameter in params]
        self.put_on_grid()
        weights = sum(parameter.numel() for parameter in params if parameter.dim() == 2)
        logger.info(
            f"quantised_adam: {weights:,} weights in {cfg.quantised_bits} bits, "
            f"{sum(parameter.numel() for parameter in params) - weights:,} in float16"
        )

    @torch.no_grad()
    def put_on_grid(self) -> None:
        """Give the model the storable values nearest to the masters."""
        for parameter, master in zip(self.params, self.masters):
            parameter.copy_(fake_quantise(master, self.cfg.quantised_bits))

    @torch.no_grad()
    def step(self, closure=None, scale: float = 1.0, groups=None) -> None:
        """Update the masters, then put the model on the grid again."""
        for parameter, master in zip(self.params, self.masters):
            parameter.copy_(master)
        super().step(closure, scale=scale, groups=groups)
        for parameter, master in zip(self.params, self.masters):
            master.copy_(parameter)
        self.put_on_grid()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "masters": self.masters}

    def load_state_dict(
        self, state_dict: dict[str, Any], optimizer_overrides: Optional[dict[str, Any]] = None
    ) -> None:
        super().load_state_dict(state_dict, optimizer_overrides)
        for master, saved in zip(self.masters, state_dict["masters"]):
            master.copy_(saved)
        self.put_on_grid()

    # fairseq reads these: each parameter has a master of its own, in full precision
    supports_flat_params = False
    supports_memory_efficient_fp16 = False


def check_options(cfg: QuantisedAdamConfig, params: list[Tensor]) -> None:
    """Refuse options with which the weights would leave the grid, and trainings without a matrix.

    Raises:
        UserError: names the option.
    """
    check_bits(cfg.quantised_bits, "--quantised-bits")
    if option := first_given(cfg, ("fp16", "bf16", "use_bmuf")):
        raise UserError(
            f"{option}: with --optimizer quantised_adam the weights would leave their grid; leave "
            "it out (--amp computes in half precision, too)"
        )
    if not any(parameter.dim() == 2 for parameter in params):
        raise UserError("--optimizer quantised_adam: no matrix is trained; use --optimizer adam")
