"""What page/planner.js needs of a pilot to plan in the page as `korisk plan` does."""

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from korisk.curves import compare, forecast, plan, posterior, target, unit
from korisk.curves.curve import LARGEST_N
from korisk.curves.findings import findings
from korisk.errors import KoriskError, shown


def planner_data(made: forecast.Forecast) -> dict[str, Any]:
    """One pilot's posterior and words as plain values for JSON; arrays are base64 texts.

    Every number is sent as the double that Python computes with, except the level of each grid
    point, which the page computes anew: it follows from the rest to the last digits.
    """
    if made.method != forecast.DEFAULT_METHOD:
        raise KoriskError(
            f"method must be {forecast.DEFAULT_METHOD!r} for a page, got {shown(made.method)}; "
            "only the default method's formulas are in it"
        )
    curve = made.curve
    return {
        "model": curve.model,
        "metric": curve.metric,
        "unit": {
            "name": curve.unit.name,
            "law": curve.unit.law,
            "noun": curve.unit.noun,
            "rule": curve.unit.rule,
            "larger_is_better": curve.unit.larger_is_better,
            "logarithmic": curve.unit.logarithmic,
        },
        "sizes": curve.sizes.tolist(),
        "means": curve.means.tolist(),  # errors
        "last": made.last,
        "horizon": made.horizon,
        "findings": list(findings(curve)),
        "posterior": _posterior(made.posterior),
        "constants": _constants(),
    }


def _posterior(made: posterior.Posterior) -> dict[str, Any]:
    pilot, prior = made._pilot, made._prior
    used, walk = np.unique(made.walk, return_inverse=True)
    rates, rate = np.unique(made.rate, return_inverse=True)
    shifts, shift = np.unique(made.shift, return_inverse=True)
    below = np.tril_indices(len(pilot.x))
    return {
        "last": made.last,
        "pilot": {
            "x": pilot.x.tolist(),
            "y": pilot.y.tolist(),
            "doublings": pilot.doublings.tolist(),
        },
        "walks": [
            {
                "drift": made._walks[index].drift,
                "precision": made._walks[index].precision,
                "inverse": _text(made._walks[index].inverse[below], "<f8"),  # row by row
            }
            for index in used
        ],
        "surprise": prior.surprise,
        "surprise_stretch": prior.surprise_stretch,
        "surprise_step": prior.surprise_step,
        "rates": rates.tolist(),
        "shifts": shifts.tolist(),
        "weight": _text(made.weight, "<f8"),
        "floor": _text(made.floor, "<f8"),
        "rate": _text(rate, "<u2"),  # which of the rates, and so on
        "shift": _text(shift, "u1"),
        "walk": _text(walk, "u1"),
    }


def _constants() -> dict[str, Any]:
    """Constants of the formulas: they are written once, in Python."""
    return {
        "near": plan.NEAR,
        "later": plan.LATER,
        "least_reach": plan.LEAST_REACH,
        "tail": plan.TAIL,
        "middle": plan.MIDDLE,
        "levels": list(plan.LEVELS),
        "round": plan.ROUND,
        "largest_n": LARGEST_N,
        "per_doubling": forecast._PER_DOUBLING,
        "newton": posterior._NEWTON,
        "close": posterior._CLOSE,
        "shares": len(compare._SHARES),
        "smallest_error": unit.SMALLEST_ERROR,
        "largest_error": unit.LARGEST_ERROR,
        "easy": target._EASY,
        "hard": target._HARD,
        "meanings": [
            {"words": meaning.words, "laws": sorted(meaning.laws)} for meaning in target._MEANINGS
        ],
    }


def _text(values: ArrayLike, kind: str) -> str:
    """Numbers as base64 of their bytes, little-endian."""
    return base64.b64encode(np.asarray(values).astype(kind).tobytes()).decode("ascii")
