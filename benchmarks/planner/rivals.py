"""What others do with a pilot: fits of tutorials and scaling laws.

The scaling laws M1 to M4 are those that Alabdulmohsin, Neyshabur and Zhai compare ("Revisiting
Neural Scaling Laws in Language and Vision", 2022), and BNSL is the broken neural scaling law of
Caballero, Gupta, Rish and Krueger (2023) with one break. All are written here from their formulas,
and fitted alike: least squares of the log error from several fixed starts, the best of them kept.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import curve_fit, least_squares, nnls
from scipy.special import expit, logit

from korisk.curves.curve import Curve
from korisk.planning import calibration
from korisk.theory import RiskLine

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]
Rival = Callable[[Array, Array], Predict]  # n (K,), means (K,) to a curve
Law = Callable[[Array, Array], Array]  # parameters, log(N / last N) to the log error


def last_value(n: Array, means: Array) -> Predict:
    """No more learning: the last error stays."""
    return lambda at: np.full(len(at), means[-1])


def paper_line(n: Array, means: Array) -> Predict:
    """The paper's line c + a log N / N, with c the lowest mean."""
    return along(calibration.paper_line(Curve(n.astype(int), means)))


def fitted_line(n: Array, means: Array) -> Predict:
    """A line c + a log N / N by least squares, with c and a at least 0."""
    root = 1.0 / means
    basis = np.stack([np.ones(len(n)), np.log(n) / n], axis=1)
    scale = np.abs(basis).max(axis=0)  # so that units and large N do not matter
    (floor, slope), _ = nnls(root[:, None] * basis / scale, root * means / means[-1])
    return along(RiskLine(floor / scale[0] * means[-1], slope / scale[1] * means[-1]))


def along(fitted: RiskLine) -> Predict:
    """A line as a curve."""
    return lambda at: fitted.floor + fitted.slope * np.log(at) / at


def tutorial_power(n: Array, means: Array) -> Predict:
    """c + a N^-b by nonlinear least squares from one start, unbounded, as in many tutorials."""

    def law(x: Array, a: float, b: float, c: float) -> Array:
        return np.asarray(a * np.power(x, -b) + c)

    try:
        fitted, _ = curve_fit(law, n, means, p0=(1.0, 0.5, 0.0), maxfev=5_000)
    except RuntimeError:
        return last_value(n, means)
    return lambda at: law(at, *fitted)


# --- Published scaling laws ----------------------------------------------------------------------

FLOORS = np.array([0.02, 0.5, 0.9])  # of the smallest error: where fits start
BREAKS = (0.25, 0.5, 0.75)  # of the way from the first to the last size, in logarithms
EVALUATIONS = 500  # for each start at most; with ten thousand, scores are the same
STEPS = 60  # of Newton's method at most; it takes three to seven


def m1(n: Array, means: Array) -> Predict:
    """M1, the power law without a floor: e = beta N^-c. Its fit is a line in logarithms."""
    start = _line(n, np.log(means))
    return _fitted(lambda p, x: p[0] - _exp(p[1]) * x, [start], n, means) or last_value(n, means)


def m2(n: Array, means: Array) -> Predict:
    """M2, the power law with a floor: e = beta N^-c + e_inf."""

    def law(p: Array, x: Array) -> Array:
        return np.asarray(np.logaddexp(p[0] - _exp(p[1]) * x, p[2]))

    floors = FLOORS * means.min()
    starts = [np.append(_line(n, np.log(means - floor)), np.log(floor)) for floor in floors]
    return _fitted(law, starts, n, means) or last_value(n, means)


def m3(n: Array, means: Array) -> Predict:
    """M3, a power of a shifted 1/N: e = beta (1/N + gamma)^c."""

    def law(p: Array, x: Array) -> Array:  # gamma in units of 1 / last N
        return np.asarray(p[0] + _exp(p[1]) * np.logaddexp(-x, p[2]))

    line = _line(n, np.log(means))
    steep = line + np.array([0.0, np.log(3.0)])
    starts = [np.append(rate, shift) for rate in (line, steep) for shift in (-4.0, 0.0, 2.0)]
    return _fitted(law, starts, n, means) or m2(n, means)


