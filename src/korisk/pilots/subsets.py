"""Nested training subsets: for each seed one order of the samples, of which n are the first n."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk.errors import KoriskError, shown

Indices = NDArray[np.intp]

SPLIT_SEED = 20_261  # of the one test set that all seeds share


def random_order(samples: Indices, seed: int) -> Indices:
    """The samples in an order drawn from the seed."""
    return np.asarray(np.random.default_rng([seed, 1]).permutation(samples))


def stratified_order(samples: Indices, labels: NDArray[Any], seed: int) -> Indices:
    """An order whose every start holds the classes in nearly their shares.

    The k-th sample of a class with m samples stands at (k + u) / m of the way, u drawn once for
    the class. The second sample is of another class than the first, however rare that is: few
    classifiers take one class alone.
    """
    rng = np.random.default_rng([seed, 2])
    place = np.empty(len(samples))
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        place[rng.permutation(own)] = (np.arange(len(own)) + rng.random()) / len(own)
    order = np.argsort(place, kind="stable")
    others = np.flatnonzero(labels[order] != labels[order[0]])
    if len(others):
        moved = order[others[0]]
        order = np.insert(np.delete(order, others[0]), 1, moved)
    return np.asarray(samples[order])


def grouped_order(samples: Indices, groups: NDArray[Any], seed: int) -> Indices:
    """Group after group in an order drawn from the seed, each group's samples in their own."""
    names = np.unique(groups)
    rank = np.random.default_rng([seed, 3]).permutation(len(names))
    return np.asarray(samples[np.argsort(rank[np.searchsorted(names, groups)], kind="stable")])


def held_out(
    samples: int,
    fraction: float,
    *,
    labels: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None,
) -> tuple[Indices, Indices]:
    """(train, test) indices: about this fraction for the test; a group stands on one side."""
    every = np.arange(samples)
    if groups is not None:
        order = grouped_order(every, groups, SPLIT_SEED)
        sizes = np.cumsum(_run_lengths(groups[order]))
        cut = int(sizes[int(np.argmin(np.abs(sizes - fraction * samples)))])
        if cut >= samples:
            raise KoriskError(
                f"groups must be several, got {len(sizes)} in {samples} samples; a test set of "
                "groups of its own needs at least two of them, or pass test= yourself"
            )
    else:
        if labels is None:
            order = random_order(every, SPLIT_SEED)
        else:
            order = stratified_order(every, labels, SPLIT_SEED)
        cut = max(1, round(fraction * samples))
    return np.sort(order[cut:]), np.sort(order[:cut])


def _run_lengths(groups: NDArray[Any]) -> NDArray[np.intp]:
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    return np.diff(np.append(starts, len(groups)))


def checked_groups(groups: ArrayLike | Sequence[Any] | None, samples: int) -> NDArray[Any] | None:
    """Group labels, one for each sample."""
    if groups is None:
        return None
    found = np.asarray(groups)
    if found.shape != (samples,):
        raise KoriskError(
            f"groups must have one label for each of the {samples} samples, got shape "
            f"{found.shape}; give a list of them"
        )
    return found if found.dtype.kind in "iub" else found.astype(str)


def check_room(sizes: Sequence[int], largest: int | None, room: int) -> int:
    """The largest n that can be asked for, or a refusal of what is larger."""
    for name, n in (("sizes", sizes[-1]), ("largest", largest)):
        if n is not None and n > room:
            raise KoriskError(
                f"{name} must be at most the {room:,} training samples there are, got {n:,}; "
                "ask for less, or leave a smaller part for the test"
            )
    return room


def checked_fraction(test: object) -> float:
    """The part of the samples that the test gets."""
    if isinstance(test, float) and 0 < test < 1:
        return test
    raise KoriskError(
        f"test must be a fraction between 0 and 1 or a test set of one's own, got {shown(test)}; "
        "pass 0.25, for example"
    )
