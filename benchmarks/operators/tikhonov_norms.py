"""Norms of Tikhonov inverses by iteration against dense ones: misses, widths and products.

python -m benchmarks.operators.tikhonov_norms [--draws 4] [--rows 1100] [--solves]

Each draw has a spectrum, a mu between 1e-7 and 3 of the largest singular value squared, a start and
two widths; `--solves` forbids the eigenvalues that are computed up to 4,096 rows.
"""

import argparse
import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.markdown import header, line
from korisk.operators import Diagonal, ParallelBeam, Projector, Tikhonov
from korisk.operators.linear import LinearOperator

WIDTHS = (0.1, 0.01)
SPECTRA: dict[str, Callable[[int, Any], Any]] = {
    "even": lambda n, rng: np.linspace(0, 1, n),
    "far from 0": lambda n, rng: np.linspace(0.4, 1, n),
    "two": lambda n, rng: np.repeat([1.0, 0.01], n // 2),
    "a gap": lambda n, rng: np.append(np.linspace(0.6, 1, n // 2), np.linspace(0, 1e-3, n // 2)),
    "rank n / 2": lambda n, rng: np.append(np.linspace(0.5, 1, n // 2), np.zeros(n // 2)),
    "one small": lambda n, rng: np.append(np.linspace(0.7, 1, n - 1), 0.03),
    "clusters": lambda n, rng: np.repeat([1.0, 0.1], n // 2) * (1 + 1e-9 * rng.random(n // 2 * 2)),
    "decaying": lambda n, rng: np.exp(-np.arange(n) / rng.uniform(5, 200)),
    "power law": lambda n, rng: np.arange(1.0, n + 1) ** -rng.uniform(0.5, 3),
    "random": lambda n, rng: rng.random(n) ** rng.uniform(0.2, 6),
}


def main() -> None:
    """A line for each kind of spectrum."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--draws", type=int, default=4, help="of each spectrum")
    options.add_argument("--rows", type=int, default=1100, help="of the Gram matrix")
    options.add_argument("--solves", action="store_true", help="never by eigenvalues")
    given = options.parse_args()
    scan = Projector(ParallelBeam(36, views=24, bins=48), dtype=torch.float64)
    scanned = torch.linalg.svdvals(scan.as_matrix()).numpy()
    later = 0 if given.solves else 4096
    rng = np.random.default_rng(0)
    print(*header("spectrum", "norms", "missed", "wider", "widest / asked", "products"), sep="\n")
    for name in [*SPECTRA, "projector"]:
        missed = wider = 0
        most, products = 0.0, []
        for _ in range(given.draws):
            singular = SPECTRA[name](given.rows, rng) if name in SPECTRA else scanned
            operator: LinearOperator = (
                scan if name == "projector" else Diagonal(torch.from_numpy(singular))
            )
            mu = float(10 ** rng.uniform(-7, 0.5) * singular.max() ** 2)
            true = float((singular / (singular**2 + mu)).max())
            for width in WIDTHS:
                inverse = Tikhonov(operator, mu, solver="cg")
                with (
                    mock.patch("korisk.operators.tikhonov._DECOMPOSED_LATER", later),
                    mock.patch.object(Tikhonov, "_gram", autospec=True, side_effect=Tikhonov._gram)
                    as counted,
                ):  # fmt: skip
                    found = inverse.norm(width=width, seed=int(rng.integers(2**31)))
                missed += not found.lower <= true * (1 + 1e-12) <= found.upper * (1 + 2e-12)
                share = (found.upper / found.lower - 1) / width if found.lower else math.inf
                wider, most = wider + (share > 1 + 1e-6), max(most, share)
                products.append(counted.call_count)
        counts = f"{np.median(products):,.0f}, at most {max(products):,}"
        cells = f"{len(products)}", f"{missed}", f"{wider}", f"{most:.2f}", counts
        print(line(name, *cells), flush=True)


if __name__ == "__main__":
    main()
