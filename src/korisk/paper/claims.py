"""The paper's claims one by one: what each says, what was measured, and whether it holds.

`claims.yaml` lists them. A claim names a figure and the range that it allows; a verdict compares
the two. `claims.json` holds the figures that `python -m benchmarks.paper.claims` made of stored
results; those that a reproduction of one's own can tell are computed from its sweeps and stand
beside them.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from typing import Literal, get_args

import numpy as np
import scipy.stats
import yaml
from numpy.typing import NDArray

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.paper import published
from korisk.paper.reproduction import MODELS, Sweep
from korisk.planning.compare import compare
from korisk.planning.fit import fitted_line
from korisk.theory import RiskLine

Outcome = Literal[
    "does not hold", "holds with a condition", "holds", "undecided", "cannot be tested here"
]
VERDICTS: tuple[Outcome, ...] = get_args(Outcome)
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]  # sizes, and errors, squared as in the paper

_ANSWERS = {True: "holds", False: "not", None: "undecided"}
_CLOSE = 1.1  # of the lowest error: where a curve has come near its end
_TARGETS = 12  # at which an inverted line is tried
_CLINICAL = 1000  # N from which on the paper speaks of budgets in the clinic
_SMALL = (8, 16, 32)


@dataclass(frozen=True)
class Figure:
    """A number that was measured, with the interval in which it lies where that is known."""

    name: str  # of what: an operating point, a protocol
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of the paper.

    `least` and `most` are what it allows for its figure; one of `every` case is refuted by one that
    fails; `condition` names one that was met in all that was measured; `why` says why it cannot be
    tested.
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
    condition: str = ""
    why: str = ""
    note: str = ""

    def allows(self, figure: Figure) -> bool | None:
        """Whether a figure agrees with the claim; None where its interval has both answers."""
        ends = [figure.value if end is None else end for end in (figure.low, figure.high)]
        inside = [self.least <= end <= self.most for end in (*ends, figure.value)]
        if all(inside):
            return True
        return None if any(inside) or ends[0] < self.least <= self.most < ends[1] else False


@dataclass(frozen=True)
class Judged:
    """A claim with its figures and what follows from them."""

    claim: Claim
    figures: tuple[Figure, ...]  # which decide
    own: tuple[Figure, ...] = ()  # of a reproduction; they decide where they are all of the names

    def _names(self, answer: bool | None) -> list[str]:
        return [each.name for each in self.figures if self.claim.allows(each) is answer]

    @property
    def verdict(self) -> Outcome:
        """A claim of every case fails with one; of others, more than half of the figures decide.

        Where they do not, a claim that holds in one case alone, and clearly fails in the rest as
        often, has that case as its condition; all else is undecided.
        """
        held, failed, unsure = map(self._names, (True, False, None))
        if self.claim.why or not self.figures:
            return "cannot be tested here"
        if failed and (self.claim.every or 2 * len(failed) > len(self.figures)):
            return "does not hold"
        if not failed and not unsure:
            return "holds with a condition" if self.claim.condition else "holds"
        cases, others = ({name.split(", ")[-1] for name in names} for names in (held, failed))
        parted = len(held) == len(failed) and len(cases) == 1 and not unsure and not cases & others
        mostly = parted or 2 * len(held) > len(self.figures)
        return "holds with a condition" if mostly else "undecided"

    @property
    def because(self) -> str:
        """For what it holds and for what not, or why it cannot be tested; empty if that is all."""
        if self.claim.why:
            return self.claim.why
        parts = {answer: self._names(answer) for answer in (True, False, None)}
        if sum(map(bool, parts.values())) < 2:
            undecided = "the interval of the figure decides nothing" if parts[None] else ""
            return undecided or (self.claim.condition if parts[True] else "")
        said = [
            f"{_ANSWERS[answer]}: {_short(names, parts)}"
            for answer, names in parts.items()
            if names and len(self.figures) > 2  # of two, `text` says it
        ]
        return "; ".join([*said, *filter(None, [self.claim.condition])])

    @property
    def text(self) -> str:
        """The figures in short: all of up to two, or the ends of several."""
        shown = self.figures
        if len(shown) > 2:
            first, *_, last = (_number(each) for each in sorted(each.value for each in shown))
            return first if first == last else f"{first} to {last}"
        shared = len({each.name.split(", ")[0] for each in shown}) < len(shown)
        names = [each.name.split(", ")[-1] if shared else each.name for each in shown]
        mixed = len({self.claim.allows(each) for each in shown}) > 1 and not self.claim.why
        named = [replace(each, name=name) for name, each in zip(names, shown, strict=True)]
        return "; ".join(self._said(each, answer=mixed) for each in named)

    @property
    def own_text(self) -> str:
        """The figures of a reproduction; of many, how many agree."""
        if not self.own:
            return ""
        said = "; ".join(self._said(each, answer=not self.claim.why) for each in self.own)
        if len(self.own) > 2:
            agree = sum(self.claim.allows(each) is True for each in self.own)
            said = f"{agree} of {len(self.own)} agree"
        beside = "" if self.own == self.figures else " (a part, which does not decide)"
        return f"this reproduction{beside}: {said}"

    def _said(self, figure: Figure, *, answer: bool) -> str:
        name = f"{figure.name}: " if figure.name else ""
        agrees = f", {_ANSWERS[self.claim.allows(figure)]}" if answer else ""
        return f"{name}{_valued(figure)}{agrees}"

    def to_dict(self) -> JsonDict:
        """Plain values, for JSON."""
        claim = self.claim
        figures, own = (
            [vars(figure) | {"agrees": claim.allows(figure)} for figure in found]
            for found in (self.figures, self.own)
        )
        content: JsonDict = {"verdict": self.verdict}
        for name in ("key", "place", "says", "command", "figure", "note"):
            content[name] = getattr(claim, name)
        content |= {"labels": list(claim.labels), "because": self.because}
        content |= {"allowed": [claim.least, claim.most], "every": claim.every}
        return content | {"figures": figures, "own": own}


def _valued(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return _number(figure.value)
    low = "up" if figure.low == 0 < figure.value else _number(figure.low)
    return f"{_number(figure.value)} ({low} to {_number(figure.high)})"


def _number(value: float | None) -> str:
    if value is None or math.isinf(value):
        return "∞"
    if value and not 1e-3 <= abs(value) < 1e5:
        digits, power = f"{value:.1e}".split("e")
        return f"{digits}e{int(power)}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _short(names: Sequence[str], parts: Mapping[bool | None, Sequence[str]]) -> str:
    """Names by what they share, `released` for `H = 8, released` and others, where no others do."""
    others = [name for own in parts.values() for name in own if name not in names]
    for at in (-1, 0):
        shared = list(dict.fromkeys(name.split(", ")[at] for name in names))
        apart = not {name.split(", ")[at] for name in others} & {*shared}
        if apart and (at == -1 or len(shared) < len(names)) and len(shared) <= 3:
            return ", ".join(shared)
    return "; ".join(names) if len(names) <= 3 else f"{len(names)} of {len(names) + len(others)}"


# --- What is listed and stored -------------------------------------------------------------------


def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the paper."""
    listed = yaml.safe_load(_packed("claims.yaml"))
    return tuple(Claim(**each | {"labels": tuple(each.get("labels", ()))}) for each in listed)


