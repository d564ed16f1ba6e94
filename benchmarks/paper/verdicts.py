"""Verdicts on the paper's claims: what each says, what was measured, and whether it holds.

`claims.yaml` lists the claims. Each names a figure and the range that it allows; a verdict compares
the two. `figures_of` computes the figures that sweeps of the study tell; claims.py adds the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import scipy.optimize
import scipy.stats
import yaml
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.paper import published
from korisk.paper.reproduction import MODELS, Sweep
from korisk.planning.calibration import paper_line
from korisk.planning.compare import compare, crossing
from korisk.theory import RiskLine

Outcome = Literal[
    "does not hold",
    "holds with a condition",
    "holds",
    "undecided",
    "nothing to learn",
    "cannot be tested here",
]
VERDICTS: tuple[Outcome, ...] = get_args(Outcome)
Reading = Literal["as the authors ran it", "done properly"]
READINGS: tuple[Reading, ...] = get_args(Reading)
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]  # sizes, and errors, squared as in the paper

_ANSWERS = {True: "holds", False: "not", None: "undecided"}
# Words in the names of figures: of the authors' code or tables, and of the study done properly.
_AUTHORS = {"released", "printed"}
_OURS = {"rigorous"}
_SMALL = (8, 16, 32)  # image sides of the paper's CPU surrogate
_CLINICAL = 1000  # smallest N of what the paper calls a clinical budget
_CLOSE = 1.1  # factor above the lowest error within which a curve counts as near its end
_TARGETS = 12  # targets at which an inverted line is tried
_POWERS = np.geomspace(0.1, 10, 47)  # grid of exponents of log N / N
_FLAT = 1e-9  # relative change of an error that rounding alone explains


@dataclass(frozen=True)
class Figure:
    """A number that was measured, with the interval in which it lies where that is known."""

    name: str  # of what: an operating point, a protocol
    value: float
    low: float | None = None
    high: float | None = None
    vacuous: bool = False  # of a network that training does not change, where a claim is about that

    def of(self, reading: Reading, *, authors: bool) -> bool:
        """Whether it is of this reading; one that names none is of both, or of the authors'."""
        words = set(self.name.split(", "))
        if words & (_AUTHORS | _OURS):
            return bool(words & (_AUTHORS if reading == READINGS[0] else _OURS))
        return reading == READINGS[0] or not authors


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of the paper.

    `least` and `most` are what it allows for its figure; one of `every` case is refuted by one that
    fails; `condition` names one that was met in all that was measured; `why` says why it cannot be
    tested. `authors`: it is about what the authors ran or printed. `learning`: it is about what KO
    learns, so that sweeps in which training changes nothing do not count. `source` is where the
    released code says so.
    """

    key: str
    place: str
    says: str
    command: str = ""
    labels: tuple[str, ...] = ()
    figure: str = ""
    least: float = -math.inf
    most: float = math.inf
    every: bool = False
    authors: bool = False
    learning: bool = False
    source: str = ""
    condition: str = ""
    why: str = ""
    note: str = ""

    def allows(self, figure: Figure) -> bool | None:
        """Whether a figure agrees with the claim; None where its interval has both answers."""
        # Decided only if both ends and the value give the same answer.
        ends = [figure.value if end is None else end for end in (figure.low, figure.high)]
        inside = [self.least <= end <= self.most for end in (*ends, figure.value)]
        if all(inside):
            return True
        return None if any(inside) or ends[0] < self.least <= self.most < ends[1] else False


@dataclass(frozen=True)
class Judged:
    """A claim with its figures and what follows from them."""

    claim: Claim
    figures: tuple[Figure, ...]

    def _names(self, answer: bool | None) -> list[str]:
        return [figure.name for figure in self.counted if self.claim.allows(figure) is answer]

    @property
    def counted(self) -> tuple[Figure, ...]:
        """The figures that decide."""
        return tuple(figure for figure in self.figures if not figure.vacuous)

    def read(self, reading: Reading) -> Outcome | None:
        """The verdict of the figures of one reading; None where there are none."""
        authors = self.claim.authors
        figures = tuple(figure for figure in self.figures if figure.of(reading, authors=authors))
        if not figures and (self.figures or authors) and not self.claim.why:
            return None
        return Judged(self.claim, figures)._outcome

    @property
    def verdict(self) -> Outcome:
        """That of the study done properly, or else that of the authors'."""
        authors, properly = map(self.read, READINGS)
        return properly or authors or self._outcome

    @property
    def _outcome(self) -> Outcome:
        """A claim of every case fails with one; of others, more than half of the figures decide.

        Where they do not, a claim that holds in one case alone, and clearly fails in the rest as
        often, has that case as its condition; all else is undecided.
        """
        holds, failed, unsure = map(self._names, (True, False, None))
        if self.claim.why or not self.figures:
            return "cannot be tested here"
        if not self.counted:
            return "nothing to learn"
        if failed and (self.claim.every or 2 * len(failed) > len(self.counted)):
            return "does not hold"
        if not failed and not unsure:
            return "holds with a condition" if self.claim.condition else "holds"
        # The last word of a name is the case, such as a protocol: a claim that holds exactly in one
        # case and fails in the rest has that case as its condition.
        cases, others = ({name.split(", ")[-1] for name in names} for names in (holds, failed))
        parted = len(holds) == len(failed) and len(cases) == 1 and not unsure and not cases & others
        mostly = parted or 2 * len(holds) > len(self.counted)
        return "holds with a condition" if mostly else "undecided"

    @property
    def because(self) -> str:
        """For what it holds and for what not, or why it cannot be tested; empty if that is all."""
        if self.claim.why:
            return self.claim.why
        parts = {answer: self._names(answer) for answer in (True, False, None)}
        idle, condition = len(self.figures) - len(self.counted), self.claim.condition
        vacuous = f"{idle} of {len(self.figures)} do not count: KO has nothing to learn"
        vacuous = vacuous if idle else ""
        if sum(map(bool, parts.values())) < 2:
            # All figures agree: the condition says more, unless nothing is decided.
            undecided = "the interval of the figure decides nothing" if parts[None] else ""
            reasons = [undecided or (condition if parts[True] else ""), vacuous]
        else:
            # The answers of two figures stand in `text` already.
            answers = [
                f"{_ANSWERS[answer]}: {_short(names, parts)}"
                for answer, names in parts.items()
                if names and len(self.counted) > 2
            ]
            reasons = [*answers, vacuous, condition]
        return "; ".join(filter(None, reasons))

    @property
    def text(self) -> str:
        """The figures in short: all of up to two, or the ends of several."""
        figures = self.counted or self.figures
        if len(figures) > 2:
            first, *_, last = map(_number, sorted(figure.value for figure in figures))
            return first if first == last else f"{first} to {last}"
        # Two figures of one point are told apart by their case alone.
        if len({figure.name.split(", ")[0] for figure in figures}) < len(figures):
            figures = tuple(replace(f, name=f.name.split(", ")[-1]) for f in figures)
        mixed = len({self.claim.allows(figure) for figure in figures}) > 1 and not self.claim.why
        return "; ".join(self._sentence(figure, answer=mixed) for figure in figures)

    def _sentence(self, figure: Figure, *, answer: bool) -> str:
        text = _number(figure.value)
        if figure.low is not None and figure.high is not None:
            low = "up" if figure.low == 0 < figure.value else _number(figure.low)
            text += f" ({low} to {_number(figure.high)})"
        name = f"{figure.name}: " if figure.name else ""
        agrees = f", {_ANSWERS[self.claim.allows(figure)]}" if answer else ""
        return f"{name}{text}{agrees}"


