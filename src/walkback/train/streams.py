"""Random streams that are functions of a counter, so that a run can stop and resume anywhere without saved states.

Each purpose (init, feedback, order, augment, rule, probe) has its own stream of the run's seed. With the same seed
all rules see the same init, the same batches and the same crops.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def stream(seed: int, purpose: str, counter: int = 0) -> torch.Generator:
    """The generator of one purpose at one moment: the same for the same three arguments, independent for others.

    >>> a, b = stream(42, "order", 3), stream(42, "order", 3)
    >>> bool((torch.randperm(9, generator=a) == torch.randperm(9, generator=b)).all())
    True
    """
    digest = hashlib.sha256(f"walkback {seed} {purpose} {counter}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@contextmanager
def global_stream(seed: int, purpose: str) -> Iterator[None]:
    """Run code that draws from torch's global state (an nn.Module's init) on our own stream, and restore that state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, purpose).initial_seed())
        yield
