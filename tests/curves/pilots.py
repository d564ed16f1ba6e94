"""Pilots that the tests share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import korisk as kr
from korisk.planning.forecast import Source
from korisk.planning.futures.law import Law, normals

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


# --- Plans whose answer is known in closed form --------------------------------------------------


@dataclass(frozen=True)
class KnownLaw:
    """The error is `scale` / N with log-normal noise, or stays at 8,000 in the other futures.

    So the N that meets a target is log-normal around scale / target, with the probability `reach`.
    """

    scale: float
    spread: float = 0.3
    reach: float = 1.0
    floor: float = 0.0

    def law(self, n: NDArray[np.float64]) -> Law:
        mean = np.stack([np.log(self.scale / n), np.full(len(n), 9.0)])
        return normals(
            np.array([self.reach, 1 - self.reach]), mean, np.full_like(mean, self.spread)
        )

    lasting = law


def known_forecast(
    curve: kr.Curve, law: Source, *, simulated: bool = False, **fields: Any
) -> kr.Forecast:
    """A forecast of a known law beside a pilot, or beside simulated errors."""
    last = float(curve.sizes[-1])
    sizes = np.unique([*np.geomspace(curve.sizes[0], 1e4 * last, 2000), last])
    given: dict[str, Any] = {"model": curve.model, "metric": curve.metric, "unit": curve.unit}
    given |= {"sizes": sizes, "simulated" if simulated else "curve": curve}
    return kr.Forecast(source=law, **given | fields)


def known_plan(
    curve: kr.Curve,
    median: float,
    target: float = 0.02,
    *,
    spread: float = 0.3,
    reach: float = 1.0,
    floor: float = 0.0,
    known: tuple[Any, ...] = (),
    **fields: Any,
) -> kr.Plan:
    """A plan whose N is log-normal around a median, with the probability `reach`."""
    law = KnownLaw(float(curve.unit.to_error(target)) * median, spread, reach, floor)
    return kr.Plan(known_forecast(curve, law, **fields), target, *known)