def stored_figures() -> dict[str, list[Figure]]:
    """The figures that come with the package, by the key of their claim."""
    kept = json.loads(_packed("claims.json"))
    return {key: [Figure(**each) for each in figures] for key, figures in kept.items()}


def _packed(name: str) -> str:
    return resources.files("korisk.paper").joinpath(name).read_text(encoding="utf-8")


def judge(found: Sequence[Sweep] = ()) -> list[Judged]:
    """Every claim with its verdict: those that do not hold first, then in the paper's order.

    Figures are the stored ones; those that the sweeps of a reproduction tell stand beside them, and
    in their place where there is one for each: a part does not decide for the whole.
    """
    stored, own = stored_figures(), figures_of(found)
    made = []
    for claim in claims():
        figures, here = (tuple(part.get(claim.key, ())) for part in (stored, own))
        whole = {each.name for each in figures} <= {each.name for each in here}
        made.append(Judged(claim, here if here and whole else figures, here))
    return sorted(made, key=lambda each: VERDICTS.index(each.verdict))


# --- Figures from the sweeps of a reproduction ---------------------------------------------------


def figures_of(found: Sequence[Sweep]) -> dict[str, list[Figure]]:
    """The figures that sweeps tell, by the key of their claim; whole sweeps alone."""
    made: dict[str, list[Figure]] = {}
    ratios: dict[str, dict[int, Figure]] = {}
    for sweep in found:
        sizes = [sweep.within_paper(model).sizes.tolist() for model in MODELS]
        if sweep.reduced or sweep.side > 256 or sizes[0] != sizes[1] or len(sizes[0]) < 5:
            continue  # of five N at the small scales and six at the others
        name = f"H = {sweep.side}, {sweep.protocol}"
        for key, test in _OF_BOTH.items():
            if test.concerns(sweep):
                made.setdefault(key, []).extend(_over_seeds(name, sweep, test))
        for (key, of), (at, model) in itertools.product(_OF_EACH.items(), enumerate(MODELS)):
            test = _Test(partial(_of_one, of, at), most=1.0 if of is _safe else math.inf)
            made.setdefault(key, []).extend(_over_seeds(f"{name}, {model}", sweep, test))
        shared = _sample_ratio(name, sweep, max)
        if shared is not None:
            for key in ("sample-ratio", "sample-ratio-every"):
                made.setdefault(key, []).append(shared)
            ratios.setdefault(sweep.protocol, {})[sweep.side] = shared
        reached = _sample_ratio(name, sweep, lambda known, dense: known)
        if reached is not None:
            made.setdefault("two-orders-met", []).append(reached)
            if sweep.side == 256:
                made.setdefault("plateau-256", []).append(reached)
            if name == "H = 128, released":
                made.setdefault("thirty-times", []).append(replace(reached, name="measured"))
        if sweep.protocol == "released":
            made.setdefault("calibration", []).append(_printed_ratio(sweep))
    for protocol, by_side in ratios.items():
        if sorted(by_side) == [*_SMALL, 128, 256]:
            last = by_side.pop(256)
            rest = max(by_side.values(), key=lambda each: each.value)
            ends = _over(last.low, rest.high), _over(last.high, rest.low)
            grown = Figure(protocol, last.value / rest.value, *ends)
            made.setdefault("largest-gap", []).append(grown)
    exponent = _exponent([each for each in found if each.protocol == "released"])
    if exponent is not None:
        made["scales-with-p"] = [Figure("ours", exponent)]
    return made