def _number(value: float | None) -> str:
    if value is None or math.isinf(value):
        return "∞"
    if value and not 1e-3 <= abs(value) < 1e5:
        digits, power = f"{value:.1e}".split("e")
        return f"{digits}e{int(power)}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _short(names: Sequence[str], parts: Mapping[bool | None, Sequence[str]]) -> str:
    """Names by what they share, `released` for `H = 8, released` and others, where no others do."""
    others = [name for group in parts.values() for name in group if name not in names]
    # Cases first, then points: as few words as tell these names from all others.
    for position in (-1, 0):
        shared = list(dict.fromkeys(name.split(", ")[position] for name in names))
        apart = not {name.split(", ")[position] for name in others} & {*shared}
        if apart and (position == -1 or len(shared) < len(names)) and len(shared) <= 3:
            return ", ".join(shared)
    return "; ".join(names) if len(names) <= 3 else f"{len(names)} of {len(names) + len(others)}"


def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the paper."""
    listed = yaml.safe_load(Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8"))
    return tuple(Claim(**entry | {"labels": tuple(entry.get("labels", ()))}) for entry in listed)


# --- Figures from sweeps -------------------------------------------------------------------------


def figures_of(sweeps: Sequence[Sweep]) -> dict[str, list[Figure]]:
    """The figures that sweeps tell, by the key of their claim; complete sweeps only."""
    figures: dict[str, list[Figure]] = {}
    ratios: dict[str, dict[int, Figure]] = {}
    learning = {claim.key for claim in claims() if claim.learning}

    def add(key: str, new: Iterable[Figure], *, idle: bool) -> None:
        """Add figures to a claim; they are vacuous where it is about learning and KO is idle."""
        marked = (replace(figure, vacuous=idle and key in learning) for figure in new)
        figures.setdefault(key, []).extend(marked)

    for sweep in sweeps:
        sizes = [sweep.within_paper(model).sizes.tolist() for model in MODELS]
        # The paper has five N at the small scales and six at the others.
        if sweep.reduced or sweep.side > 256 or sizes[0] != sizes[1] or len(sizes[0]) < 5:
            continue
        name, idle = f"H = {sweep.side}, {sweep.protocol}", not sweep.learns
        for key, test in _OF_BOTH.items():
            if test.concerns(sweep):
                add(key, _over_seeds(name, sweep, test), idle=idle)
        for (key, of), (index, model) in itertools.product(_OF_EACH.items(), enumerate(MODELS)):
            most = 1.0 if of in (_safe, _within_twice) else math.inf  # shares of targets
            test = _Test(lambda *pair, of=of, index=index: of(pair[index]), most=most)
            model_figures = _over_seeds(f"{name}, {model}", sweep, test)
            add(key, model_figures, idle=idle and model == "KO")
        if sweep.untrained:
            corrected = float(sweep.known.means.min()) / sweep.untrained
            corrected = corrected if sweep.small else corrected**2  # squared, as the paper's lines
            add("residual-correction", [Figure(name, corrected)], idle=idle)
        pixels = sweep.side**2  # the ratio of parameters, FC over KO
        shared = _sample_ratio(name, sweep, max)
        if shared is not None:
            for key in ("sample-ratio", "sample-ratio-every"):
                add(key, [shared], idle=idle)
            ratios.setdefault(sweep.protocol, {})[sweep.side] = shared
            slopes = _slope_ratio(*_pairs(sweep))
            if slopes:
                add("sigma-closer", [_closer(shared, slopes, pixels)], idle=idle)
            ends = _over(pixels, shared.high), _over(pixels, shared.low)
            add("overstates", [Figure(name, pixels / shared.value, *ends)], idle=idle)
        crossed = crossing(sweep.known, sweep.dense) if sweep.side == 128 else None
        if crossed is not None and crossed.crossover is not None:
            place = crossed.crossover
            crossover = Figure(name, float(place.n), place.lower, place.upper)
            add("catches-up", [crossover], idle=idle)
        reached = _sample_ratio(name, sweep, lambda known, dense: known)
        if reached is not None:
            add("two-orders-met", [reached], idle=idle)
            if sweep.side == 256:
                add("plateau-256", [reached], idle=idle)
            if name == "H = 128, released":
                add("thirty-times", [replace(reached, name="measured")], idle=idle)
        if sweep.protocol == "released":
            add("calibration", [_printed_ratio(sweep)], idle=idle)
    for protocol, by_side in ratios.items():
        # The ratio at 256 over the largest at smaller sides, if all five points were run.
        if sorted(by_side) == [*_SMALL, 128, 256]:
            last = by_side.pop(256)
            rest = max(by_side.values(), key=lambda figure: figure.value)
            ends = _over(last.low, rest.high), _over(last.high, rest.low)
            vacuous = not all(sweep.learns for sweep in sweeps if sweep.protocol == protocol)
            grown = Figure(protocol, last.value / rest.value, *ends, vacuous=vacuous)
            figures.setdefault("largest-gap", []).append(grown)
    return figures


def _closer(ratio: Figure, slopes: float, parameters: float) -> Figure:
    """How many times farther the ratio of parameters is from that of samples than the slopes'."""

    def times_off(samples: float) -> float:
        return math.exp(abs(math.log(parameters / samples)) - abs(math.log(slopes / samples)))

    ends = [times_off(end) for end in (ratio.low, ratio.high) if end and math.isfinite(end)]
    values = [times_off(ratio.value), *ends]
    return Figure(ratio.name, values[0], min(values), max(values))


