"""Where the commands of a recipe compute, in which precision, and in how many threads."""

import os
from dataclasses import dataclass

from pet_fairseq.devices import usable_cores
from pet_fairseq.errors import UserError

PRECISIONS = ("fp32", "fp16", "bf16")


@dataclass(frozen=True)
class Device:
    """A device for fairseq's commands, and the precision of trainings there.

    Attributes:
        name: cpu or cuda.
        precision: one of PRECISIONS; fp16 on a GPU only.
        count: how many of them share a training; fairseq-train takes all GPUs that it finds.
    """

    name: str = "cpu"
    precision: str = "fp32"
    count: int = 1

    @property
    def train(self) -> tuple[str, ...]:
        """The program that trains; fairseq's own --bf16 means a TPU."""
        if self.precision == "bf16":
            return ("pet-fairseq", "train-bf16")
        return ("fairseq-train",)

    @property
    def training_options(self) -> tuple[str, ...]:
        if self.name == "cpu":
            return ("--cpu",)
        return ("--fp16",) if self.precision == "fp16" else ()

    @property
    def generation_options(self) -> tuple[str, ...]:
        """Options of fairseq-generate: fp16 also for bf16, whose digits are too few for scores."""
        if self.name == "cpu":
            return ("--cpu",)
        return () if self.precision == "fp32" else ("--fp16",)


CPU = Device()


def make_device(name: str, precision: str, preferred: str = "fp32") -> Device:
    """The device that the options --device and --precision ask for.

    Args:
        name: cpu or cuda. precision: one of PRECISIONS, or auto. preferred: what `auto` stands for
            on a GPU; a CPU then computes in float32.
    Raises:
        UserError: float16 on a CPU.
    """
    if name == "cpu" and precision == "fp16":
        raise UserError("--precision fp16: needs a GPU; give bf16 or fp32 on a CPU")
    if precision == "auto":
        precision = "fp32" if name == "cpu" else preferred
    return Device(name, precision)


# For the C library's allocator (glibc): keep the memory of a training step's large tensors for the
# next step. By default it is returned to the system, which fills every page with zeros again.
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}
# fairseq starts a process for each GPU that it finds, also with --cpu, and DDP fails on the second
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def command_environment(device: str, jobs: int) -> dict[str, str]:
    """Environment variables for commands on a device, of which `jobs` may run side by side.

    Variables that the user has set are not among them, but for NO_GPU.
    """
    if device != "cpu":
        return {}
    variables = dict(KEEP_MEMORY)
    if jobs > 1:
        variables["OMP_NUM_THREADS"] = str(max(1, usable_cores() // jobs))
    return NO_GPU | {name: v for name, v in variables.items() if name not in os.environ}