def _over(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one / other if other else math.inf


def _of_one(of: Callable[[Pair], float | None], at: int, *pair: Pair) -> float | None:
    return of(pair[at])


def _pairs(sweep: Sweep, without: int | None = None, *, whole: bool = False) -> tuple[Pair, Pair]:
    """Mean curves over the paper's N (or all), of all seeds or without one of them."""
    made = []
    for model in MODELS:
        all_of = sweep.known if model == "KO" else sweep.dense
        curve = all_of if whole else sweep.within_paper(model)
        errors = curve.means
        if without is not None:
            errors = np.nanmean(np.delete(curve.table, without, axis=1), axis=1)
        made.append((curve.sizes.astype(float), errors if sweep.small else errors**2))
    return made[0], made[1]


def _over_seeds(name: str, sweep: Sweep, test: _Test) -> Iterator[Figure]:
    """What a function makes of the mean curves, with a 90% interval by the jackknife over seeds."""
    value = test.of(*_pairs(sweep, whole=test.beyond))
    if value is None:
        return
    count = min(len(sweep.known.seeds), len(sweep.dense.seeds))
    left_out = range(count if count > 1 else 0)
    parts = [test.of(*_pairs(sweep, seed, whole=test.beyond)) for seed in left_out]
    each = np.array([one for one in parts if one is not None])
    if len(each) < 2:
        yield Figure(name, value)
        return
    alike = each.min() > 0 and each.max() < 10 * each.min()  # then ratios of figures are regular
    scaled = np.log(each) if alike else each
    half = float(scipy.stats.t.ppf(0.95, len(each) - 1)) * math.sqrt(len(each) - 1) * scaled.std()
    low, high = value - half, value + half
    if alike:
        low, high = value * math.exp(-half), value * math.exp(half)
    yield Figure(name, value, max(0.0, low), min(high, test.most))


def _line(pair: Pair) -> RiskLine:
    return fitted_line(Curve(*pair), "paper")


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
    near = [pair[0][pair[1] <= _CLOSE * pair[1].min()][0] for pair in (known, dense)]
    return float(near[1] / near[0])


def _still_falling(known: Pair, dense: Pair) -> float:
    """FC's last error over the one at half of the N, by a power law between the last two sizes."""
    (before, last), (above, below) = dense[0][-2:], dense[1][-2:]
    return float((below / above) ** (math.log(2) / math.log(last / before)))


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


def _safe(pair: Pair) -> float | None:
    """The share of targets for which the N of the line is enough, by the curve between its N."""
    sizes, errors = pair
    falling = np.minimum.accumulate(errors)
    if falling[-1] >= 0.98 * falling[0]:
        return None  # a curve that hardly falls has no targets
    line, enough = _line(pair), 0
    targets = np.geomspace(falling[0], 1.01 * falling[-1], _TARGETS + 1)[1:]
    for target in targets:
        needed = np.exp(np.interp(-math.log(target), -np.log(falling), np.log(sizes)))
        # The line's N is that or more where the line is still above the target just before.
        enough += line.predict(math.ceil(needed * 0.999) - 1) > target
    return enough / _TARGETS


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
    "rate-log": _Test(_still_falling),
    "plateau-dense": _Test(_still_falling, (*_SMALL, 256)),
    "floors-cpu": _Test(_floor_ratio, _SMALL),
    "floors-cpu-beyond": _Test(_floor_ratio, _SMALL, beyond=True),
    "dense-approximation": _Test(_floor_ratio, (8,), beyond=True),  # more images than pixels
    "floors-128": _Test(_floor_ratio, (128,)),
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
}


