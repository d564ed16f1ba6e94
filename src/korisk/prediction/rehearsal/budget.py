"""What of a rehearsal is trained within a limit of time, and what that leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from korisk.fitting.gradient.many import CHECKS
from korisk.texts import duration

LEAST_SIZES = 3  # of a curve that can be predicted with
_LEAST_SEEDS = 2  # a spread needs two
# Of the steps. Few values, so that a rehearsal that is resumed chooses the same one again.
_SHARES = (0.75, 0.5, 0.35, 0.25)


@dataclass(frozen=True)
class Extent:
    """What is trained: a network for each size and seed."""

    sizes: tuple[int, ...]  # numbers of training pairs, ascending
    seeds: tuple[int, ...]
    steps: int


def reduced(full: Extent, unaltered: int) -> Iterator[Extent]:
    """The whole rehearsal, then smaller ones, the recipe of the networks last but one.

    First sizes between the largest N and those that need no altered copies go, the largest first;
    then seeds; then steps, down to a quarter; then the largest N.
    """
    yield full
    extent = full
    for n in reversed(full.sizes[1:-1]):
        if n > unaltered and len(extent.sizes) > LEAST_SIZES:
            extent = replace(extent, sizes=tuple(size for size in extent.sizes if size != n))
            yield extent
    while len(extent.seeds) > _LEAST_SEEDS:
        extent = replace(extent, seeds=extent.seeds[:-1])
        yield extent
    for share in _SHARES:
        extent = replace(extent, steps=max(CHECKS, round(share * full.steps)))
        yield extent
    while len(extent.sizes) > LEAST_SIZES:
        extent = replace(extent, sizes=extent.sizes[:-1])
        yield extent


def within(
    limit: float, full: Extent, unaltered: int, seconds: Callable[[Extent], float]
) -> Extent:
    """The first of `reduced` that takes at most so many seconds, or else the last."""
    extents = list(reduced(full, unaltered))
    return next((extent for extent in extents if seconds(extent) <= limit), extents[-1])


def reduction_note(full: Extent, extent: Extent, limit: float, seconds: float) -> str | None:
    """What was left out for a limit of time, in a sentence."""
    left_out = [n for n in full.sizes if n not in extent.sizes]
    changes = [f"N = {_listed(left_out)} left out"] * bool(left_out)
    if len(extent.seeds) < len(full.seeds):
        changes.append(f"{len(extent.seeds)} seeds instead of {len(full.seeds)}")
    if extent.steps < full.steps:
        changes.append(
            f"{extent.steps:,} steps instead of {full.steps:,}, with which errors are others than "
            "after the whole training"
        )
    if not changes:
        return None
    note = f"Reduced for a limit of {duration(limit)}: {'; '.join(changes)}."
    if seconds > limit:
        note += f" It takes about {duration(seconds)} even so."
    return note


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)
