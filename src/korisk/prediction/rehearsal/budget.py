"""What of a rehearsal is trained within a limit of time, and what that leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from korisk.fitting.gradient.many import CHECKS
from korisk.texts import counted, duration

LEAST_SIZES = 3  # of a curve that can be predicted with
_FAR = 2  # number of largest sizes that are kept: most targets lie between them
_LEAST_SEEDS = 2  # at the largest N: a spread needs two
# Shares of the steps. Few values, so that a resumed rehearsal chooses the same one again.
_SHARES = (0.75, 0.5, 0.35, 0.25)


@dataclass(frozen=True)
class Extent:
    """The networks to train: the sizes, and how many of the seeds each has."""

    sizes: tuple[int, ...]  # numbers of training pairs, ascending
    seeds: tuple[int, ...]
    steps: int
    counts: tuple[int, ...]  # how many seeds, of each size
    halved: int  # how many of those with half the distinct images, at the largest N

    @classmethod
    def whole(cls, sizes: Sequence[int], seeds: Sequence[int], steps: int) -> Extent:
        """All seeds at every size."""
        return cls(tuple(sizes), tuple(seeds), steps, (len(seeds),) * len(sizes), len(seeds))

    @property
    def half(self) -> Extent:
        """One network of the largest N with half the steps."""
        return Extent(self.sizes[-1:], self.seeds[:1], self.steps // 2, (1,), 0)


def reduced(full: Extent, unaltered: int) -> Iterator[Extent]:
    """The whole rehearsal, then smaller ones, the steps of the networks last but one.

    A network takes as long at any N, so networks at small N go first, which say least of large N:
    seeds of all but the two largest N, then these sizes but one; then seeds of the second largest
    N and of half the distinct images. Seeds of the largest N tell what these seeds have in common
    (`levelled`), and go last.
    """
    yield full
    extent, small, every = full, len(full.sizes) - _FAR, len(full.seeds)
    for count in range(every - 1, 0, -1):
        extent = replace(extent, counts=(count,) * small + full.counts[small:])
        yield extent
    while len(extent.sizes) > LEAST_SIZES:
        left_out = extent.sizes.index(_dispensable(extent.sizes, unaltered))
        sizes, counts = (
            values[:left_out] + values[left_out + 1 :] for values in (extent.sizes, extent.counts)
        )
        extent = replace(extent, sizes=sizes, counts=counts)
        yield extent
    for count in range(every - 1, 0, -1):
        extent = replace(extent, counts=(*extent.counts[:-2], count, every))
        yield extent
    for count in range(every - 1, 0, -1):
        extent = replace(extent, halved=count)
        yield extent
    for share in _SHARES:
        steps = max(2 * CHECKS, round(share * full.steps))  # so that half of them can be checked
        extent = replace(extent, steps=min(steps, full.steps))
        yield extent
    for count in range(every - 1, _LEAST_SEEDS - 1, -1):
        extent = replace(extent, counts=(*extent.counts[:-1], count))
        yield extent


def _dispensable(sizes: Sequence[int], unaltered: int) -> int:
    """The size that a curve can do without: between close neighbours, or else the smallest.

    The two largest stay, and so does the largest that needs no altered copies.
    """
    # The largest N without altered copies anchors the curve, and is kept.
    exact = max((n for n in sizes if n <= unaltered), default=sizes[0])

    def gap(place: int) -> float:
        return math.inf if place == 0 else sizes[place + 1] / sizes[place - 1]

    places = (place for place in range(len(sizes) - _FAR) if sizes[place] != exact)
    return sizes[min(places, key=gap)]


def within(
    limit: float, full: Extent, unaltered: int, seconds: Callable[[Extent], float]
) -> Extent:
    """The first of `reduced` within a limit in seconds, or else the last."""
    extents = list(reduced(full, unaltered))
    return next((extent for extent in extents if seconds(extent) <= limit), extents[-1])


def reduction_note(full: Extent, extent: Extent, limit: float, seconds: float) -> str | None:
    """What was left out for a limit of time, in a sentence."""
    # Sizes, then seeds by size, then steps: in the order in which they are left out.
    left_out = [n for n in full.sizes if n not in extent.sizes]
    changes = [f"N = {_listed(left_out)} left out"] * bool(left_out)
    for count in sorted(set(extent.counts)):
        if count < len(full.seeds):
            few = [n for n, c in zip(extent.sizes, extent.counts, strict=True) if c == count]
            seeds = f"{counted(count, 'seed')} instead of {len(full.seeds)}"
            changes.append(f"{seeds} at N = {_listed(few)}")
    if extent.steps < full.steps:
        changes.append(
            f"{extent.steps:,} steps instead of {full.steps:,}: what the others would take off the "
            "errors is estimated, and bands are wider"
        )
    if not changes:
        return None
    note = f"Reduced for a limit of {duration(limit)}: {'; '.join(changes)}."
    if seconds > limit:
        note += f" It takes about {duration(seconds)} even so."
    return note


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)
