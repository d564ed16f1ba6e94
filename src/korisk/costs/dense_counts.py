"""What fits of the dense network take: in dual form, by normal equations, and by gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from korisk.costs.counts import Operations, Plan, Stage, stream
from korisk.costs.known_counts import MEMORIES, RECIPE
from korisk.theory.footprint import sharded_blocks, sharded_bytes

LAMBDAS = 17  # of a grid that does not grow, as a rule
TOGETHER = 2**27  # entries of predictions that are made at once
CONVERTED = 2**26  # bytes of an operand that is converted to float64 at a time


def dual(plan: Plan, settings: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The dense layer in dual form, at every size: M is never made."""
    scan, train = plan.scan, plan.images[0]
    item = scan.itemsize
    # Data are searched for infinities: a copy without signs, and three truth values an entry.
    searching = train * max(scan.pixels, scan.rays) * (item + 3)
    kernel = Stage(
        name="K = X X^T",
        operations=(
            Operations(kind="matmul64", work=2 * train**2 * scan.rays),
            stream(12 * train * scan.rays),
            stream(8 * train * (scan.rays + scan.pixels)),
        ),
        keeps=8 * train**2,
        works=max(_converted(plan, train), searching),
    )
    return (kernel, *(_size(plan, n, settings) for n in plan.spec["sizes"]))


def primal(plan: Plan) -> tuple[Stage, ...]:
    """The dense layer by its normal equations: what the dual form spares."""
    rays, pixels = plan.scan.rays, plan.scan.pixels
    judges = plan.images[1] or plan.images[2]
    return tuple(
        Stage(
            name=f"n = {n}, normal equations",
            operations=(
                Operations(kind="matmul64", work=2 * n * rays**2),
                plan.matmul(2 * n * rays * pixels),
                Operations(kind="cholesky64", work=rays**3 / 3, calls=LAMBDAS),
                plan.matmul(2 * rays**2 * pixels, LAMBDAS),
                plan.matmul(2 * judges * rays * pixels, LAMBDAS),
                *plan.metrics(),
            ),
            # X^T X and its factor in float64, X^T Y and M.
            works=2 * 8 * rays**2 + 2 * rays * pixels * plan.scan.itemsize,
        )
        for n in plan.spec["sizes"]
    )


def gradient(plan: Plan, optimiser: str, *, ranks: int = 1) -> tuple[Stage, ...]:
    """The dense layer by mini-batches, one size after the other; of several ranks, one's share.

    At least weights, gradient and what the optimiser remembers; what ranks send each other takes
    time that is not counted.
    """
    scan, item = plan.scan, plan.scan.itemsize
    weights = scan.rays * scan.pixels
    # Every rank reads all weights, block by block, and writes their gradient, for its samples; the
    # update passes over its share of both and of every memory, reading and writing.
    moved = (2 + (3 + 3 * MEMORIES[optimiser]) / ranks) * weights * item
    steps, flops = RECIPE["iterations"], 4 * RECIPE["batch"] * weights / ranks
    trained = (plan.matmul(flops, steps), stream(moved, steps), *plan.metrics())
    if ranks == 1:
        state = float((2 + MEMORIES[optimiser]) * item * weights)
    else:
        blocks = sharded_blocks(scan.pixels, scan.rays, itemsize=item)
        state = float(
            sharded_bytes(weights, ranks=ranks, optimiser=optimiser, blocks=blocks, itemsize=item)
        )
    return (
        Stage(name="state", keeps=state),
        *(Stage(name=f"n = {n}", operations=trained) for n in plan.spec["sizes"]),
    )


def _converted(plan: Plan, n: int) -> int:
    """What pieces of both operands of a kernel take in float64."""
    return 2 * min(CONVERTED, 8 * n * plan.scan.rays) if plan.scan.itemsize == 4 else 0


def _size(plan: Plan, n: int, settings: Mapping[str, Any]) -> Stage:
    lambdas = len(settings.get("grid") or ()) or LAMBDAS
    pixels, item = plan.scan.pixels, plan.scan.itemsize
    _, validation, test = plan.images
    if settings["select"] == "leave-one-out":
        chosen = _left_out(plan, n, lambdas)
        rows = min(n, max(1, TOGETHER // pixels))
        choosing = 16 * n**2 + rows * pixels * (2 * item + 16)
    else:
        judges = test if settings["select"] == "test" else validation
        chosen = _scored(plan, n, judges, lambdas)
        together = min(lambdas, max(1, TOGETHER // max(1, judges * pixels)))
        choosing = (together + 2) * judges * pixels * item
    vectors = 8 * n**2
    tested = (*_scored(plan, n, test, 1), *plan.metrics())
    return Stage(
        name=f"n = {n}",
        operations=(Operations(kind="eigh64", work=n**3), *chosen, *tested),
        works=vectors
        + max(2 * vectors, choosing, _converted(plan, max(n, test)), plan.metrics_bytes()),
    )


def _scored(plan: Plan, n: int, judges: int, lambdas: int) -> tuple[Operations, ...]:
    """k(x)^T U, then each lambda's predictions and their score."""
    scan = plan.scan
    return (
        Operations(kind="matmul64", work=2 * judges * n * scan.rays),
        stream(12 * (judges + n) * scan.rays),
        Operations(kind="matmul64", work=2 * judges * n**2, calls=1 + lambdas),
        plan.matmul(2 * lambdas * judges * n * scan.pixels),
        stream(8 * judges * scan.pixels * scan.itemsize, lambdas),
    )


def _left_out(plan: Plan, n: int, lambdas: int) -> tuple[Operations, ...]:
    """R = (K + lambda I)^-1, and each sample predicted from the others."""
    pixels = plan.scan.pixels
    return (
        Operations(kind="matmul64", work=2 * n**3, calls=lambdas),
        plan.matmul(2 * n**2 * pixels, lambdas),
        stream(40 * n * pixels + 24 * n**2, lambdas),
    )
