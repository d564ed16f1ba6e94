"""What related curves are worth: pilots on real images, relatives on simulated ones.

For every network of benchmarks/data/image_networks.csv the curves on ellipses and blobs are the
relatives, and the pilot is the curve on real images up to N = 32 or 64. Asked are the errors at 8
to 64 times the pilot's last N, and the N that reaches each of them. Digits choose the constants of
`planning.futures.related.Kinship` (--part tune), clothing and photographs report (--part report).
Misleading relatives: the simulated curves of a network for another task ("task"), of another
network for the same task ("network"), and a curve that nobody measured, N^-1/2 or one that levels
off ("invented").

    python -m benchmarks.planner.related [--part report|tune]
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.planner import curves as curves
from korisk.curves.curve import Curve
from korisk.planning.plan import Forecast, Plan, forecast

Array = NDArray[np.float64]

PILOTS = (32, 64)
MULTIPLES = (8, 16, 32, 64)
SIMULATED = ("ellipses", "blobs")
REAL = {"tune": ("mnist",), "report": ("fashion", "photos")}
# The task of each is another: what it learns says nothing of the pilot.
TASKS = {"denoise": "ct-dense-unet", "deblur": "ct-dense-unet", "mri": "ct-dense-unet"}
TASKS |= {"ct-dense": "denoise-cnn", "ct": "denoise-cnn"}
# Another network for the same task, where there is one that learns differently.
NETWORKS = {"ct-dense-unet": "ct-fbp-unet", "ct-": "ct-dense-unet", "denoise-cnn": "denoise-unet"}
NETWORKS |= {"denoise-unet": "denoise-cnn", "deblur-unrolled": "deblur-unet"}
NETWORKS |= {"deblur-": "deblur-unrolled", "mri-unet": "ct-dense-unet"}
WAYS = ("related", "task", "network", "invented")


@dataclass(frozen=True)
class Asked:
    """One pilot, its relatives, misleading ones, and the truth."""

    name: str
    pilot: Curve
    related: dict[str, tuple[Curve, ...]]  # by the ways in which they are, or are not
    n: Array
    error: Array


def asked(part: str) -> list[Asked]:
    """Every pilot of a part."""
    whole = curves.image_curves()
    found: list[Asked] = []
    for (network, population), curve in sorted(whole.items()):
        related = tuple(whole[network, s] for s in SIMULATED if (network, s) in whole)
        if population not in REAL[part] or not related:
            continue
        ways = {"related": related, "invented": (invented(len(found) % 4 < 2),)}
        for way, others in (("task", TASKS), ("network", NETWORKS)):
            wrong = next(other for start, other in others.items() if network.startswith(start))
            ways[way] = tuple(whole[wrong, s] for s in SIMULATED)
        for last in PILOTS:
            n = np.array([last * m for m in MULTIPLES if last * m in curve.sizes], float)
            error = np.array([curve.means[curve.sizes == size][0] for size in n])
            pilot = curve.up_to(last)
            found.append(Asked(f"{network} {population}", pilot, ways, n, error))
    return found


def invented(falls: bool) -> Curve:
    """A curve that nobody measured."""
    n = 2 ** np.arange(2, 13)
    return Curve(n, n**-0.5 if falls else 0.3 + n**-0.8, model="invented")


def samples(made: Forecast, error: float) -> float:
    """The N that an estimator gives for an error."""
    return Plan(made, float(error)).even or math.inf


def rows(cases: list[Asked]) -> list[dict[str, float]]:
    """One row for each pilot and multiple."""
    found = []
    for case in cases:
        made = {"alone": forecast(case.pilot)}
        made |= {way: forecast(case.pilot, related=case.related[way]) for way in WAYS}
        for n, error in zip(case.n, case.error, strict=True):
            row = {"last": float(case.pilot.sizes[-1]), "multiple": n / case.pilot.sizes[-1]}
            for name, each in made.items():
                low, high = (float(each.quantile(n, p)[0]) for p in (0.05, 0.95))
                row[f"{name} error"] = abs(math.log(float(each.quantile(n, 0.5)[0]) / error))
                row[f"{name} covered"] = float(low <= error <= high)
                row[f"{name} middle"] = math.log(float(each.quantile(n, 0.5)[0]))
                if error < 0.97 * case.pilot.means[-1]:
                    ratio = samples(each, error) / n
                    row[f"{name} within"] = float(0.5 <= ratio <= 2)
            for way in WAYS:
                row[f"{way} trust"] = made[way].trust or 0.0
            found.append(row)
    return found


def show(found: list[dict[str, float]]) -> None:
    """Print the tables."""

    def column(name: str, kept: list[dict[str, float]]) -> Array:
        return np.array([row[name] for row in kept if name in row])

    print("|log error| median (90% quantile), coverage of 90% bands, N within a factor of two")
    print(f"{'pilot to':>8s} {'at':>5s} {'pilots':>6s}  " + f"{'alone':^30s}{'related':^30s} trust")
    groups = [(last, multiple) for last in PILOTS for multiple in MULTIPLES]
    for last, multiple in [*groups, *((None, m) for m in MULTIPLES), (None, None)]:
        kept = [
            row
            for row in found
            if last in (None, row["last"]) and multiple in (None, row["multiple"])
        ]
        if not kept:
            continue
        parts = []
        for name in ("alone", "related"):
            errors = column(f"{name} error", kept)
            parts.append(
                f"{np.median(errors):.3f} ({np.quantile(errors, 0.9):.3f}) "
                f"{column(f'{name} covered', kept).mean():.2f} "
                f"{column(f'{name} within', kept).mean():.3f}"
            )
        trust = np.median(column("related trust", kept))
        label = f"{last or 'all':>8} {multiple or 'all':>5} {len(kept):6d}"
        print(f"{label}  {parts[0]:^30s}{parts[1]:^30s} {trust:.2f}")
    print("way        trust   |log error| median, 90% quantile, of those without relatives")
    alone = np.quantile(column("alone error", found), [0.5, 0.9])
    for way in WAYS:
        error = np.quantile(column(f"{way} error", found), [0.5, 0.9])
        trust = np.median(column(f"{way} trust", found))
        more = " ".join(f"{part:.2f}" for part in error / alone)
        print(f"{way:10s} {trust:.3f}   {error[0]:.3f} {error[1]:.3f}   x {more}")


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--part", choices=("report", "tune"), default="report")
    show(rows(asked(parser.parse_args().part)))


if __name__ == "__main__":
    main()
