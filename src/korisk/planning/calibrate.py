"""From a pilot's errors to a curve through them: the paper's calibration, and better ones."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from korisk._checks import one_of, real
from korisk.curves.curve import LARGEST_N, Curve
from korisk.curves.noise import weights
from korisk.errors import KoriskError, UnreachableError, shown
from korisk.planning.families import FAMILIES, Fits, least_squares
from korisk.planning.posterior import Posterior, posterior
from korisk.theory import RiskLine

Array = NDArray[np.float64]

ENVELOPE_NOTE = "bounds the pilot, not the future"
AVERAGED = ("line", "power", "no-floor", "log-power")

FORMULAS: dict[str, str] = {
    "posterior": "median over curves with a rate, a floor, a shift or an upper end, and drift",
    "power": FAMILIES["power"].formula,
    "paper": "c + a log N / N, c = lowest mean error",
    **{name: family.formula for name, family in FAMILIES.items() if name != "power"},
    "aic": "average of line, power, no-floor and log-power by AIC",
    "aic-all": "average of all eight families by AIC",
    "envelope": f"smallest c + a log N / N above all means; {ENVELOPE_NOTE}",
}
FITS = tuple(FORMULAS)

LEAST_SIZES = {"paper": 2, "line": 2, "inverse-log": 2, "no-floor": 2, "envelope": 2}


class Estimates(Protocol):
    """Fits of one fit to B pilots that share their N."""

    @property
    def floor(self) -> Array:
        """(B,) the error that no data removes."""

    def predict(self, n: Array) -> Array:
        """(B, M) the error at M values of N."""


@dataclass(frozen=True)
class _Average:
    """Fits of several families, averaged for each pilot with its own weights."""

    parts: tuple[Fits, ...]
    shares: Array  # (families, B)

    @property
    def floor(self) -> Array:
        return np.asarray(sum(s * p.floor for s, p in zip(self.shares, self.parts, strict=True)))

    def predict(self, n: Array) -> Array:
        pairs = zip(self.shares, self.parts, strict=True)
        return np.asarray(sum(share[:, None] * part.predict(n) for share, part in pairs))


def estimate(fit: str, n: Array, errors: Array, weight: Array) -> Estimates:
    """Fit B pilots at once: n (K,), errors (B, K), weight (K,) of the means."""
    if fit == "paper":
        return paper_fit(n, errors)
    if fit == "envelope":
        return envelope(n, errors)
    if fit == "aic":
        return _averaged(AVERAGED, n, errors, weight)
    if fit == "aic-all":
        return _averaged(tuple(FAMILIES), n, errors, weight)
    return least_squares(FAMILIES[fit], n, errors, weight)


def paper_fit(n: Array, errors: Array) -> Fits:
    """The paper's calibration (tab:calibration): floor = lowest mean, then a slope through it.

    Both are those of Eq. (eq:calibrated-bound). The slope is the least-squares one of error - floor
    on log N / N, without intercept or weights.
    """
    rate = np.log(n) / n
    floor = errors.min(axis=1)
    slope = (errors - floor[:, None]) @ rate / (rate @ rate)
    return _line(n, errors, floor, slope)


def envelope(n: Array, errors: Array) -> Fits:
    """The line floor + slope log N / N that lies above all means with the least to spare.

    It touches two means, or one with no floor or no slope: all such lines are tried.
    """
    rate = np.log(n) / n
    first, second = np.triu_indices(len(n), 1)
    gap = rate[first] - rate[second]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (errors[:, first] - errors[:, second]) / gap
    slope = np.where(np.isfinite(slope), slope, -1.0)
    floor = errors[:, first] - slope * rate[first]
    steep = (errors / rate).max(axis=1, keepdims=True)
    level = errors.max(axis=1, keepdims=True)
    zero = np.zeros_like(level)
    slopes = np.concatenate([slope, steep, zero], axis=1)  # (B, lines)
    floors = np.concatenate([floor, zero, level], axis=1)
    spare = floors[..., None] + slopes[..., None] * rate - errors[:, None, :]
    allowed = (slopes >= 0) & (floors >= 0) & (spare >= -1e-12 * level[..., None]).all(axis=2)
    best = np.argmin(np.where(allowed, spare.sum(axis=2), np.inf), axis=1)
    rows = np.arange(len(errors))
    return _line(n, errors, floors[rows, best], slopes[rows, best])


def _line(n: Array, errors: Array, floor: Array, slope: Array) -> Fits:
    last = float(n[-1])
    residual = errors - floor[:, None] - slope[:, None] * np.log(n) / n
    loss = (residual**2).sum(axis=1)
    return Fits(FAMILIES["line"], last, floor, slope * (math.log(last) / last), (), loss)


def _averaged(names: tuple[str, ...], n: Array, errors: Array, weight: Array) -> _Average:
    fitting = [FAMILIES[name] for name in names if FAMILIES[name].parameters < len(n)]
    parts = tuple(least_squares(family, n, errors, weight) for family in fitting)
    loss = np.array([part.loss for part in parts])
    smallest = 1e-20 * len(n)  # a perfect fit is one to rounding; losses are of unit errors
    parameters = np.array([family.parameters for family in fitting])
    criterion = len(n) * np.log(np.maximum(loss, smallest)) + 2.0 * parameters[:, None]
    shares = np.exp(-0.5 * (criterion - criterion.min(axis=0)))
    return _Average(parts, shares / shares.sum(axis=0))


@dataclass(frozen=True)
class Calibration:
    """A curve through a pilot, in the unit of errors.

    `slope` is the factor a of the formula, None for fits that have no single one. The note says
    what the curve must not be taken for.

    `parameters` holds the letters of `formula` and their values, N counted in samples; `floor` is
    the error that no data removes.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125])
    >>> fitted = kr.calibrate(pilot, "line")
    >>> fitted.formula, fitted.predict([512, 1024]).shape
    ('c + a log N / N', (2,))
    >>> fitted.predict(fitted.samples(0.005)) <= 0.005
    True
    """

    fit: str
    formula: str
    curve: Curve = field(repr=False)
    floor: float
    slope: float | None
    parameters: dict[str, float]
    note: str
    _predict: Callable[[Array], Array] = field(repr=False)

    @overload
    def predict(self, n: float) -> float: ...
    @overload
    def predict(self, n: list[float] | list[int] | Array | NDArray[np.int64]) -> Array: ...
    def predict(self, n: object) -> float | Array:
        """The error at N; an array for an array of N.

        N is from 2 to 10^15, or `KoriskError` is raised. It need not be whole.
        """
        values = sample_counts(n)
        errors = self._predict(np.atleast_1d(values))
        return float(errors[0]) if values.ndim == 0 else errors

    def samples(self, target: float) -> int:
        """The smallest N from which on the curve stays at or below a target error.

        N runs from 3 on, because log N / N rises before; only the lines of the paper know N = 2.

        A target that the curve never comes down to raises `UnreachableError`.
        """
        wanted = real("target", target, above=0, remedy="give the error that you want to reach")
        if self.fit in {"paper", "line", "envelope"} and self.slope is not None:
            if wanted <= self.floor:
                raise _unreachable(wanted, self.floor)
            return RiskLine(self.floor, self.slope).samples(wanted)
        return first_below(self._predict, wanted, self.floor)


def calibrate(curve: Curve, fit: str = "power") -> Calibration:
    """Fit a learning curve to a pilot by one of `FITS`.

    The curve needs two sizes for fits with two numbers to fit, and three for the others, or
    `KoriskError` is raised. Of several seeds the means are fitted.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128], [0.21, 0.11, 0.06, 0.035])
    >>> {name: round(value, 2) for name, value in kr.calibrate(pilot).parameters.items()}
    {'c': 0.01, 'a': 3.2, 'b': 1.0}
    >>> kr.calibrate(pilot, "paper").floor
    0.035
    """
    one_of("fit", fit, FITS)
    check_curve(curve)
    curve.require(LEAST_SIZES.get(fit, 3), _what(fit))
    if fit == "posterior":
        return _of_posterior(curve, posterior(curve))
    made = estimate(fit, curve.sizes.astype(float), curve.means[None, :], weights(curve))
    parameters = _parameters(made) if isinstance(made, Fits) else {}
    floor = made.floor.item()
    return Calibration(
        fit,
        FORMULAS[fit],
        curve,
        floor,
        parameters.get("a"),
        parameters or {"c": floor},
        ENVELOPE_NOTE if fit == "envelope" else "",
        lambda n: made.predict(n)[0],
    )


def check_curve(curve: object) -> None:
    """Refuse what is no curve, such as the path of one."""
    if not isinstance(curve, Curve):
        raise KoriskError(
            f"curve must be a Curve, got {shown(curve)}; read one with korisk.Curve.read(path)"
        )


def _of_posterior(curve: Curve, made: Posterior) -> Calibration:
    floor = made.floor_quantile(0.5)
    rate = float(made.weight @ made.rate)
    return Calibration(
        "posterior",
        FORMULAS["posterior"],
        curve,
        floor,
        None,
        {"c": floor, "b": rate},
        "",
        lambda n: made.quantile(n, 0.5),
    )


def _parameters(fits: Fits) -> dict[str, float]:
    """The letters of the formula and their values, N counted in samples."""
    last, log_last = fits.last, math.log(fits.last)
    scale = fits.scale.item()
    rate, second = ([value.item() for value in fits.shape] + [0.0, 0.0])[:2]
    match fits.family.name:
        case "line":
            own = {"a": scale * last / log_last}
        case "inverse-log":
            own = {"a": scale * log_last}
        case "log-power":
            own = {"a": scale * (last / log_last) ** rate, "b": rate}
        case "shifted-power":
            shift = second * last
            own = {"a": scale * (last + shift) ** rate, "b": rate, "s": shift}
        case "weibull":
            own = {"a": scale * _exp(second), "b": rate, "k": second * last**-rate}
        case "mmf":
            own = {"a": scale * (1 + second), "b": rate, "k": second * last**-rate}
        case _:
            own = {"a": scale * last**rate, "b": rate}
    return {"c": fits.floor.item(), **own}


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def first_below(predict: Callable[[Array], Array], target: float, floor: float) -> int:
    """The smallest N from 3 on whose predicted error is at most the target."""

    def reached(n: int) -> bool:
        return bool(predict(np.array([float(n)]))[0] <= target)

    if reached(3):
        return 3
    if not reached(LARGEST_N):
        raise _unreachable(target, floor)
    low, high = 3, LARGEST_N  # not reached at low, reached at high
    while high - low > 1:
        # Halving the logarithm first: answers are far below the largest N.
        middle = max(low + 1, math.isqrt(low * high))
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _unreachable(target: float, floor: float) -> UnreachableError:
    return UnreachableError(
        target=target, floor=floor, what="the fitted curve", remedy="take another fit"
    )


def _what(fit: str) -> str:
    return "the paper's calibration" if fit == "paper" else f"fit {fit!r}"


def sample_counts(n: object) -> Array:
    """() or (M,) sizes N, as a user gave them."""
    try:
        values = np.asarray(n, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim > 1 or not values.size or not (values >= 2).all() or (values > LARGEST_N).any():
        raise KoriskError(
            f"n must be a number from 2 to 10^15, or a list of such, got {shown(n)}; "
            "count the training samples"
        )
    return values
