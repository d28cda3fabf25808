"""Where the commands of a recipe compute, in which precision, and in how many threads."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A device for fairseq's commands; on a CPU they compute in float32."""

    name: str = "cpu"  # cpu or cuda
    precision: str = "fp32"  # of a GPU

    @property
    def train(self) -> tuple[str, ...]:
        """The program that trains; fairseq's own --bf16 means a TPU."""
        if self.name == "cuda" and self.precision == "bf16":
            return ("pet-fairseq", "train-bf16")
        return ("fairseq-train",)

    @property
    def training_options(self) -> tuple[str, ...]:
        if self.name == "cpu":
            return ("--cpu",)
        return ("--fp16",) if self.precision == "fp16" else ()

    @property
    def generation_options(self) -> tuple[str, ...]:
        """bfloat16 has too few digits for the scores of a beam: half precision is fp16 there."""
        if self.name == "cpu":
            return ("--cpu",)
        return () if self.precision == "fp32" else ("--fp16",)


CPU = Device()

# for the C library's allocator (glibc): keep the large tensors of a training step for the next one.
# It would give them back to the system, and every page would be filled with zeros again.
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}


def command_environment(device: str, jobs: int) -> dict[str, str]:
    """Variables for commands of which so many run side by side; those that are set stay."""
    if device != "cpu":
        return {}
    variables = dict(KEEP_MEMORY)
    if jobs > 1:
        variables["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // jobs))
    return {name: value for name, value in variables.items() if name not in os.environ}