def m4(n: Array, means: Array) -> Predict:
    """M4: (e - e_inf) / (e_0 - e)^alpha = beta N^-c, solved for e at every N.

    Its authors set e_0, the error of a model that has learnt nothing, to that of a random guess. A
    pilot does not say which that is, so it is fitted between the largest error of the pilot and
    twice that, or one where that is more.
    """
    low, high = float(means.max()), max(1.0, 2 * float(means.max()))

    def law(p: Array, x: Array) -> Array:
        nothing = low + (high - low) * expit(p[4])
        floor = nothing * expit(p[3])
        learnt = expit(_solved(p[0] - _exp(p[1]) * x, _exp(p[2])))
        return np.asarray(np.log(floor + (nothing - floor) * learnt))

    nothing = low + 0.05 * (high - low)
    starts = []
    for floor in FLOORS * means.min():
        start = _line(n, logit((means - floor) / (nothing - floor)))  # exact where alpha = 1
        starts.append(np.concatenate([start, [0.0], logit(np.array([floor / nothing, 0.05]))]))
    return _fitted(law, starts, n, means) or m2(n, means)


def bnsl(n: Array, means: Array) -> Predict:
    """BNSL with one break: e = a + b N^-c0 (1 + (N / d1)^(1 / f1))^(-c1 f1)."""

    def law(p: Array, x: Array) -> Array:
        width = _exp(p[5])
        bend = width * np.logaddexp(0.0, (x - p[4]) / width)
        return np.asarray(np.logaddexp(p[0], p[1] - p[2] * x - p[3] * bend))

    x = np.log(n / n[-1])
    starts = []
    for floor in FLOORS[::2] * means.min():
        y = np.log(means - floor)
        for part in BREAKS:
            at = (1 - part) * x[0]
            columns = np.stack([np.ones_like(x), -x, -np.maximum(x - at, 0)], axis=1)
            level, early, change = np.linalg.lstsq(columns, y, rcond=None)[0]
            starts.append(np.array([np.log(floor), level, early, change, at, -0.7]))
    return _fitted(law, starts, n, means) or m2(n, means)


def _solved(right: Array, alpha: float) -> Array:
    """The t with log s(t) - alpha log(1 - s(t)) = right, where s is the logistic function.

    With e = e_inf + (e_0 - e_inf) s(t) this is M4. The left side rises with a slope between one and
    alpha and bends one way only, so that Newton's method cannot fail.
    """
    t = np.where(right < 0, right, right / alpha)
    for _ in range(STEPS):
        left = alpha * np.logaddexp(0.0, t) - np.logaddexp(0.0, -t)
        step = (right - left) / (expit(-t) + alpha * expit(t))
        t = t + step
        if np.abs(step).max() < 1e-10:
            break
    return np.asarray(t)


def _fitted(law: Law, starts: list[Array], n: Array, means: Array) -> Predict | None:
    """The best fit of all starts, None where no start fits, or where it has too few sizes."""
    x, y = np.log(n / n[-1]), np.log(means)
    if len(x) < len(starts[0]):
        return None

    def residual(p: Array) -> Array:
        return law(p, x) - y

    best: tuple[float, Array | None] = (np.inf, None)
    with np.errstate(all="ignore"):
        for start in starts:
            try:
                found = least_squares(residual, start, method="lm", max_nfev=EVALUATIONS)
            except (FloatingPointError, ValueError):
                continue
            if found.cost < best[0] and np.isfinite(found.x).all():
                best = (found.cost, found.x)
    fitted = best[1]
    if fitted is None:
        return None

    def predict(at: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.exp(np.nan_to_num(law(fitted, np.log(at / n[-1])), nan=float(y[-1])))

    return predict


def _line(n: Array, y: Array) -> Array:
    """Level at the last N, and log of the fall by log N, of the line through y."""
    slope, level = np.polyfit(np.log(n / n[-1]), y, 1)
    return np.array([level, np.log(max(-slope, 1e-3))])


def _exp(value: float) -> float:
    return float(np.exp(np.clip(value, -50.0, 50.0)))


RIVALS: dict[str, Rival] = {
    "paper": paper_line,
    "line": fitted_line,
    "last value": last_value,
    "curve_fit c + a N^-b": tutorial_power,
    "M1": m1,
    "M2": m2,
    "M3": m3,
    "M4": m4,
    "BNSL": bnsl,
}
