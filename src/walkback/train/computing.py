"""How a training computes: one thread, no denormal numbers, and memory that is kept."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def keep_memory() -> None:
    """Where the C library is glibc, keep freed memory: else the embedding's gradient is given back at every step, and
    its pages must be faulted in again."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, at its largest
            libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


@contextmanager
def arithmetic() -> Iterator[None]:
    """One torch thread inside, and denormal numbers taken as zero.

    At these sizes more threads are slower, and sums depend on their number. Denormals (below 1e-38) arise where a net
    has learnt its batch by heart; computing with them is several times slower and means nothing.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    keep_memory()
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