def _over(numerator: float | None, denominator: float | None) -> float | None:
    """A ratio of ends of intervals, which may be unknown, zero or infinite."""
    if numerator is None or denominator is None:
        return None
    return numerator / denominator if denominator else math.inf


def _pairs(sweep: Sweep, without: int | None = None, *, beyond: bool = False) -> tuple[Pair, Pair]:
    """Mean curves over the paper's N, or `beyond` them, of all seeds or without one of them."""
    pairs = []
    for model, all_sizes in zip(MODELS, (sweep.known, sweep.dense), strict=True):
        curve = all_sizes if beyond else sweep.within_paper(model)
        errors = curve.means
        if without is not None:
            errors = np.nanmean(np.delete(curve.table, without, axis=1), axis=1)
        pairs.append((curve.sizes.astype(float), errors if sweep.small else errors**2))
    return pairs[0], pairs[1]


def _over_seeds(name: str, sweep: Sweep, test: _Test) -> Iterator[Figure]:
    """What a function makes of the mean curves, with a 90% interval by the jackknife over seeds."""
    value = test.of(*_pairs(sweep, beyond=test.beyond))
    if value is None:
        return
    count = min(len(sweep.known.seeds), len(sweep.dense.seeds))
    left_out = range(count if count > 1 else 0)
    without_one = [test.of(*_pairs(sweep, seed, beyond=test.beyond)) for seed in left_out]
    replicates = np.array([replicate for replicate in without_one if replicate is not None])
    if len(replicates) < 2:
        yield Figure(name, value)
        return
    # Of replicates within a factor of ten, ratios are more regular than differences.
    alike = replicates.min() > 0 and replicates.max() < 10 * replicates.min()
    scaled = np.log(replicates) if alike else replicates
    # The jackknife's standard error is sqrt(n - 1) times the deviation of the replicates.
    freedom = len(replicates) - 1
    half = float(scipy.stats.t.ppf(0.95, freedom)) * math.sqrt(freedom) * scaled.std()
    low, high = value - half, value + half
    if alike:
        low, high = value * math.exp(-half), value * math.exp(half)
    yield Figure(name, value, max(0.0, low), min(high, test.most))


