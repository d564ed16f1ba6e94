"""What related curves are worth: pilots on real images, relatives on simulated ones.

For every network of benchmarks/data/image_networks.csv the curves on ellipses and blobs are the
relatives, and the pilot is the curve on real images up to N = 32 or 64. Asked are the errors at 8
to 64 times the pilot's last N, and the N that reaches each of them. Digits choose the constants of
`korisk.planning.related.Kinship` (--part tune), clothing and photographs report (--part report). A
misleading relative is the simulated curve of another network, of another task.

    python -m benchmarks.planner.related [--part report|tune]
"""

import argparse
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.planner import curves as curves
from korisk.curves.curve import Curve
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.plan import plan_from

Array = NDArray[np.float64]

PILOTS = (32, 64)
MULTIPLES = (8, 16, 32, 64)
SIMULATED = ("ellipses", "blobs")
REAL = {"tune": ("mnist",), "report": ("fashion", "photos")}
# The task of each is another: what it learns says nothing of the pilot.
MISLEADING = {"denoise": "ct-dense-unet", "deblur": "ct-dense-unet", "mri": "ct-dense-unet"}
MISLEADING |= {"ct-dense": "denoise-cnn", "ct": "denoise-cnn"}


@dataclass(frozen=True)
class Asked:
    """One pilot, its relatives, misleading ones, and the truth."""

    name: str
    pilot: Curve
    related: tuple[Curve, ...]
    misleading: tuple[Curve, ...]
    n: Array
    error: Array


def asked(part: str) -> list[Asked]:
    """Every pilot of a part."""
    whole = curves.image_curves()
    found = []
    for (network, population), curve in sorted(whole.items()):
        related = tuple(whole[network, s] for s in SIMULATED if (network, s) in whole)
        if population not in REAL[part] or not related:
            continue
        wrong = next(w for start, w in MISLEADING.items() if network.startswith(start))
        misleading = tuple(whole[wrong, s] for s in SIMULATED)
        for last in PILOTS:
            n = np.array([last * m for m in MULTIPLES if last * m in curve.sizes], float)
            error = np.array([curve.means[curve.sizes == size][0] for size in n])
            pilot = curve.up_to(last)
            found.append(Asked(f"{network} {population}", pilot, related, misleading, n, error))
    return found


def samples(made: Forecast, error: float) -> float:
    """The N that an estimator gives for an error."""
    return plan_from(made, float(error)).samples or math.inf


def rows(cases: list[Asked]) -> list[dict[str, float]]:
    """One row for each pilot and multiple."""
    found = []
    for case in cases:
        made = {
            "alone": forecast(case.pilot),
            "related": forecast(case.pilot, related=case.related),
            "misled": forecast(case.pilot, related=case.misleading),
        }
        for n, error in zip(case.n, case.error, strict=True):
            row = {"last": float(case.pilot.sizes[-1]), "multiple": n / case.pilot.sizes[-1]}
            for name, each in made.items():
                low, high = (float(end[0]) for end in each.band([n]))
                row[f"{name} error"] = abs(math.log(float(each.middle([n])[0]) / error))
                row[f"{name} covered"] = float(low <= error <= high)
                row[f"{name} middle"] = math.log(float(each.middle([n])[0]))
                if error < 0.97 * case.pilot.means[-1]:
                    ratio = samples(each, error) / n
                    row[f"{name} within"] = float(0.5 <= ratio <= 2)
            for name in ("related", "misled"):
                found_relatives = made[name].relatives
                assert found_relatives is not None
                row[f"{name} trust"] = found_relatives.trust
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
    moved = np.abs(column("misled middle", found) - column("alone middle", found))
    print(
        f"misleading relatives: trust {np.median(column('misled trust', found)):.3f} "
        f"(90% quantile {np.quantile(column('misled trust', found), 0.9):.3f}); they change the "
        f"expected error by {np.expm1(np.median(moved)):.1%} (90% quantile "
        f"{np.expm1(np.quantile(moved, 0.9)):.1%}, largest {np.expm1(moved.max()):.1%})"
    )


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--part", choices=("report", "tune"), default="report")
    options = parser.parse_args(None if arguments is None else list(arguments))
    show(rows(asked(options.part)))


if __name__ == "__main__":
    main()
