"""Pilots that the tests share."""

from pathlib import Path

import numpy as np

import korisk as kr

EXAMPLES = Path(__file__).parents[2] / "examples"

# Mean relative RMSE of the released sweep at H = 128.
N_128 = [4, 16, 64, 256, 1024, 2048]
KO_128 = [0.08727, 0.06127, 0.05580, 0.05511, 0.05498, 0.05496]
FC_128 = [0.18632, 0.13768, 0.09477, 0.07010, 0.05407, 0.04753]


def released_h8(model: str) -> kr.Curve:
    return kr.Curve.read(EXAMPLES / "pilot_h8.csv", model=model)


def power_pilot(
    floor: float = 0.02,
    scale: float = 0.5,
    rate: float = 0.5,
    *,
    noise: float = 0.05,
    seeds: int = 5,
    sizes: tuple[int, ...] = (16, 32, 64, 128, 256, 512),
    draw: int = 0,
) -> kr.Curve:
    """A noisy pilot of floor + scale N^-rate."""
    rng = np.random.default_rng(draw)
    n = np.array(sizes, float)
    errors = (floor + scale * n**-rate)[:, None] * np.exp(
        noise * rng.standard_normal((len(n), seeds))
    )
    labels = [str(seed) for seed in range(seeds)] * len(n)
    return kr.Curve(np.repeat(n, seeds).astype(int), errors.ravel(), labels)


def scaled(curve: kr.Curve, factor: float) -> kr.Curve:
    return kr.Curve(curve.n, curve.error * factor, curve.seed, curve.model, curve.metric)
