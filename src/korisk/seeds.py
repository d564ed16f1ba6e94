"""Random streams: the same seed and name give the same numbers on every machine."""

import hashlib
from collections.abc import Iterable
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from korisk import _checks

TEST_SEED = 10001  # of every test set, whatever the seed of the training set is
MOST_SEEDS = 10_000  # of one call


def stream_key(seed: int, stream: str) -> NDArray[np.uint64]:
    """The key of a Philox generator for one stream: 128 bits of SHA-256 of "korisk/seed/stream".

    Different seeds or names give independent random numbers.
    """
    remedy = "give a whole number"
    checked_seed = _checks.count("seed", seed, at_least=0, at_most=2**63 - 1, remedy=remedy)
    name = _checks.name("stream", stream, remedy="say what the numbers are for")
    # A hash rather than seed arithmetic: streams of neighbouring seeds must not overlap.
    digest = hashlib.sha256(f"korisk/{checked_seed}/{name}".encode()).digest()
    # Little-endian on every machine.
    return np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)


def checked_seeds(seeds: int | Iterable[int]) -> list[int]:
    """A list of seeds, from a list or from their number, which counts from 0."""
    remedy, most = "give a count, or a list of whole numbers", 2**63 - 1
    if not isinstance(seeds, Iterable) or (isinstance(seeds, np.ndarray) and not seeds.ndim):
        count = _checks.count("seeds", seeds, at_least=1, at_most=MOST_SEEDS, remedy=remedy)
        return list(range(count))
    seeds = islice(seeds, MOST_SEEDS + 1)  # iterables may be endless
    valid = [_checks.count("seeds", s, at_least=0, at_most=most, remedy=remedy) for s in seeds]
    distinct = 0 < len(valid) == len(set(valid)) <= MOST_SEEDS
    rule = f"be one or more, each once, {MOST_SEEDS:,} at most"
    _checks.require(distinct, "seeds", rule, valid, remedy)
    return valid
