"""Predictions in plain words."""

import math

from korisk.planning.explain import chance, count, crossover, span, times, value
from korisk.prediction.pair import PredictedPair, last_shown
from korisk.prediction.prediction import FARTHEST_N, FIT_SIZES, PredictedSize, Prediction

_AGREES = 1.15  # factor between computed and measured errors up to which they are said to agree
_FAR = 3.0  # times the computed curve: further than the theory is ever off everywhere
_ONE_SCALE = 1.5  # between the ratios of a pilot that is off by one factor
_FIRST = 2  # the smallest N that a prediction names


def explain(prediction: Prediction, target: float | None = None) -> str:
    """The expected error, or the samples for a target; then how sure it is, and what is odd."""
    said = [outlook(prediction)] if target is None else [size_words(prediction, target)]
    return " ".join([*said, *trust_words(prediction), *prediction.notes])


def outlook(prediction: Prediction) -> str:
    """The error at as many samples as there were examples, and where the curve levels off."""
    n = max(prediction.examples, _FIRST)
    (error,), ((lower,), (upper,)) = prediction.errors([n]), prediction.band([n])
    return (
        f"{prediction.model} is expected to err by {value(error)} at N = {n:,} (90%: "
        f"{value(lower)} to {value(upper)}); its theory levels off at {value(prediction.floor)}."
    )


def size_words(prediction: Prediction, target: float) -> str:
    """What a target asks for, in a sentence."""
    return _size(prediction.model, prediction.floor, prediction.samples(target))


def _size(model: str, floor: float, found: PredictedSize) -> str:
    goal = value(found.target)
    if found.samples is None or found.chance is None:
        levels = f"; its theory levels off at {value(floor)}" if floor > 0 else ""
        return (
            f"{model} does not reach {goal} by N = {FARTHEST_N:,}, according to this prediction: "
            f"the chance is {chance(found.reach)}{levels}."
        )
    if found.upper <= _FIRST:
        return f"{model} meets {goal} from the first samples on."
    needs = (
        f"{model} needs about {count(found.samples)} samples for {goal} "
        f"(chance {chance(found.chance)}; 90%: {span(found.lower, found.upper)}"
    )
    if math.isfinite(found.upper):
        return f"{needs})."
    return f"{needs}, no upper end), if it gets there, which has a chance of {chance(found.reach)}."


def _scale_words(prediction: Prediction) -> str | None:
    """Where a pilot is the computed curve times one large factor: it may be in another unit."""
    ratios = [check.ratio for check in prediction.checks]
    middle = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    if max(ratios) / min(ratios) > _ONE_SCALE or 1 / _FAR < middle < _FAR:
        return None
    return (
        f"All errors of {prediction.model}'s pilot are about {value(1 / middle)} times the "
        "computed ones: are its images in another unit, or is it a sum instead of a mean? As it "
        "stands, it cannot be compared with another model."
    )


def trust_words(prediction: Prediction) -> list[str]:
    """What a pilot says of the theory; nothing without a pilot."""
    if not prediction.checks:
        return []
    off = max(prediction.checks, key=lambda check: abs(math.log(check.ratio)))
    where = (
        f"at N = {off.n:,} the pilot measured {value(off.measured)} where {value(off.computed)} "
        "was computed"
    )
    factor = max(off.ratio, 1 / off.ratio)
    scale = _scale_words(prediction)
    if scale is not None:
        return [scale]
    weight = chance(prediction.trust)
    if prediction.doubted and not prediction.tested:
        return [
            f"The pilot speaks against the theory of {prediction.model} ({where}), and has too few "
            "sizes for curves to be fitted in its place: measure more before you rely on this."
        ]
    if prediction.doubted and factor <= _AGREES:
        return [
            f"The theory of {prediction.model} is close to the pilot ({where}), but curves fitted "
            f"to the pilot explain it better; the theory keeps a weight of {weight}."
        ]
    if prediction.doubted:
        return [
            f"The pilot speaks against the theory of {prediction.model}, which keeps a weight of "
            f"{weight}: {where}. The prediction rests on curves fitted to the pilot instead."
        ]
    if not prediction.tested:
        return [
            f"{where[0].upper()}{where[1:]}. With fewer than {FIT_SIZES} sizes a pilot moves the "
            "level of the curve, and cannot tell whether its shape is right."
        ]
    sizes = f"N = {prediction.checks[0].n:,} to {prediction.checks[-1].n:,}"
    if factor <= _AGREES:
        words = f"The pilot agrees with the theory of {prediction.model} at {sizes}"
    else:
        words = f"The pilot is off the theory of {prediction.model} by up to {times(factor)} times"
    return [
        f"{words} ({where}); the theory has a weight of {weight} against curves "
        "fitted to the pilot."
    ]


def crossover_words(pair: PredictedPair) -> str:
    """Where the curves cross, or which one is ahead."""
    found = pair.crossover
    if found is not None:
        return crossover(found)
    last = last_shown(pair.known)
    if pair.ahead is not None:
        words = f"{pair.ahead} is the better one at N = {last:,}, and the curves do not clearly"
        return f"{words} cross before or after."
    if pair.limit < last:
        return (
            f"Beyond N = {pair.limit:,.0f} a computed curve is only the best case: which one is "
            f"the better at N = {last:,} is not known."
        )
    return f"The curves are too close to tell which one is the better at N = {last:,}."
