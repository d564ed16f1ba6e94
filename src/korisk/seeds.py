"""Random streams: the same seed and name give the same numbers on every machine."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from korisk import _checks

TEST_SEED = 10001  # of every test set, whatever the seed of the training set is


def stream_key(seed: int, stream: str) -> NDArray[np.uint64]:
    """The key of a Philox generator for one stream: 128 bits of SHA-256 of "korisk/seed/stream".

    Another seed or another name gives independent random numbers.

    Parameters
    ----------
    seed : int
        Whole number from 0 to 2**63 - 1.
    stream : str
        What the numbers are for, such as "train phantoms".

    Returns
    -------
    ndarray of uint64, shape (2,)
        For `numpy.random.Philox(key=...)`.

    Examples
    --------
    >>> from korisk.seeds import stream_key
    >>> stream_key(0, "gains").tolist() == stream_key(1, "gains").tolist()
    False
    """
    remedy = "give a whole number"
    number = _checks.count("seed", seed, at_least=0, at_most=2**63 - 1, remedy=remedy)
    name = _checks.name("stream", stream, remedy="say what the numbers are for")
    digest = hashlib.sha256(f"korisk/{number}/{name}".encode()).digest()
    return np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)
