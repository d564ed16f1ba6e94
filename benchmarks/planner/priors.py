"""Priors that were tried beside TWO, from which the search started.

Names are those of results/planner_search.json. It has the scores of 126; here are TWO and the last
round, of which one was chosen. The others were mostly of parts that are gone: floors by N, rates
and drifts by the number of sizes, larger shifts, more stretches.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from korisk.planning.futures import prior as priors
from korisk.planning.futures.posterior import posterior
from korisk.planning.futures.prior import BROAD, PLAIN, PRIOR, Kind, Prior

RATES = ((0.8, 0.5), (0.8, 0.4))  # of BROAD: the median, and the spread of its logarithm
SHARES = (0.75, 0.7)  # of BROAD
FLOORS: tuple[dict[str, Any], ...] = (
    {"no_floor": 0.1},
    {"no_floor": 0.15},
    {"floor_shape": (2.0, 1.0)},
    {"no_floor": 0.15, "floor_shape": (2.0, 1.0)},
    {"no_floor": 0.1, "floor_shape": (2.0, 1.0)},
)
STEPS = "stretches ((0.8, 3.0), (0.8, 0.2))"


def tried() -> Iterator[tuple[str, Kind, Kind, Prior]]:
    """Names; broad curves of small and of large N; and what all curves have."""
    before = replace(BROAD, weight=0.8, rate_median=0.7, rate_spread=0.35, no_floor=0.2)
    noises = (1e-4, 1e-3, 0.003, 0.01, 0.03, 0.08)
    steps: dict[str, Any] = {"stretches": (1.0, 3.9), "stretch_weights": (0.84, 0.16)}
    yield "TWO", before, before, replace(PRIOR, noises=noises, **steps)
    for place, rate, share, floor in product(("at all N", "upto=4096"), RATES, SHARES, FLOORS):
        name = f"rate {rate} noise .1 .3 1 3 broad share {share} {STEPS} with {floor} {place}"
        broad = replace(before, weight=share, rate_median=rate[0], rate_spread=rate[1], **floor)
        slow = replace(broad, rate_median=0.7, rate_spread=0.35)
        yield name, broad, broad if place == "at all N" else slow, PRIOR


def use(name: str) -> None:
    """Answer with another prior from now on."""
    ((broad, slow, rest),) = (found[1:] for found in tried() if found[0] == name)
    plain = replace(PLAIN, weight=round(1 - broad.weight, 6))
    priors.BROAD, priors.SLOW, priors.PLAIN = broad, slow, plain
    priors.PRIOR = replace(rest, kinds=(broad, plain))
    priors.prior_at.cache_clear()
    posterior.cache_clear()