def _line(pair: Pair) -> RiskLine:
    return paper_line(Curve(*pair))


def _drawn(pair: Pair) -> NDArray[np.float64]:
    return np.array([*map(_line(pair).predict, pair[0])]) / pair[1]


def _slope_ratio(known: Pair, dense: Pair) -> float | None:
    slope = _line(known).slope
    return _line(dense).slope / slope if slope else None


def _floor_ratio(known: Pair, dense: Pair) -> float:
    return float(dense[1].min() / known[1].min())


def _least_ratio(known: Pair, dense: Pair) -> float:
    return float((dense[1] / known[1]).min())


def _last_ratio(known: Pair, dense: Pair) -> float:
    return float((dense[1][-1] / known[1][-1]) ** 0.5)


def _plateau(known: Pair, dense: Pair) -> float:
    """How many times the samples of KO take FC near its lowest error."""
    # The first N of each curve within 10% of its lowest error.
    near = [pair[0][pair[1] <= _CLOSE * pair[1].min()][0] for pair in (known, dense)]
    return float(near[1] / near[0])


def _still_falling(known: Pair, dense: Pair) -> float:
    """FC's last error over the one at half of the N, by a power law between the last two sizes."""
    # Error ~ N^slope between the last two sizes, evaluated at a factor of two.
    (before, last), (above, below) = dense[0][-2:], dense[1][-2:]
    return float((below / above) ** (math.log(2) / math.log(last / before)))