def _sample_ratio(name: str, sweep: Sweep, which: Callable[[float, float], float]) -> Figure | None:
    """N of FC over N of KO, 5% above the larger of both lowest errors, or above KO's.

    Where one of them has no number of samples, the end that is known; None where both have none.
    """
    known, dense = (sweep.within_paper(model) for model in MODELS)
    target = 1.05 * which(float(known.means.min()), float(dense.means.min()))
    compared = compare(known, dense, target)
    low, high = compared.ratio_range or (None, None)
    value = compared.ratio
    if value is None:
        value = low if compared.second.middle is None else high
    return None if value is None else Figure(name, value, low, high)


def _printed_ratio(sweep: Sweep) -> Figure:
    """Of our four figures over the printed ones, that which is farthest from 1."""
    row = next(each for each in published.CALIBRATION if sweep.side == each.H)
    ratios = []
    for model, printed in (("KO", row.known), ("FC", row.dense)):
        ours = sweep.line(model)
        ratios += [ours.floor / printed.floor, ours.slope / printed.slope]
    return Figure(f"H = {sweep.side}", max(ratios, key=lambda each: abs(math.log(each))))


def slope_exponent(points: Iterable[tuple[int, float]]) -> float:
    """The power of H^2 with which a ratio of slopes grows, by least squares of logarithms."""
    sides, ratios = zip(*points, strict=True)
    return float(np.polyfit(2 * np.log(sides), np.log(ratios), 1)[0])


def _exponent(found: Sequence[Sweep]) -> float | None:
    points = []
    for sweep in found:
        ratio = None if sweep.reduced else _slope_ratio(*_pairs(sweep))
        if ratio is not None and sweep.side <= 256:
            points.append((sweep.side, ratio))
    return slope_exponent(points) if len(points) == 5 else None
