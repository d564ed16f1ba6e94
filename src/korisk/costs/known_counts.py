"""What fits of the known-operator network take: in closed form, and by gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from korisk.costs.counts import WORKSPACE, Kind, Operations, Plan, Stage, repeated, stream

# What only data decide, as fits to more than a few images have it: a grid of lambdas that grows by
# 4 once from its first 8, and as many steps of Lanczos as there may be.
LAMBDAS, STEPS = 12, 400
POLISHING = 4  # steps in float64 that follow a factor in float32
FACTORED = 4096  # weights up to which every lambda has a factor of its own
WORTH_POLISHING = 512  # weights from which that factor is in float32

MEMORIES = {"sgd": 0, "adagrad": 1, "adam": 2}  # of the size of the weights, of each optimiser
RECIPE: dict[str, Any] = {"optimiser": "adagrad", "iterations": 5000, "batch": 4, "relu": True}
CLOSED: dict[str, Any] = {"refine": 10, "relu": True}
_LOOKS, _LOOKED_AT, _AT_ONCE = 3, 64, 16  # looks at a training, samples of each, and at a time
_STREAMS = 3  # of CUDA, on which a training computes: its own, one to warm up, one to capture
_SMALL = 20  # operations of one step of training that are neither filter nor projection


def ridge(plan: Plan, settings: Mapping[str, Any], *, stored: bool) -> tuple[Stage, ...]:
    """The diagonal layer in closed form, at every size, and its refinement."""
    train, _, test = plan.images
    stages = [*plan.tail_engine()]
    if stored:
        stages.append(_gram(plan))
    stages.append(
        Stage(
            name="correlations",
            operations=(*plan.tail(train), *plan.tail(test), *plan.metrics()),
            keeps=train * plan.scan.rays * plan.scan.itemsize,
            works=max(_predicting(plan, test), plan.metrics_bytes()),
        )
    )
    for n in plan.spec["sizes"]:
        stages += _size(plan, n, settings, stored)
    return tuple(stages)


def gradient(plan: Plan, settings: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The diagonal layer by mini-batches, all sizes side by side."""
    test = (*plan.tail(plan.images[2]), *plan.metrics())
    testing = _predicting(plan, plan.images[2]) + plan.metrics_bytes()
    sizes, batch = plan.spec["sizes"], settings["batch"]
    groups = [[n] for n in sizes if n < batch]
    if sizes[-1] >= batch:
        groups.append([n for n in sizes if n >= batch])
    return (
        *plan.tail_engine(),
        Stage(name="untrained", operations=test, works=testing),
        *(_training(plan, group, settings) for group in groups),
        Stage(name="test", operations=repeated(test, len(sizes)), works=testing),
    )


def _gram(plan: Plan) -> Stage:
    """B^T B, from unit vectors where B is not one matrix."""
    scan = plan.scan
    size = scan.rays**2 * scan.itemsize
    if scan.dense_tail:
        product = (plan.matmul(2 * scan.rays**2 * scan.pixels),)
        return Stage(name="B^T B", operations=product, keeps=size, once=True)
    rows = plan.part(scan.rays)
    pieces = math.ceil(scan.rays / rows)
    return Stage(
        name="B^T B",
        operations=repeated(plan.tail(scan.rays / pieces), 2 * pieces),
        keeps=size,
        # Unit vectors, filtered, as images, and the same way back.
        works=rows * (4 * scan.rays + 2 * scan.pixels) * scan.itemsize,
        once=True,
    )


def _predicting(plan: Plan, images: int) -> float:
    scan, rows = plan.scan, plan.part(images)
    return scan.itemsize * (images * scan.pixels + rows * (2 * scan.rays + scan.pixels))


def _size(plan: Plan, n: int, settings: Mapping[str, Any], stored: bool) -> list[Stage]:
    lambdas = len(settings.get("grid") or ()) or LAMBDAS
    test = plan.images[2]
    judges = test if settings.get("select") == "test" else plan.images[1]
    factored = stored and plan.scan.rays <= FACTORED
    solve = _factored(plan, n, lambdas) if factored else _lanczos(plan, n, lambdas, stored)
    # Without a ReLU, errors of small fits are quadratic forms of the weights.
    scored = 0 if factored and not settings["relu"] else lambdas
    read = stream(8 * judges * plan.scan.pixels * plan.scan.itemsize)
    scores = repeated((*plan.tail(judges), read), scored)
    found = [
        Stage(
            name=f"n = {n}",
            operations=(*solve.operations, *scores),
            works=solve.works + _predicting(plan, judges),
        )
    ]
    if settings["refine"] and settings["relu"]:
        found.append(_refinement(plan, n, settings["refine"], judges, solve.works))
    testing = max(_predicting(plan, test), plan.metrics_bytes())
    operations = (*plan.tail(test), *plan.metrics())
    return [*found, Stage(name=f"n = {n}, test", operations=operations, works=testing)]


