"""Three estimators on scikit-learn's digits: planned from N <= 200, checked at N = 1400.

    python examples/pilot_digits.py [--quick] [--figure FILE]

For each estimator the pilot is run up to N = 200. The error rate at N = 1400 is predicted, with its
90% band, and N is planned for a target: half of the error rate at the pilot's end. Then each
estimator is trained once with all 1400 training samples, as there is only one such training set.
The 397 other digits are the test set throughout. With so few, a measured error rate is coarse; its
90% binomial interval (Clopper and Pearson's) is printed beside it.
"""

import argparse
from dataclasses import dataclass
from typing import Any

from scipy.stats import binomtest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import korisk as kr

SIZES = [25, 35, 50, 70, 100, 140, 200]
LARGE = 1400
TEST = 397  # the rest of the 1797


@dataclass(frozen=True)
class Check:
    """One estimator: what was predicted and what was measured, as error rates."""

    name: str
    pilot: kr.Pilot
    plan: kr.Plan
    predicted: kr.planning.Expectation
    mistakes: int  # with 1400 training samples, in 397 test digits

    @property
    def measured(self) -> float:
        """The error rate on the test digits."""
        return self.mistakes / TEST

    @property
    def inside(self) -> bool:
        """Whether what was measured lies in the 90% band."""
        return self.predicted.lower <= self.measured <= self.predicted.upper

    @property
    def meets(self) -> bool:
        """Whether some error rate of its binomial interval lies there."""
        low, high = binomial_interval(self.mistakes, TEST)
        return low <= self.predicted.upper and self.predicted.lower <= high


def binomial_interval(mistakes: int, digits: int) -> tuple[float, float]:
    """The error rates that so many mistakes do not speak against: 90%, Clopper and Pearson's."""
    found = binomtest(mistakes, digits).proportion_ci(0.9, method="exact")
    return float(found.low), float(found.high)


def estimators() -> dict[str, Any]:
    """What is compared."""
    return {
        "logistic regression": LogisticRegression(max_iter=300),
        "SVC (RBF)": SVC(),
        "3 nearest neighbours": KNeighborsClassifier(3),
    }


def check(name: str, estimator: Any, *, quick: bool) -> Check:
    """Plan from small N, then measure at the large one."""
    x, y = load_digits(return_X_y=True)
    x = x / 16.0
    common: dict[str, Any] = {"test": TEST / len(y), "model": name, "quiet": True}
    seeds = 3 if quick else 10
    sizes = SIZES[::2] if quick else SIZES
    pilot = kr.pilot_sklearn(estimator, x, y, sizes=sizes, seeds=seeds, **common)
    end = pilot.curve.means[-1]
    plan = pilot.plan(1 - 0.5 * end)  # the unit is accuracy
    predicted = plan.forecast.at(LARGE)
    truth = kr.pilot_sklearn(estimator, x, y, sizes=[LARGE], seeds=1, **common)
    mistakes = round((1 - truth.fits[0].metrics["accuracy"]) * TEST)
    errors = kr.planning.Expectation(
        LARGE, 1 - predicted.value, 1 - predicted.upper, 1 - predicted.lower
    )
    return Check(name, pilot, plan, errors, mistakes)


def samples(plan: kr.Plan) -> str:
    """N with 90% and with even odds, and the 90% range of N."""
    sure, even = ("none" if n is None else f"{n:,}" for n in map(plan.samples, (0.9, 0.5)))
    upper = f"{plan.upper:,.0f}" if plan.upper < float("inf") else "\u221e"
    return f"{sure} / {even} ({plan.lower:,.0f} to {upper})"


def table(checks: list[Check]) -> str:
    """The outcome, one row for each estimator."""
    rows = [
        (
            *("estimator", "target", "N: 90% sure / 50% sure (90% range)"),
            *(f"predicted at {LARGE} (90%)", f"measured at {LARGE} (90%)", "inside"),
        )
    ]
    for each in checks:
        band = f"{each.predicted.lower:.2%} to {each.predicted.upper:.2%}"
        low, high = binomial_interval(each.mistakes, TEST)
        rows.append(
            (
                *(each.name, f"{1 - each.plan.target:.2%}", samples(each.plan)),
                f"{each.predicted.value:.2%} ({band})",
                f"{each.measured:.2%} ({low:.2%} to {high:.2%})",
                "yes" if each.inside else "no",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def draw(checks: list[Check], path: str) -> None:
    """The pilots, their predictions, and the truth."""
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(1, len(checks), figsize=(4 * len(checks), 3.5), sharey=True)
    for axis, each in zip(axes, checks, strict=True):
        curve, n = each.pilot.curve, np.geomspace(SIZES[0], LARGE, 60)
        low, high = (each.plan.forecast.quantile(n, p) for p in (0.05, 0.95))
        axis.fill_between(n, low, high, alpha=0.2)
        axis.loglog(n, each.plan.forecast.quantile(n, 0.5))
        axis.loglog(curve.sizes, curve.means, "o")
        axis.loglog([LARGE], [each.measured], "k*", markersize=12)
        axis.set(title=each.name, xlabel="training samples N")
    axes[0].set_ylabel("error rate")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and seeds")
    parser.add_argument("--figure", metavar="FILE", help="draw the curves into FILE")
    chosen = parser.parse_args()
    checks = [check(name, each, quick=chosen.quick) for name, each in estimators().items()]
    print(table(checks))
    inside = sum(each.inside for each in checks)
    print(f"\n{inside} of {len(checks)} errors measured at N = {LARGE} lie in the 90% band.")
    meet = sum(each.meets for each in checks)
    print(f"{meet} of {len(checks)} intervals of what was measured have a part in that band.")
    if chosen.figure:
        draw(checks, chosen.figure)


if __name__ == "__main__":
    main()
