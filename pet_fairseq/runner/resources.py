"""What a running command takes, and when it ends, in words."""

import re
from datetime import datetime, timedelta
from typing import Optional

from pet_fairseq.runner.processes import PROC, members

PROPORTIONAL = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
MEGABYTE = 1e6


def resident_bytes(group: int) -> Optional[int]:
    """Memory of all processes of a group, pages that several share counted once.

    Returns:
        None where the system does not tell.
    """
    sizes = [_proportional(pid) for pid, _ in members(group)]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _proportional(pid: int) -> Optional[int]:
    try:
        found = PROPORTIONAL.search((PROC / str(pid) / "smaps_rollup").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def in_megabytes(size: float) -> str:
    return f"{size / MEGABYTE:,.0f} MB"


def describe_needs(
    seconds: float, now: datetime, memory: Optional[int], growth: int, disk: int
) -> str:
    """The end of a training, the memory and the disk space that it needs, in words.

    Args:
        seconds: that are left. memory: bytes now; None if not known. growth: bytes of memory, at
            most, that come later. disk: bytes of its checkpoints; 0 if not known.
    """
    parts = [f"ends about {now + timedelta(seconds=seconds):%Y-%m-%d %H:%M}, if not sooner"]
    if memory is not None:
        later = f", up to {in_megabytes(growth)} more later" if growth else ""
        parts.append(f"memory {in_megabytes(memory)}{later}")
    if disk:
        parts.append(f"disk {in_megabytes(disk)}")
    return "; ".join(parts)