def _normal(plan: Plan, n: int, weights: float) -> tuple[Operations, ...]:
    """(B^T B) ∘ (X^T X), with what it reads and writes."""
    return plan.matmul(2 * n * weights**2), stream(4 * weights**2 * plan.scan.itemsize)


def _factored(plan: Plan, n: int, lambdas: int) -> Stage:
    """Rays that met nothing in the training set are left out, which here is worth it."""
    weights = plan.scan.active(n, plan.spec["problem"]["ellipses"])
    item = plan.scan.itemsize
    size, work = weights**2 * item, weights**3 / 3
    if item == 8 and weights >= WORTH_POLISHING:
        made = [
            Operations(kind="cholesky32", work=work, calls=lambdas),
            stream(2 * size, lambdas),
            Operations(kind="matvec32", work=2 * size, calls=POLISHING * lambdas),
        ]
        factors = (lambdas + 1) * 4 * weights**2  # all are kept
    else:
        kind: Kind = "cholesky32" if item == 4 else "cholesky64"
        made = [Operations(kind=kind, work=work, calls=lambdas + 1), stream(4 * size, lambdas + 1)]
        factors = 2 * size
    normal = _normal(plan, n, weights)
    return Stage(name="factored", operations=(*normal, *made), works=size + factors)


def _lanczos(plan: Plan, n: int, lambdas: int, stored: bool) -> Stage:
    rays, item = plan.scan.rays, plan.scan.itemsize
    steps = min(STEPS, rays)
    basis = (steps + 1) * rays * item
    # The right side and the residual take one product each, a diagonal by signs four.
    products = repeated(_product(plan, n, stored), steps + (2 if stored else 6))
    # Twice orthogonal to half of all vectors on average, each time read twice.
    upright = Operations(kind="matvec32", work=basis / 2, calls=4 * steps)
    solved = plan.matmul(2 * lambdas * steps * rays)
    normal = _normal(plan, n, rays) if stored else ()
    return Stage(
        name="lanczos",
        operations=(*normal, *products, upright, solved),
        works=2 * basis + (rays**2 * item if stored else _passing(plan, n)),
    )


def _product(plan: Plan, n: int, stored: bool) -> tuple[Operations, ...]:
    """One product with the normal matrix."""
    rays, item = plan.scan.rays, plan.scan.itemsize
    if stored:
        return (Operations(kind="matvec32", work=rays**2 * item),)
    return (*plan.tail(2 * n), stream(6 * n * rays * item))


def _passing(plan: Plan, n: int) -> float:
    """What one pass of n samples through the operators and back takes."""
    scan = plan.scan
    return plan.part(n) * (3 * scan.rays + scan.pixels) * scan.itemsize


def _refinement(plan: Plan, n: int, steps: int, judges: int, held: float) -> Stage:
    """L-BFGS with the ReLU in the loss, one loss a step and one before; `held` is the fit's."""
    scan, item = plan.scan, plan.scan.itemsize
    # A loss takes the operators twice, and reads and writes its images some ten times.
    loss = *plan.tail(2 * n), stream(10 * n * (scan.pixels + scan.rays) * item)
    # Images, their differences, and both steps of a sum of squares in float64.
    working = plan.part(n) * (scan.pixels * (2 * item + 16) + scan.rays * item)
    return Stage(
        name=f"n = {n}, ReLU",
        operations=repeated((*loss, *plan.tail(judges)), steps + 1),
        works=held + working,
    )


def _training(plan: Plan, group: list[int], settings: Mapping[str, Any]) -> Stage:
    """Sizes whose batches are of one length, side by side."""
    scan, item = plan.scan, plan.scan.itemsize
    steps, runs = settings["iterations"], len(group)
    images = runs * min(settings["batch"], group[0])
    weights = runs * scan.rays * item
    moved = images * (8 * scan.rays + 14 * scan.pixels) * item + 6 * weights
    step = (*plan.tail(images), *plan.tail(images), stream(moved / _SMALL, _SMALL))
    drawn = stream(8 * images, 2 * steps * runs)
    looks = plan.tail(2 * _LOOKS * sum(min(n, _LOOKED_AT) for n in group))
    # Data are searched for infinities: a truth value for each entry, and these as whole numbers.
    searching = plan.images[0] * max(scan.pixels, scan.rays) * 9
    looking = runs * min(_AT_ONCE, group[-1]) * (3 * scan.rays + 5 * scan.pixels) * item
    return Stage(
        name=f"n = {', '.join(map(str, group))}",
        operations=(*repeated(step, steps), *looks, drawn),
        works=(2 + MEMORIES[settings["optimiser"]]) * weights
        + max(searching, looking)
        + (_STREAMS * WORKSPACE if plan.device == "cuda" else 0),
    )
