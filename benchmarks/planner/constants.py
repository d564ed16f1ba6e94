"""What half and twice of each measured constant change of the figure that it was chosen for.

Only data that chose: every second pilot of the prior's search, as far as the databases lie here,
digits for related curves, the choosing populations of rehearsals. Scores are lower if better, so
that a minus tells that another value would have been better, on these few cases. A probability is
at most .99. Takes some ten minutes on two cores.

    python -m benchmarks.planner.constants [--only odds,ratios] > benchmarks/results/constants.txt
"""

import argparse
import math
import multiprocessing
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import table
from benchmarks.planner import curves, odds, related, situations
from benchmarks.prediction import rehearse
from korisk.planning.plan import forecast

Array = NDArray[np.float64]

CASES = 8  # of each database, evenly spaced
SINGLE = ("neural", "imaging, long", "imaging, short", "other ct", "power laws", "no floor")
MOST = 0.99  # of a probability
noise: Any = import_module("korisk.curves.noise")
prior: Any = import_module("korisk.planning.futures.prior")
futures: Any = import_module("korisk.planning.futures.posterior")
relatives: Any = import_module("korisk.planning.futures.related")
pilots: Any = import_module("korisk.planning.pilot")
advising: Any = import_module("korisk.planning.recommend")
law: Any = import_module("korisk.prediction.law")


# --- Figures -------------------------------------------------------------------------------------


def evenly(cases: list[Any], count: int = CASES) -> list[Any]:
    """Some of them, from the first to the last."""
    return [cases[i] for i in np.unique(np.linspace(0, len(cases) - 1, count).astype(int))]


def scores(*names: str, count: int = CASES) -> Array:
    """Brier score and CRPS of forecasts from pilots, by database."""
    databases = [evenly(curves.DATABASES[name]()[::2], count) for name in names]
    found = [odds.figures([odds.asked(case) for case in cases]) for cases in databases]
    return np.array([[row[score] for score in odds.SCORES] for row in found])


def of_related() -> Array:
    """CRPS of forecasts from a pilot with related curves."""
    cases = evenly(related.asked("tune"))
    made = [forecast(case.pilot, related=case.related["related"]) for case in cases]
    pairs = zip(made, cases, strict=True)
    return np.array(np.mean([odds.crps(at.law(c.n), np.log(c.error)).mean() for at, c in pairs]))


def of_rehearsals() -> Array:
    """CRPS of rehearsals with a pilot to N = 32."""
    truth, n, found = rehearse.truths(), np.array(rehearse.ASKED, float), []
    for key, rehearsal in evenly([*rehearse.rehearsals(rehearse.OUT, "choose").items()]):
        made = rehearsal.forecast(rehearse.curve_of(truth[key], rehearse.PILOT))
        errors = np.array([np.mean(truth[key][int(size)]) for size in n])
        found.append(odds.crps(made.law(n), np.log(errors)).mean())
    return np.array(np.mean(found))


def of_ratios() -> Array:
    """How many 90% ranges of ratios hold the true one."""
    odds.WIDTHS = (odds.comparing.WIDER,)
    pairs = [pair for of_name in curves.pairs().values() for pair in evenly(of_name)]
    work = product(pairs, curves.PILOTS[1:])
    rows = np.array([row for of_pair in work for row in odds.ratios(of_pair)])
    return np.array(rows[:, 1].mean())


def of_advice() -> Array:
    """How often the advised action is right."""
    right = [
        case.is_right(case.advice(draw)) for case in situations.SITUATIONS for draw in range(3)
    ]
    return np.array(np.mean(right))


# What each is, and of which data.
FIGURES: dict[str, tuple[Callable[[], Array], str]] = {
    "odds": (
        lambda: scores(*SINGLE),
        "Brier score and CRPS of forecasts from pilots; mean over six databases, of every second "
        "pilot, by which the prior was chosen (the other two databases are downloaded or trained)",
    ),
    "large N": (
        lambda: scores("neural", count=3 * CASES),
        "the same, of published curves of large networks alone; half of `_LARGE` and twice "
        "`_SMALL` swap them, so that nothing becomes slower at large N",
    ),
    "related": (of_related, "CRPS with related curves, on digits"),
    "rehearsals": (
        of_rehearsals, "CRPS of rehearsals with a pilot to N = 32, on populations that chose"
    ),
    "ratios": (
        of_ratios, "share of 90% ranges that hold the true ratio (aim: 90%); pilots to 64 and 256"
    ),
    "advice": (of_advice, "share of right actions, in simulated situations"),
}  # fmt: skip
# Of constants that need images or large scans: results/lanczos_steps_h200.txt, and comments.
ELSEWHERE = (
    ("test error", "fitting.ridge.diagonal.MOST_STEPS", "400", "+0.2%", "0%"),
    ("alterations", "prediction.alterations._MOST_HARM", "0.1", "refuses costs of .05 to .08",
     "allows .12 to .2"),
)  # fmt: skip
LEGEND = {
    "test error": "of the known-operator network at H = 256, N = 2,048",
    "alterations": "log error of a linear denoiser, on ellipses, blobs, digits, photographs, "
    "histology, heads and brains",
}

# --- Constants -----------------------------------------------------------------------------------


