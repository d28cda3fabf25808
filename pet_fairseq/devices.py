"""The devices that a user may name; torch is imported only when a function needs it."""

import os

from pet_fairseq.errors import UserError

HAS_BF16 = (8, 0)  # from this capability on, GPUs do not only emulate bfloat16


def choose_device(name: str) -> str:
    """The device that a name stands for: `auto` is cuda if torch finds a GPU, else cpu."""
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def half_precision() -> str:
    """The format of 16 bits for the GPUs that torch finds: bf16 if all compute in it, else fp16."""
    gpus = range(gpu_count())
    return "bf16" if gpus and all(gpu_capability(gpu) >= HAS_BF16 for gpu in gpus) else "fp16"


def gpu_count() -> int:
    """How many GPUs torch finds; fairseq-train uses all of them."""
    import torch

    return torch.cuda.device_count()


def gpu_capability(gpu: int) -> tuple[int, int]:
    """The version of a GPU's instructions, such as (8, 0)."""
    import torch

    return torch.cuda.get_device_capability(gpu)


def usable_cores() -> int:
    """How many of the machine's processor cores this process may use."""
    return len(os.sched_getaffinity(0))


def check_device(name: str) -> str:
    """The device that a name stands for, as `choose_device`.

    Raises:
        UserError: it is a GPU and torch finds none.
    """
    import torch

    device = choose_device(name)
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"--device {device}: torch finds no GPU here; give --device cpu")
    return device
