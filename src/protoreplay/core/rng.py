"""Random numbers that depend on a run's seed and on what they are for, and on nothing else.

Every draw has a generator of its own, derived from the seed and a name. So no global seed is touched, an
evaluation never changes what is trained after it, and a run continued after a kill needs no stored random state.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator

import torch


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """The generator for one purpose of one seed; the same arguments always give the same stream of numbers.

    >>> torch.rand(1, generator=generator(0, "shots", 3)) == torch.rand(1, generator=generator(0, "shots", 3))
    tensor([True])
    """
    digest = hashlib.sha256(json.dumps([seed, *purpose]).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@contextlib.contextmanager
def borrowed(source: torch.Generator) -> Iterator[None]:
    """Within, PyTorch's global random numbers on the CPU are those of `source`; after it, they are as before.

    So code that knows no generator, such as the constructors of layers and dropout, still depends on nothing but it.
    """
    before = torch.get_rng_state()
    torch.set_rng_state(source.get_state())
    try:
        yield
    finally:
        source.set_state(torch.get_rng_state())
        torch.set_rng_state(before)
