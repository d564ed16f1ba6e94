"""How many Lanczos steps the known-operator fit needs: errors on test images by steps.

python -m benchmarks.operators.lanczos_steps [--sides 128,256] [--device cuda]
"""

import argparse
import time

import torch

from korisk.fitting import DiagonalRidge, Scorer, tail_gram
from korisk.fitting.ridge import diagonal as diagonal_ridge
from korisk.operators import Composed
from korisk.problems import CtProblem, CtScanner

STEPS = (100, 200, 400, 800, 1600)
SAMPLES = (64, 2048)


def main() -> None:
    """A line for each size, training set and number of steps."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--sides", default="128,256", help="image sides of the paper")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = options.parse_args()
    print("H, N, steps at most | lambda / scale | residual | validation MSE | test MSE | s")
    for side in map(int, given.sides.split(",")):
        compare(CtScanner.of_paper(side), given.device)


def compare(scanner: CtScanner, device: str) -> None:
    """Fit the same training sets with ever more steps."""
    weights, operators = scanner.reconstruction(device)
    tail = Composed(operators)
    problem = CtProblem(scanner=scanner)
    pools = problem.pools(seed=1, train=SAMPLES[-1], validation=64, test=256, device=device)
    ridge = DiagonalRidge(tail, *pools.train, toward=weights, gram=tail_gram(tail))
    judge, test = Scorer(*pools.validation), Scorer(*pools.test)
    for n in SAMPLES:
        for steps in STEPS:
            diagonal_ridge.MOST_STEPS = steps
            start = time.perf_counter()
            fit = ridge.training(n).fit(scorer=judge)
            error = test(fit.predict(pools.test.inputs))
            seconds = time.perf_counter() - start
            assert fit.choice is not None
            relative = fit.penalty / fit.training.scale
            residual = fit.training.residual(fit.weights, fit.penalty)
            print(
                f"{scanner.side}, {n}, {steps} | {relative:.1e} | {residual:.1e} "
                f"| {fit.choice.score:.5e} | {error:.5e} | {seconds:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
