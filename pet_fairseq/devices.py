"""The devices that a user may name; torch is imported only when a function needs it."""

from pet_fairseq.errors import UserError


def choose_device(name: str) -> str:
    """The device that a name stands for: `auto` is cuda if torch finds a GPU, else cpu."""
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def check_device(device: str) -> None:
    """Raises UserError if the device is a GPU and torch finds none."""
    import torch

    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"--device {device}: torch finds no GPU here; give --device cpu")
