"""Peak memory of a part of a benchmark: of this process (Linux), or of PyTorch on a GPU."""

from pathlib import Path

import torch


def start_peak(device: str) -> int:
    """Lets the peak start anew from here; returns the bytes in use now."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    return resident_bytes("VmRSS")


def peak(device: str) -> int:
    """Bytes, the most since `start_peak`."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else resident_bytes("VmHWM")


def resident_bytes(field: str) -> int:
    """VmRSS, resident memory now, or VmHWM, its peak."""
    return 1024 * int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0])
