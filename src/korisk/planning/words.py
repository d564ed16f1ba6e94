"""Every sentence about an answer, for terminal, page, notebook and JSON; nothing is computed."""

import json
import math
from collections.abc import Iterable
from importlib.resources import files
from typing import TypedDict

from korisk.errors import Message

# Answer and what to do next, by the case that `recommend` decides; after the model's name, a colon.
NEXT, IF_CHOSEN = "Do next: ", "If you choose it: "
_EARLY = "collect {first} samples first, and measure: nothing is measured yet"
_FOR = f"{{n}} samples are enough for {{target}} ({{sure}} sure). {NEXT}"
ADVICE = {
    "collect": f"{_FOR}collect {{more}} more than the pilot has",
    "collect_first": f"{_FOR}{_EARLY}",
    "simulated": f"{_FOR}simulate with a few of your images, or measure a small pilot",
    "inside": f"{_FOR}collect no more: the pilot has enough",
    "already": "{target} is met already at N = {n}, the smallest measured ({sure} sure). Do next: "
    "collect no more",
    "already_rehearsed": f"at most {_FOR}{_EARLY}",
    "repeat": "the mean at N = {n} meets {target}, but its seeds give it a chance of {chance}. "
    "Do next: measure N = {n} again, with {seeds} seeds",
    "measure": "not known yet how many samples {target} needs. Do next: measure the {noun} at "
    "N = {n} training samples, with {seeds} seeds, and plan again; collect no more than that yet",
    "check": "data may not limit the {noun}. Do next: {next} before more is collected for {target}",
    "train": "at N = {n}, {factor} times the training gave {after} (measured with {runs}). Do "
    "next: train {factor} times as long, and plan again before more is collected",
    "train_enough": "at N = {n}, {factor} times the training gave {after} (measured with {runs}), "
    "which meets {target} without new samples. Do next: train {factor} times as long",
    "undertrained": "training keeps the error above {target}. Do next: train longer or differently",
    "unlikely": "unlikely to reach {target} (chance {reach}). Do next: {next}; collect no more",
    "stop": "more data of this kind will not reach {target} (chance {reach}). Do next: stop",
    "doubt": "not known how many samples {target} needs: {why}. Do next: collect no more yet",
}
# Reasons for it, and other single facts.
REASONS = {
    "far": "{n:,} is {times:.2g} times the pilot's largest N of {last:,}.",
    "between": "The measured means meet the target between N = {n[0]:,} and {n[1]:,}.",
    "no_number": "No number of samples has a chance of {sure} to be enough; the chance that "
    "{target:.4g} can be reached at all is {reach}.",
    "too_far": "{n:,} samples would be enough with {sure}, but lie more than {near} times beyond "
    "what is known, where odds were not checked.",
    "then": "N = {n:,} reaches {reached:.4g} or better ({sure} sure).",
    "slow": "The {noun} improves too slowly.",
    "level": "The {noun} levels off at about {floor:.4g}.",
    "next": "measure N = {n:,} with {seeds} seeds",
    "longer": "Training limits the error: at N = {0.n:,}, {0.factor:g} times the training takes it "
    "from {0.before[0]:.4g} to {0.errors[0]:.4g}.",
    "first": "This assumes your noise level and images. Check it at N = {n:,}: expect {value:.4g} "
    "(90%: {lower:.4g} to {upper:.4g}); if not, suspect noise or images.",
    "too_easy": "Every {noun} of the curve is far better, from {best:.4g} on: is the target in "
    "another unit than {unit!r}?",
    "flat": "the {noun} does not improve with N in this pilot",
    "expected": "{model} has an expected error of {value:.4g} at N = {n:,} (90%: {lower:.4g} to "
    "{upper:.4g}).",
    "crosses": "The curves cross at about N = {n:,} ({where}; 90% range: {ends}): with more "
    "samples {better_after} probably has the lower error.",
    "limited": "Which needs fewer samples is not known: training limits the error of {names}.",
    "percent": "All errors of {high} are above 1 and all of {low} below: if {high} is in percent, "
    "divide it by 100 and compare again. Taken as they are:",
}
# The paper's recipe, step by step.
REASONS |= {
    "root": "This metric looks like a root, and the theorem bounds squared errors: read it with ",
    "line": "1. floor = {floor:.4g}, the lowest mean error, at N = {floor_at:,}; sigma = "
    "{sigma:.4g}, the slope of error - floor against log N / N: Eq. (9).",
    "rising": "The lowest error is not that of the largest N: the line falls, and the errors do "
    "not.",
    "never": "2. No N for {target:.4g}: floor + sigma log N / N stays above its floor, the lowest "
    "error of the pilot. korisk plan looks below it.",
    "any": "2. Any N for {target:.4g}: floor + sigma log N / N stays below it from N = 2 on.",
    "samples": "2. N = {samples:,} for {target:.4g}: from there on floor + sigma log N / N stays "
    "at or below it, Eq. (6).",
    "no_factors": "3. No factors beside {other} at {target:.4g}: the target lies at or below a "
    "floor, or a line is flat.",
    "factors": "3. N / log N of {other} is {structural:,.3g} (sigmas, the structural factor) times "
    "{approximation_budget:,.3g} (floors, the approximation factor) = {product:,.3g} times as "
    "large: Eq. (8). N itself is {needed}.",
    "constants": "4. C and kappa of {layer}, each form through its own amplification. The composed "
    "form is {tighter:,.3g} times tighter than the paper's before calibration; after it all three "
    "are the line above, with the same N.",
}
LEGEND = (
    "N: training samples; sure: the chance that N is enough; 90% range: from a chance of 5% to one "
    "of 95%; reachable: the chance that some number of samples is enough"
)
# Short names of models, operators and protocols, and what they mean.
MEANINGS = {
    "KO": "known operator",
    "FC": "dense network",
    "MSE": "mean squared error",
    "A^T": "adjoint of the measurement; in CT, backprojection",
    "released": "trained as the paper's code does",
    "rigorous": "trained as the paper's text says",
}
QUESTION = {
    "": "How many training samples are needed to reach {goal}?",
    "model": "How many training samples does {model} need to reach {goal}?",
    "ratio": "Does {first} or {second} need fewer training samples to reach {goal}?",
    "ablation": "How many times fewer training samples does the known operator {layer} need to "
    "reach {goal}?",
}
_ENOUGH = "the number called 90% sure was enough in {held}"
RECORD = {
    "pilot": f"in {{asked}} past checks with pilots of imaging networks, {_ENOUGH}",
    "rehearsal": f"with {{asked}} imaging networks, where noise and images were right, "
    f"{_ENOUGH} of past checks",
    "both": f"with {{asked}} imaging networks and small pilots, {_ENOUGH} of past checks",
    "ratio": "in {asked} past comparisons of networks, such a range held the true ratio in {held}",
}
SURE = "How sure: "
SIMULATED_ALONE = f"{SURE}nothing is known about real images."
FULL = {"mse": "mean squared error", "rmse": "root mean squared error"}
_ACRONYMS = {"mse", "rmse", "nmse", "mae", "psnr", "ssim"}
TRAINED = "As trained so far", "Trained that long, as far as one network tells"
_SHORT = {"train": "train longer first", "unlikely": "unlikely", "stop": "stop"}


