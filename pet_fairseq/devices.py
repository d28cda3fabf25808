"""The device that a user may name; torch is loaded only when it is asked."""

from pet_fairseq.errors import UserError


def choose_device(name: str) -> str:
    """cpu or cuda; `auto` is CUDA where torch has it."""
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def check_device(device: str) -> None:
    """Raises UserError if torch cannot use it."""
    import torch

    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"--device {device}: torch finds no GPU here; give --device cpu")
