"""Random modules that try to come out below their description: slopes found against upper ends.

python -m benchmarks.networks.attack [--modules 300] [--first 0] [--workers 12] [--out
    benchmarks/results/attack.json]

A module is a random graph of 3 to 8 parts on images of 2 channels: convolutions of any stride,
dilation and groups, transforms, solves, poolings, norms with running statistics, activations,
thresholds and projections written out, skips, sums, maxima, concatenations, weights used twice.
Weights are drawn from 0.2 to 3 times their usual size, and some parts act on large inputs alone.
"""

import argparse
import json
import math
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import korisk as kr
from benchmarks.networks.describe import Of, steepest

SIDE = 6
Part = Callable[[Tensor], Tensor]
_SLACK = 1e-9  # relative, of slopes that are differences of doubles


def parts(draw: torch.Generator, module: nn.Module) -> dict[str, Callable[[], Part]]:
    """By name: what makes a map of (1, 2, 6, 6) to itself, with weights of its own."""

    def number(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=draw))

    def pick(*options: Any) -> Any:
        return options[int(torch.randint(len(options), (), generator=draw))]

    def matrix(rows: int, columns: int) -> Tensor:
        size = math.exp(number(math.log(0.2), math.log(3))) / math.sqrt(columns)
        weights = size * torch.randn(rows, columns, generator=draw, dtype=torch.float64)
        kept = nn.Parameter(weights, requires_grad=pick(True, False))
        module.register_parameter(f"weights{len(list(module.parameters()))}", kept)
        return kept

    def convolution() -> Part:
        kernel, stride, dilation = pick(1, 3), pick(1, 2), pick(1, 2)
        groups = pick(1, 2)
        weight = matrix(2, 2 // groups * kernel**2)
        reach = dilation * (kernel - 1) // 2

        def apply(x: Tensor) -> Tensor:
            shaped = weight.reshape(2, 2 // groups, kernel, kernel)
            y = F.conv2d(x, shaped, None, stride, reach, dilation, groups)
            return y if stride == 1 else F.interpolate(y, (SIDE, SIDE), mode=pick_mode)

        pick_mode = pick("nearest", "bilinear")
        return apply

    def transposed() -> Part:
        weight = matrix(2, 2 * 4)

        def apply(x: Tensor) -> Tensor:
            up = F.conv_transpose2d(x, weight.reshape(2, 2, 2, 2), stride=2)
            return F.max_pool2d(up, 2)

        return apply

    def dense() -> Part:
        weight = matrix(SIDE, SIDE)
        return lambda x: x @ weight

    def solve() -> Part:
        system = matrix(SIDE, SIDE) + 3 * torch.eye(SIDE, dtype=torch.float64)
        return lambda x: torch.linalg.solve(system, x)

    def spectrum() -> Part:
        gains, cut = matrix(1, SIDE // 2 + 1), pick(2, 3, 4)
        shortened = pick(True, False)

        def apply(x: Tensor) -> Tensor:
            transform: Tensor = torch.fft.rfft(x)
            changed = transform[..., :cut] if shortened else transform * gains[0]
            image: Tensor = torch.fft.irfft(changed, n=SIDE)
            return image

        return apply

    def soft() -> Part:
        at = number(0, 1)
        kind = pick(0, 1)
        if kind:
            return lambda x: torch.sign(x) * torch.relu(x.abs() - at)
        return lambda x: (x.abs() - at).clamp(min=0) * x.sign()

    def projection() -> Part:
        low, scale = number(0.3, 3), number(0.3, 3)
        kind = pick(0, 1, 2)
        if kind == 0:
            return lambda x: x / (scale * x.norm(dim=1, keepdim=True)).clamp(min=low)
        if kind == 1:
            return lambda x: x / torch.clamp_min(x.abs() / scale, low)
        most = torch.full((), low, dtype=torch.float64)
        return lambda x: x / torch.maximum(most, torch.linalg.vector_norm(x))

    def batch_norm() -> Part:
        mean, weight = torch.randn(2, 2, generator=draw, dtype=torch.float64)
        variance = torch.rand(2, generator=draw, dtype=torch.float64) + 0.1
        return lambda x: F.batch_norm(x, mean, variance, weight)

    def statistics() -> Part:
        eps = pick(1.0, 1e3, 1e8)
        scale = torch.full((2,), math.sqrt(eps) * number(0.5, 2), dtype=torch.float64)
        return lambda x: F.instance_norm(x, weight=scale, eps=eps) - 0.7 * x

    def late() -> Part:
        at, steep = number(5, 50), number(2, 50)
        return lambda x: x + steep * torch.relu(x - at)

    def acting() -> Part:
        acts: tuple[Part, ...] = (
            torch.relu, torch.tanh, F.gelu, F.silu, F.mish, torch.sin, F.softplus, F.elu, F.selu,
            F.hardswish, torch.abs, lambda x: F.leaky_relu(x, -1.3), lambda x: x.softmax(-1),
            lambda x: x.clamp(-0.3, 0.9), lambda x: torch.where(x > 0, x, -0.4 * x),
            lambda x: x.sort(-1).values, lambda x: x.logsumexp(1, keepdim=True).expand_as(x),
            lambda x: F.avg_pool2d(x, 3, 1, 1), lambda x: F.max_pool2d(x, 3, 1, 1),
            lambda x: x.cumsum(-1) / 3, lambda x: x.roll(1, -1) - x.flip(-2),
        )  # fmt: skip
        return pick(*acts)  # type: ignore[no-any-return]

    makers = (convolution, transposed, dense, solve, spectrum, soft, projection, batch_norm)
    return {make.__name__: make for make in (*makers, statistics, late, acting)}


def random_module(seed: int) -> tuple[nn.Module, Tensor, list[str]]:
    """A module, an input and the names of its parts."""
    draw = torch.Generator().manual_seed(10_000 + seed)
    module = Of(lambda x: x)
    kinds = parts(draw, module)

    def pick(count: int) -> int:
        return int(torch.randint(count, (), generator=draw))

    names, plan = [*kinds], []
    made: list[tuple[str, Part]] = []
    for place in range(3 + pick(6)):
        again = made and pick(6) == 0
        name = names[min(pick(len(names) + 4), len(names) - 1)]  # the last is drawn more often
        part = made[pick(len(made))] if again else (name, kinds[name]())
        made.append(part)
        plan.append((part[1], pick(place + 1) if pick(3) == 0 else place, pick(5), pick(place + 1)))

    def forward(x: Tensor) -> Tensor:
        values = [x]
        for part, source, joined, other in plan:
            y = part(values[source])
            if joined == 0:
                y = y + values[other]
            elif joined == 1:
                y = torch.maximum(y, values[other])
            elif joined == 2:
                y = torch.cat([y[:, :1], values[other][:, 1:]], 1)
            values.append(y)
        return values[-1]

    module.function = forward
    size = 10.0 ** (pick(3) - 1)
    x = size * torch.randn(1, 2, SIDE, SIDE, generator=draw, dtype=torch.float64)
    return module, x, [name for name, _ in made]


def attacked(seed: int) -> dict[str, Any]:
    """The upper end of a module, and the largest slope found near its example and far from it."""
    torch.set_num_threads(1)
    module, x, names = random_module(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = kr.describe(module, x)
    slopes = [net.largest_slope or 0.0]
    for factor in (1.0, 100.0):
        # One input at a time: some parts have statistics of a batch.
        slopes += [steepest(module, factor * x, restarts=1, steps=60)]
    return {"seed": seed, "parts": names, "upper": net.lipschitz(), "lower": max(slopes)}


def main() -> None:
    """Attack, print, and keep."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--modules", type=int, default=300)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    cases: list[dict[str, Any]] = []
    seeds = range(given.first, given.first + given.modules)
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for case in pool.map(attacked, seeds):
            cases.append(case)
            mark = "UNSOUND" if case["lower"] > case["upper"] * (1 + _SLACK) else ""
            ends = f"{case['upper']:10.4g} {case['lower']:10.4g}"
            print(f"{case['seed']:4} {ends} {mark} {case['parts']}", flush=True)
    unsound = [case["seed"] for case in cases if case["lower"] > case["upper"] * (1 + _SLACK)]
    result = {"modules": len(cases), "unsound": unsound, "cases": cases}
    print(f"unsound: {unsound}")
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