class Held(TypedDict):
    """How often a kind of answer came true, on curves that chose nothing."""

    times: float  # up to so many times the pilot's largest N
    asked: int
    held: float  # share of them


# Where neither of two models is to be acted on first.
NEXT_EACH = "Do next: neither clearly needs fewer samples, so here is what each needs."
SIMULATED = f"{SURE}as far as the simulation is right; how often such ratios held was not tested."

# How often answers held, by the kind of evidence, and for ratios; rows by how far beyond the pilot
# N lies. `python -m benchmarks.planner.record` writes the file from kept results.
_KEPT = files("korisk.planning") / "record.json"
HELD: dict[str, list[Held]] = json.loads(_KEPT.read_text("utf-8"))


# --- Numbers -------------------------------------------------------------------------------------


def value(number: float) -> str:
    """Format an error with four significant digits."""
    return f"{number:.4g}"


def chance(p: float | None) -> str:
    """Format a probability in percent, never as 0% or 100%."""
    if p is None or math.isnan(p):
        return "not known"
    if p < 0.01:
        return "below 1%"
    return "above 99%" if p > 0.99 else f"{p:.0%}"


def level(p: float) -> str:
    """Format a probability that was asked for: 90%, 97.5%."""
    return f"{100 * p:.4g}%"


def quantity(metric: str, noun: str) -> str:
    """The name of what is measured, as it is read: MSE, where a table may have mse."""
    return metric.upper() if metric in _ACRONYMS else metric or noun


def times(factor: float) -> str:
    """Format a factor with at least two significant digits."""
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"


def at_least(factor: float) -> str:
    """Format a lower bound of a factor: as `times`, rounded down."""
    scale = 10 ** max(1 - math.floor(math.log10(factor)), 0)
    return times(math.floor(factor * scale) / scale)


def count(n: float) -> str:
    """Format a number of samples."""
    return f"{n:,.0f}" if math.isfinite(n) else "∞"


def span(lower: float, upper: float) -> str:
    """Format a range of sample sizes."""
    end = f" to {count(upper)}" if upper > lower else ""
    return f"{count(lower)}{' or more' if math.isinf(upper) else end}"


def paragraph(sentences: Iterable[str], between: str = " ") -> Message:
    """Join sentences, keeping the arguments that they name."""
    return Message(*[piece for sentence in sentences for piece in (between, sentence)][1:])


# --- An answer -----------------------------------------------------------------------------------


def subject(model: str, population: str) -> str:
    """What an answer is about: a model, on simulated images alone if `population` names them."""
    if not population:
        return model
    simulated = f"n simulated images alone ({population})"
    return f"{model} o{simulated}" if model else f"O{simulated}"