def _small_n(known: Pair, dense: Pair) -> float:
    """The least ratio of errors, FC over KO, at N up to 64."""
    small = known[0] <= 64
    return float((dense[1] / known[1])[small].min())


def _power(pair: Pair) -> float | None:
    """The power of log N / N with which an error falls towards a floor, by least squares.

    None where the error is the same at every N to rounding: any power would fit.
    """
    sizes, errors = pair
    if np.ptp(errors) <= _FLAT * errors.max():
        return None

    def misfit(logarithm: float) -> float:
        # Floor and slope >= 0 that fit the errors relatively, for one exponent.
        term = (np.log(sizes) / sizes) ** math.exp(logarithm)
        columns = np.stack([np.ones_like(sizes), term / term.max()], 1) / errors[:, None]
        # Both terms, or one alone where the other would be negative. (SciPy 1.12's nnls, which is
        # allowed, stops early or ends at a wrong minimum here.)
        return min(map(relative_misfit, (columns, columns[:, :1], columns[:, 1:])))

    def relative_misfit(columns: NDArray[np.float64]) -> float:
        coefficients = np.linalg.lstsq(columns, np.ones_like(sizes), rcond=None)[0]
        if coefficients.min() < 0:
            return math.inf
        return float(np.linalg.norm(columns @ coefficients - 1))

    # A grid first, since there may be several minima; then between the neighbours of its best.
    grid = np.log(_POWERS)
    best = int(np.argmin([misfit(logarithm) for logarithm in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    refined = scipy.optimize.minimize_scalar(misfit, bounds=ends, method="bounded")
    return math.exp(float(refined.x))


def _known_at_once(known: Pair, dense: Pair) -> float:
    return float((known[1][0] / known[1][-1]) ** 0.5)


def _known_at_64(known: Pair, dense: Pair) -> float:
    return float((known[1][known[0] == 64][0] / known[1][-1]) ** 0.5)


def _above(pair: Pair) -> float | None:
    """Where data still count: at errors clearly above the lowest."""
    drawn = _drawn(pair)[pair[1] > _CLOSE * pair[1].min()]
    return float(drawn.min()) if len(drawn) else None


def _predicts(pair: Pair) -> float:
    """The line through all but the last two sizes, over the error at the last."""
    sizes, errors = pair
    return _line((sizes[:-2], errors[:-2])).predict(sizes[-1]) / float(errors[-1])


def _needed(pair: Pair) -> list[tuple[float, float]]:
    """Targets from the first error of a curve to its lowest, with their N between its sizes."""
    sizes, errors = pair
    # Noise may raise an error with N: targets are met at the running minimum.
    falling = np.minimum.accumulate(errors)
    if falling[-1] >= 0.98 * falling[0]:
        return []  # a curve that hardly falls has no targets
    targets = np.geomspace(falling[0], 1.01 * falling[-1], _TARGETS + 1)[1:]
    needed = np.exp(np.interp(-np.log(targets), -np.log(falling), np.log(sizes)))
    return list(zip(targets.tolist(), needed.tolist(), strict=True))


def _safe(pair: Pair) -> float | None:
    """The share of targets for which the N of the line is enough."""
    line, targets = _line(pair), _needed(pair)
    # The line's N is that or more where the line is still above the target just before.
    enough = sum(line.predict(math.ceil(n * 0.999) - 1) > target for target, n in targets)
    return enough / len(targets) if targets else None


def _within_twice(pair: Pair) -> float | None:
    """The share of targets for which the N of the line is within a factor of two."""
    line, targets = _line(pair), _needed(pair)
    # The line falls with N: its N is within twice where it is below the target at 2 N, and not yet
    # at N / 2. Below the smallest N, where log N / N rises, it is not evaluated.
    least = float(pair[0][0])
    good = sum(
        line.predict(2 * n) <= target and (n < 2 * least or line.predict(n / 2) >= target)
        for target, n in targets
    )
    return good / len(targets) if targets else None


@dataclass(frozen=True)
class _Test:
    """What makes a claim's figure of two curves, and at which sides and N."""

    of: Callable[[Pair, Pair], float | None]
    sides: tuple[int, ...] = (8, 16, 32, 128, 256)
    beyond: bool = False  # over all N, of sweeps that go beyond the paper's or to a clinic's
    most: float = math.inf  # that its figure can be

    def concerns(self, sweep: Sweep) -> bool:
        last = sweep.known.sizes[-1]
        far = last >= _CLINICAL or last > sweep.within_paper("KO").sizes[-1]
        return sweep.side in self.sides and (far or not self.beyond)


_OF_BOTH = {
    "slope-ratio": _Test(_slope_ratio),
    "small-n-128": _Test(_small_n, (128,)),
    "plateau-dense": _Test(_still_falling, (*_SMALL, 256)),
    "floors-cpu": _Test(_floor_ratio, _SMALL),
    "floors-cpu-beyond": _Test(_floor_ratio, _SMALL, beyond=True),
    "dense-approximation": _Test(_floor_ratio, (8,), beyond=True),  # more images than pixels
    "floors-128": _Test(_floor_ratio, (128,)),
    "floors-256": _Test(_floor_ratio, (256,)),
    "dominates-cpu": _Test(_least_ratio, _SMALL),
    "dominates-256": _Test(_least_ratio, (256,)),
    "matches-128": _Test(_last_ratio, (128,)),
    "clinical": _Test(_last_ratio, beyond=True),
    "plateau-early": _Test(_plateau),
    "faithful-128": _Test(_known_at_once, (128,)),
    "faithful-256": _Test(_known_at_once, (256,)),
    "truth-by-64": _Test(_known_at_64, (128, 256)),
}
_OF_EACH: dict[str, Callable[[Pair], float | None]] = {
    "line-above": _above,
    "line-above-low": lambda pair: float(_drawn(pair)[:2].min()),
    "line-tracks": lambda pair: float(np.abs(_drawn(pair) - 1).max()),
    "line-predicts": _predicts,
    "line-safe": _safe,
    "predicts-n": _within_twice,
    "same-law": _power,
}


def _sample_ratio(name: str, sweep: Sweep, which: Callable[[float, float], float]) -> Figure | None:
    """N of FC over N of KO, 5% above the larger of both lowest errors, or above KO's.

    Where one of them has no number of samples, the end that is known; None where both have none.
    """
    # 5% above an error that was reached, so that noise does not decide whether it is met.
    known, dense = (sweep.within_paper(model) for model in MODELS)
    target = 1.05 * which(float(known.means.min()), float(dense.means.min()))
    compared = compare(known, dense, target)
    low, high = compared.ratio_range or (None, None)
    value = compared.ratio
    if value is None:
        # FC out of reach: the ratio is at least `low`; KO out of reach: at most `high`.
        value = low if compared.second.even is None else high
    return None if value is None else Figure(name, value, low, high)


def _printed_ratio(sweep: Sweep) -> Figure:
    """Of our four figures over the printed ones, that which is farthest from 1."""
    row = next(entry for entry in published.CALIBRATION if sweep.side == entry.H)
    ratios = []
    for model, printed in (("KO", row.known), ("FC", row.dense)):
        ours = sweep.line(model)
        ratios += [ours.floor / printed.floor, ours.slope / printed.slope]
    return Figure(f"H = {sweep.side}", max(ratios, key=lambda ratio: abs(math.log(ratio))))