def scaled(value: Any, factor: float, *, probability: bool) -> Any:
    """Half or twice of a number, of all numbers of a tuple, or of the values of (value, weight)."""
    if isinstance(value, tuple) and isinstance(value[0], tuple):
        return tuple((factor * number, weight) for number, weight in value)
    if isinstance(value, tuple):
        return tuple(factor * number for number in value)
    return min(factor * value, MOST) if probability else factor * value


def change(owners: tuple[Any, ...], path: str, factor: float, *, probability: bool) -> Any:
    """Change a constant, or a field of one, in all modules that have it; what it was."""
    name, _, field = path.partition(".")
    whole = getattr(owners[0], name)
    before = getattr(whole, field) if field else whole
    after = scaled(before, factor, probability=probability)
    for owner in owners:
        setattr(owner, name, replace(whole, **{field: after}) if field else after)
    # What is derived from a constant when its module is imported.
    if path == "ONE_SEED":
        prior.PRIOR = replace(
            prior.PRIOR, noises=scaled(prior.PRIOR.noises, factor, probability=False)
        )
    rates = {"rate_median": prior.SLOW.rate_median, "rate_spread": prior.SLOW.rate_spread}
    prior.SLOW = replace(prior.BROAD, **rates)
    prior.PLAIN = replace(prior.PLAIN, weight=1 - prior.BROAD.weight)
    prior.PRIOR = replace(prior.PRIOR, kinds=(prior.BROAD, prior.PLAIN))
    law._RIVAL = replace(law._RIVAL, least_noise=law._TELLING)
    relatives.relatives.__wrapped__.__defaults__ = (relatives.KINSHIP,)
    return before


# The figure, the modules that have the constant, its name, and whether it is a probability.
CONSTANTS = (
    *(("odds", (prior,), f"BROAD.{name}", name in ("weight", "no_floor"))
      for name in ("weight", "rate_median", "rate_spread", "no_floor", "floor_shape")),
    *(("odds", (prior,), f"PLAIN.{name}", name == "no_floor")
      for name in ("rate_median", "rate_spread", "no_floor")),
    *(("odds", (prior,), f"PRIOR.{name}", False) for name in ("drifts", "stretches", "growth")),
    *(("large N", (prior,), name, False)
      for name in ("SLOW.rate_median", "SLOW.rate_spread", "_SMALL", "_LARGE")),
    *(("odds", (noise,), name, False) for name in ("ONE_SEED", "PRIOR_SEEDS", "NEARBY")),
    ("odds", (futures,), "_STRANGE", False),
    *(("related", (relatives,), f"KINSHIP.{name}", name == "believed")
      for name in ("believed", "stretch", "step", "floors", "least_noise")),
    *(("rehearsals", (rehearse,), f"BELIEF.{name}", False)
      for name in ("shapes", "lengths", "offsets")),
    *(("rehearsals", (law,), name, name == "_BELIEVED")
      for name in ("_LEVEL", "_BELIEVED", "_LEAST_NOISE", "_TELLING", "_RARE")),
    ("ratios", (odds.comparing,), "WIDER", False),
    *(("advice", (advising,), name, False) for name in ("NEAR", "UNLIKELY", "HOPELESS")),
    ("advice", (futures, pilots), "ROUGHEST", False),
    *(("advice", (pilots,), name, False)
      for name in ("_BEYOND_NOISE", "_LEAST_CHANGE", "_MOST_OUTSIDE", "_LARGE", "_LEAST_FALL")),
)  # fmt: skip


def measured(work: tuple[int, float]) -> tuple[Any, Array]:
    """A constant's value, and its figure with another one."""
    place, factor = work
    figure, owners, path, probability = CONSTANTS[place]
    warnings.simplefilter("ignore")
    before = change(owners, path, factor, probability=probability)
    return before, FIGURES[figure][0]()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", help="figures, with commas between")
    parser.add_argument("--processes", type=int, help="default: one for each core")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [*FIGURES]
    places = [at for at, constant in enumerate(CONSTANTS) if constant[0] in chosen]
    # As it is for the first constant of every figure; each in a process of its own.
    first = {CONSTANTS[at][0]: at for at in reversed(places)}
    work = [(at, 1.0) for at in first.values()]
    work += [(at, factor) for at in places for factor in (0.5, 2.0)]
    with multiprocessing.get_context("fork").Pool(options.processes, maxtasksperchild=1) as pool:
        found = dict(zip(work, pool.map(measured, work, chunksize=1), strict=True))
    rows = []
    for at in places:
        figure, owners, path, _ = CONSTANTS[at]
        before, today = found[at, 0.5][0], found[first[figure], 1.0][1]
        shown = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.3g}", str(before))
        module = owners[0].__name__.removeprefix("korisk.")
        if module.startswith("benchmarks"):
            module = "prediction.misfit"
        changes = [float(np.mean(found[at, factor][1] / today)) - 1 for factor in (0.5, 2.0)]
        cells = ["0%" if math.isclose(c, 0, abs_tol=5e-4) else f"{c:+.1%}" for c in changes]
        rows.append([figure, f"`{module}.{path}`", shown, *cells])
    rows += [[figure, f"`{name}`", *cells] for figure, name, *cells in ELSEWHERE]
    print(table(rows, ["figure", "constant", "value", "half", "twice"]), end="\n\n")
    for figure, words in ({name: FIGURES[name][1] for name in chosen} | LEGEND).items():
        print(f"- *{figure}*: {words}")


if __name__ == "__main__":
    main()