def advice(case: str, about: str, **fields: object) -> str:
    """The advice in a sentence, after the `subject` that it is about."""
    text = ADVICE[case].format(**fields)
    return f"{about}: {text}." if about else f"{text[0].upper()}{text[1:]}."


def parts(sentence: str) -> tuple[str, str]:
    """The answer of an advice, and what to do next."""
    answer, _, step = sentence.partition(f" {NEXT}")
    return answer, f"{NEXT}{step}"


def reason(case: str, /, *values: object, **fields: object) -> str:
    """One of the `REASONS`."""
    return REASONS[case].format(*values, **fields)


def odds(even: int | None, lower: int | None, upper: int | None, about: str = "") -> str:
    """Even odds and the 90% range of N, in a sentence; empty where neither is known.

    `about` says for which training, where another one comes before data.
    """
    if lower is None or lower == upper:
        return ""
    ends = span(lower, math.inf if upper is None else upper)
    text = f"fewer than {count(lower)} samples are enough with a chance of at most 5%"
    if even is not None:
        text = f"{count(even)} samples are enough with a 50% chance; the 90% range is {ends}"
    return f"{about}: {text}." if about else f"{text[0].upper()}{text[1:]}."


def question(kind: str, **names: str) -> str:
    """The question which opens a page, with a place for its goal."""
    full = {key: f"{name} ({MEANINGS[name]})" for key, name in names.items() if name in MEANINGS}
    return QUESTION[kind].format(goal="{goal}", **names | full)


def record(kind: str, rows: Iterable[Held], far: float = 1.0, sure: float = 0.9) -> str:
    """How often such answers held; empty where nothing is on record so far beyond the pilot.

    Where the record is below the promise, it says what to do about that.
    """
    row = next((row for row in rows if far <= row["times"]), None)
    if row is None:
        return ""
    text = SURE + RECORD[kind].format(asked=f"{row['asked']:,}", held=f"{row['held']:.0%}")
    # A record of n answers is below the promise if it misses it by more than chance does.
    if row["held"] >= 0.9 - 2 * math.sqrt(0.09 / row["asked"]):
        return f"{text}."
    if kind == "ratio":
        return f"{text}, not in 90%: take the range as wider."
    remedy = "" if sure > 0.9 else "ask for 95%, or "
    return f"{text}, not in 90%: to be safer, {remedy}collect half of the new ones and plan again."


def short(action: str, n: int | None) -> str:
    """The advice in a few words, for a cell or a legend."""
    if action == "collect":
        return count(n or 0)
    if action == "measure":
        return f"measure {count(n)} next" if n else "check the training first"
    return _SHORT.get(action, "not known")


def related(names: str, trust: float | None, even: int | None, alone: int | None) -> str:
    """How related curves change the answer, and how far they are trusted."""
    who = f"Related curves ({names})" if names else "Related curves"
    if not trust:
        return f"{who} are not used."
    verb = "disagree with" if trust < 0.01 else "explain"
    start = f"{who} {verb} the pilot (trust {chance(trust)})"
    if even == alone:
        return f"{start} and do not change the answer."
    without = "no number of samples is" if alone is None else f"{alone:,} samples are"
    return f"{start}: without them {without} enough with a 50% chance."


# --- A comparison --------------------------------------------------------------------------------


def times_fewer(
    names: tuple[str, str], target: float, ratio: float | None, ends: tuple[float, float]
) -> str:
    """Which of two models needs fewer samples, and how many times fewer.

    `names` begin with the better one, so that ratio and its ends are for it; ends 0 and infinity
    are not known. Without a ratio its lower end is said.
    """
    (better, worse), goal, (low, high) = names, f"for {value(target)}", ends
    if ratio is None:
        if low <= 1:
            return f"Which of {better} and {worse} needs fewer samples {goal} is not known."
        least = at_least(low)
        least = "" if least == "1" else f"at least {least} times "
        return f"{better} needs {least}fewer samples than {worse} {goal} (95% sure)."
    if not low and math.isinf(high):
        return f"Which of {better} and {worse} needs fewer samples {goal} is not clear."
    sure = f"95% sure: at {f'least {at_least(low)}' if low else f'most {times(high)}'} times"
    if low and math.isfinite(high):
        sure = f"90% range: {times(low)} to {times(high)} times"
    # As printed: "1 times fewer" would name a winner without a difference.
    if times(ratio) == "1":
        start = f"{better} and {worse} need about as many samples"
    else:
        start = f"{better} needs {times(ratio)} times fewer samples than {worse}"
    return f"{start} {goal} ({sure})."


def not_crossing(better: str, last: int, means: tuple[int, int] | None) -> str:
    """That it is not clear whether two curves cross."""
    if not better:
        return "The curves do not clearly cross as far as the pilots tell."
    if means is None:
        order = f"{better} is better at every N tried, up to {last:,}"
        return f"The curves do not clearly cross: {order}."
    order = f"The means change their order between N = {means[0]:,} and {means[1]:,}, and {better} "
    return f"{order}is better at N = {last:,}; where the curves cross is not clear."
