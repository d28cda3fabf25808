"""Gives freed memory back to the system.

The allocator of glibc keeps memory that is freed between objects still in use; under load, with
texts of all lengths, it soon keeps more than is in use.
"""

import asyncio
import ctypes
import sys

SECONDS = 10.0  # between two calls, which take some milliseconds each


async def keep_trimmed() -> None:
    """Give freed memory back now and then until cancelled; elsewhere than on glibc, return."""
    trim = find_trim()
    while trim is not None:
        await asyncio.sleep(SECONDS)
        await asyncio.to_thread(trim, 0)


def find_trim():
    """`malloc_trim` of the C library, which takes the bytes to keep; None if it has none."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return getattr(library, "malloc_trim", None)
