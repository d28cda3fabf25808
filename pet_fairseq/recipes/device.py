"""Where the commands of a recipe compute, and in which precision."""

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
