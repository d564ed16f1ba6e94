"""Tests of claims of the paper that no other command makes; `benchmarks/paper/claims.py` runs them.

Each function measures one thing and returns plain values with the spread over seeds; `MEASURES`
names them. Those in `LARGE` run on the device that is asked for: a GPU, at the paper's sizes.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.stats
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from korisk.fitting.gradient.recipe import Recipe, draw_batches
from korisk.fitting.gradient.train import train
from korisk.fitting.ridge.diagonal import DiagonalRidge
from korisk.networks import KnownOperatorNet
from korisk.networks.describe.describe import describe
from korisk.operators import Composed, LinearOperator, Projector, Tikhonov, fbp
from korisk.operators.ct.geometry import ParallelBeam
from korisk.paper.reproduction import studies
from korisk.problems import CtProblem, CtScanner, measure
from korisk.problems.pde import random_gains
from korisk.studies.run import cells
from korisk.studies.spec.study import Study
from korisk.theory import (
    Learned,
    Network,
    RiskLine,
    barron_bound,
    deep_risk,
    structural_factor,
    two_factors,
)
from korisk.theory.amplification import paper_amplification

Content = dict[str, Any]

SIDES = (8, 16, 32, 128, 256, 512)
SHOWN = (4, 64, 2048)  # N of the reconstructions that are kept
SMALL = CtScanner(side=8, views=12, bins=12, beam="parallel")  # of networks W, A^T K, S


# --- Operators -----------------------------------------------------------------------------------


def _scanners(side: int) -> dict[str, CtScanner]:
    """The geometries that the paper's formula can be read with, by name."""
    size = CtScanner.of_paper(side)
    parallel = CtScanner(side=side, views=size.views, bins=size.bins, beam="parallel")
    found = {"parallel": parallel}
    if side > 32:
        found |= {"fan": CtScanner.of_paper(side), "released": CtScanner.released(side)}
    return found


def norms(device: str, sides: tuple[int, ...] = SIDES) -> Content:
    """Brackets of ||K||, ||A^T||, ||A^T K|| at the paper's geometries, and the time they take."""
    found = []
    for side in sides:
        for name, scanner in _scanners(side).items():
            start = time.perf_counter()
            K, back = scanner.reconstruction(device).tail
            brackets = {"K": K.norm(), "A^T": back.norm(), "A^T K": (back @ K).norm()}
            seconds = time.perf_counter() - start
            ends = {key: [each.lower, each.upper] for key, each in brackets.items()}
            structural = [
                structural_factor(H=side, filter_norm=ends["K"][at], backprojection_norm=norm)
                for at, norm in ((1, ends["A^T"][1]), (0, ends["A^T"][0]))
            ]
            found.append(
                {"side": side, "beam": name, "norms": ends, "structural": structural}
                | {"seconds": seconds}
            )
    return {"device": _device_name(device), "geometries": found}


def sparsity(device: str, sides: tuple[int, ...] = SIDES) -> Content:
    """The share of entries of A^T that are not zero: 64 pixels, and all rays that see them."""
    shares = {}
    for side in sides:
        scanner = CtScanner.of_paper(side)
        projector = scanner.projector(device)
        rng = np.random.default_rng(0)
        pixels = rng.choice(side**2, size=min(64, side**2), replace=False)
        spikes = torch.zeros(len(pixels), side**2, dtype=projector.dtype, device=projector.device)
        spikes[np.arange(len(pixels)), pixels] = 1
        seen = projector(spikes.reshape(-1, side, side)) != 0
        shares[str(side)] = float(seen.double().mean())
    return {"share": shares}


def conditioning(device: str) -> Content:
    """Condition of A^T A + 0.1 I at the three CPU scales."""
    found = {}
    for side in (8, 16, 32):
        matrix = CtScanner.released(side).projector("cpu").as_matrix().double()
        values = torch.linalg.eigvalsh(matrix.T @ matrix)
        found[str(side)] = float((values[-1] + 0.1) / (values[0].clamp(min=0) + 0.1))
    return {"condition": found}


def gradients(device: str) -> Content:
    """Autograd through known operators, against transposed matrices and finite differences."""
    scan = ParallelBeam(16, views=20, bins=16)
    layers = fbp(scan, dtype=torch.float64)
    projector = Projector(scan, dtype=torch.float64)
    operators: dict[str, LinearOperator] = {
        "W": layers["W"],
        "K": layers["K"],
        "A^T": layers["A^T"],
        "A": projector,
        "A^+": Tikhonov(projector, mu=0.1),
    }
    generator = torch.Generator().manual_seed(0)

    def draw(shape: Any) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    adjoint = {}
    for name, operator in operators.items():
        x, v = draw(operator.domain).requires_grad_(), draw(operator.range)
        (back,) = torch.autograd.grad(operator(x), x, v)
        matrix = operator.as_matrix()  # from the forward map alone
        adjoint[name] = float((back.flatten() - matrix.T @ v.flatten()).norm() / back.norm())
    network = KnownOperatorNet.from_fbp(layers)
    x, step = draw(layers.domain), 1e-5
    slopes = []
    for _ in range(20):
        loss = network(x).square().sum()
        (gradient,) = torch.autograd.grad(loss, network.weights)
        direction = draw(layers.domain)
        ends = []
        for sign in (1, -1):
            moved = network.weights.detach() + sign * step * direction
            ends.append(float(Composed(list(layers)[1:])(moved * x).relu().square().sum()))
        exact = float((gradient * direction).sum())
        slopes.append(abs((ends[0] - ends[1]) / (2 * step) - exact) / abs(exact))
    return {"adjoint": adjoint, "differences": max(slopes)}


def attention(device: str) -> Content:
    """Slope of softmax attention at tokens 0, r, -r: it grows with r."""
    slopes = {}
    for radius in (1, 2, 4, 8, 16, 32, 64, 128):
        tokens = torch.tensor([[0.0], [radius], [-radius]], dtype=torch.float64)

        def attend(x: Tensor) -> Tensor:
            return torch.softmax(x @ x.T, dim=1) @ x

        jacobian = torch.func.jacrev(attend)(tokens).reshape(3, 3)
        slopes[str(radius)] = float(torch.linalg.matrix_norm(jacobian, 2))
    return {"slope": slopes}


# --- The proof, network by network ---------------------------------------------------------------


def proof(device: str) -> Content:
    """The steps of the proof on trained networks W, A^T K, S: residuals, and left over right."""
    ratios: dict[str, list[float]] = {"pointwise": [], "recursion": [], "maximum": []}
    identity = 0.0
    reduced: dict[str, list[float]] = {"maximum": [], "risk": []}
    truth = _true_network(device)
    constants = _described(truth)
    bounds = np.array([layer.bracket.upper for layer in constants.layers])
    for network, test in _trained(truth, seeds=range(1, 7), sizes=(16, 128)):
        chain = _chain(truth, network, test)
        tails = np.append(np.cumprod(bounds[:0:-1])[::-1], 1.0)  # behind each layer
        factors = paper_amplification(tails)
        errors = {"W": chain["e_W"], "S": chain["e_S"]}
        at = {name: constants.names.index(name) for name in errors}
        square = sum(factors[at[name]] * each.square() for name, each in errors.items())
        root = sum(tails[at[name]] * each for name, each in errors.items())
        ratios["pointwise"].append(float((chain["error"].square() / square).max()))
        ratios["recursion"].append(float((chain["error"] / root).max()))
        most = {name: float(each.max()) for name, each in errors.items()}
        bound_2019 = sum(tails[at[name]] * each for name, each in most.items())
        ratios["maximum"].append(float(chain["error"].max()) / bound_2019)
        reduced["maximum"].append(tails[at["S"]] * most["S"] / bound_2019)
        risks = {name: float(each.square().mean()) for name, each in errors.items()}
        whole, without = (
            deep_risk(constants, each, bound="paper").total for each in (risks, risks | {"W": 0.0})
        )
        reduced["risk"].append(without / whole)
        identity = max(identity, float(chain["identity"]))
    return {
        "networks": len(ratios["maximum"]),
        "left over right": {name: _spread(each) for name, each in ratios.items()},
        "identity": identity,
        "with W known over without": {name: _spread(each) for name, each in reduced.items()},
    }


def independence(device: str) -> Content:
    """Are layer errors of converged networks identically distributed, and independent?

    Test images of two halves, of one network and of networks from two training sets, compared by
    Kolmogorov and Smirnov.
    """
    same: list[float] = []
    other: list[float] = []
    inputs: list[float] = []
    truth = _true_network(device)
    made = [
        _chain(truth, *each)
        for each in _trained(truth, seeds=range(1, 13), sizes=(128,), test=512, steps=2000)
    ]
    half = len(made[0]["e_S"]) // 2
    for at, chain in enumerate(made):
        next_one = made[(at + 1) % len(made)]
        for name in ("e_W", "e_S"):
            first = chain[name][:half]
            same.append(scipy.stats.ks_2samp(first, chain[name][half:]).pvalue)
            other.append(scipy.stats.ks_2samp(first, next_one[name][half:]).pvalue)
        inputs.append(
            scipy.stats.ks_2samp(chain["input_S"][:half], next_one["input_S"][half:]).pvalue
        )

    def rejected(values: list[float]) -> Content:
        count = sum(value < 0.05 for value in values)
        low, high = scipy.stats.binomtest(count, len(values)).proportion_ci(0.95)
        return {"value": count / len(values), "low": float(low), "high": float(high)}

    return {
        "networks": len(made),
        "same network": rejected(same),
        "other training set": rejected(other),
        "inputs of S, other training set": rejected(inputs),
    }


class RefinedNet(nn.Module):
    """S(B W x), W diagonal, B the tail, S two convolutions of 3 x 3 with a ReLU between them.

    S starts as the identity on images >= 0 in its first channel, with normal kernels of standard
    deviation `spread` added to all of them.
    """

    def __init__(
        self,
        weights: Tensor,
        tail: Sequence[LinearOperator],
        *,
        channels: int,
        generator: torch.Generator,
        spread: float = 0.1,
    ) -> None:
        super().__init__()
        self.front = KnownOperatorNet(weights, tail, relu=False)
        operator = self.front.linear_tail
        ends = (1, channels), (channels, 1)
        first, last = (nn.Conv2d(*counts, 3, padding="same") for counts in ends)
        self.refinement = nn.Sequential(first, nn.ReLU(), last).to(operator.device, operator.dtype)
        with torch.no_grad():
            for convolution in (first, last):
                drawn = spread * torch.randn(convolution.weight.shape, generator=generator)
                convolution.weight.copy_(drawn)
                convolution.weight[0, 0, 1, 1] += 1
                assert convolution.bias is not None
                convolution.bias.zero_()

    @property
    def weights(self) -> nn.Parameter:
        """W, of the shape of an input."""
        return self.front.weights

    def forward(self, x: Tensor) -> Tensor:
        """S(B W x)."""
        return self.refine(self.front(x))

    def refine(self, images: Tensor) -> Tensor:
        """S alone, (..., rows, columns)."""
        refined: Tensor = self.refinement(images.reshape(-1, 1, *images.shape[-2:]))
        return refined.reshape(images.shape)


def _true_network(device: str) -> RefinedNet:
    """S(A^T K W x) with analytic weights behind detectors of unknown gain, and random S."""
    weights, tail = SMALL.reconstruction(device)
    weights = weights * torch.from_numpy(random_gains(0.3, SMALL.bins)).to(weights)
    generator = torch.Generator().manual_seed(0)
    network = RefinedNet(weights, tail, channels=2, generator=generator, spread=0.2)
    return network.requires_grad_(False)


def _described(truth: RefinedNet) -> Network:
    """The true network as the theory takes it."""
    example = torch.zeros(1, 1, *truth.front.range, dtype=truth.weights.dtype)
    upper = describe(copy.deepcopy(truth.refinement).cpu(), example).lipschitz()
    return Network([*truth.front.describe(), Learned("S", lipschitz=upper)])


def _trained(
    truth: RefinedNet, *, seeds: Any, sizes: tuple[int, ...], test: int = 256, steps: int = 600
) -> Iterator[tuple[RefinedNet, Tensor]]:
    """Networks trained towards the true one, each with the test inputs."""
    device = truth.weights.device
    recipe = Recipe(optimiser="adam", rate=0.01, steps=steps, batch=16)
    for seed in seeds:
        problem = CtProblem(scanner=SMALL)
        pools = problem.pools(seed=seed, train=sizes[-1], validation=1, test=test, device=device)
        dtype = truth.weights.dtype
        inputs, held_out = (pool.inputs.to(dtype) for pool in (pools.train, pools.test))
        for n in sizes:
            generator = torch.Generator().manual_seed(seed)
            weights, tail = SMALL.reconstruction(device)
            network = RefinedNet(weights, tail, channels=4, generator=generator)
            indices = draw_batches(n, recipe.batch, recipe.steps, generator)
            train(network, inputs[:n], truth(inputs[:n]), recipe, indices=indices)
            lit = held_out.flatten(1).any(1)  # a blank image has no error of W
            yield network.requires_grad_(False), held_out[lit]


@torch.no_grad()
def _chain(truth: RefinedNet, network: RefinedNet, inputs: Tensor) -> dict[str, Tensor]:
    """Errors of the layers and of the network, image by image, and Eq. (eq:recid)'s residual."""
    true, made = truth.weights * inputs, network.weights * inputs
    scale = (made * made).double().sum() / (true * made).double().sum()  # W / c, S(c z): the same
    images = network.front(inputs) / scale

    def size(values: Tensor) -> Tensor:
        return values.double().flatten(1).square().sum(1).sqrt().cpu()

    propagated = truth.refine(truth.front(inputs)) - truth.refine(images)
    own = truth.refine(images) - network(inputs)
    whole = truth(inputs) - network(inputs)
    residual = size(whole - propagated - own).max() / size(whole).max()
    return {
        "e_W": size(true - made / scale),
        "e_S": size(own),
        "input_S": size(images),
        "error": size(whole),
        "identity": residual,
    }


def identities(device: str) -> Content:
    """Equations of the paper at random numbers: the largest relative difference of both sides."""
    rng = np.random.default_rng(0)
    differs: dict[str, float] = {}

    def compared(name: str, one: float, other: float) -> None:
        differs[name] = max(differs.get(name, 0.0), abs(one / other - 1))

    for layers in range(1, 13):
        lipschitz = rng.lognormal(size=layers)
        tails = np.append(np.cumprod(lipschitz[:0:-1])[::-1], 1.0)
        recursion = [1.0]  # Eq. (eq:ind-step): each layer doubles what was there, and adds its own
        for constant in lipschitz[1:]:
            recursion = [2 * constant**2 * each for each in recursion] + [2.0]
        for one, other in zip(recursion, paper_amplification(tails), strict=True):
            compared("amplification", one, other)
    found = KnownOperatorNet.from_fbp(fbp(ParallelBeam(8, views=10, bins=8))).describe()
    _, K, back, _ = (layer.bracket.upper for layer in found.layers)
    factors = paper_amplification(np.array([K * back, back, 1.0, 1.0]))
    printed = (8 * K**2 * back**2, 8 * back**2, 4.0, 2.0)
    for one, other in zip(factors, printed, strict=True):
        compared("CT", one, other)
    parameters = 64 * 80, 80  # of FC and of KO
    slopes = 2.0 * parameters[0] / (factors[0] * parameters[1])
    compared(
        "structural", structural_factor(H=8, filter_norm=K, backprojection_norm=back), float(slopes)
    )
    compared("dense", float(paper_amplification(np.array([1.0, 1.0]))[0]), 2.0)
    squares = [
        float(np.sum((a + b) ** 2) / (2 * np.sum(a**2) + 2 * np.sum(b**2)))
        for a, b in rng.normal(size=(1000, 2, 8))
    ]
    below, exact, ordered = 0, 0, 0
    for _ in range(200):
        lines = [RiskLine(*(10 ** rng.uniform(-4, -1, 2))) for _ in range(2)]
        target = max(line.floor for line in lines) * (1 + rng.lognormal())
        factors_of = two_factors(lines[0], lines[1], target)
        needed = [line.slope / (target - line.floor) for line in lines]  # N / log N
        product = factors_of.structural * factors_of.approximation_budget
        compared("two factors", product, needed[1] / needed[0])
        higher = max(line.floor for line in lines)
        equal = [RiskLine(higher, line.slope) for line in lines]
        nearer = two_factors(lines[0], lines[1], (target + higher) / 2).approximation_budget
        above = lines[1].floor > lines[0].floor
        budget = factors_of.approximation_budget
        same = abs(two_factors(equal[0], equal[1], target).approximation_budget - 1) < 1e-12
        ordered += same and (budget > 1) == above and (nearer > budget) == above
        n = lines[0].samples(target)
        below += lines[0].predict(n) <= target
        exact += n == 2 or lines[0].predict(n - 1) > target
    net = Network(
        [
            Learned("first", parameters=10, C=1.0, kappa=0.5, lipschitz=1.3),
            Learned("second", parameters=20, C=2.0, kappa=0.2, lipschitz=0.7),
        ]
    )
    nets = (net, net.replace("second"))
    whole, without = (barron_bound(each, 100, bound="paper") for each in nets)
    term = 2.0 * (4.0 + 0.2 * 20 * math.log(100) / 100)
    compared("known removes a term", whole.total - without.total, term)
    scanner = CtScanner(side=8, views=10, bins=8, beam="parallel")
    weights, tail = scanner.reconstruction("cpu", torch.float64)
    network = KnownOperatorNet(weights, tail)
    x = torch.from_numpy(rng.normal(size=(4, 10, 8)))
    chain = tail[1](tail[0](weights * x)).relu()
    composed = float((network(x) - chain).detach().norm() / chain.norm())
    steps = torch.from_numpy(rng.normal(size=(2, 10000)))
    slopes = (steps[0].relu() - steps[1].relu()).abs() / (steps[0] - steps[1]).abs()
    return {
        "differs": differs,
        "squared triangle": max(squares),
        "inverted": {"at N": below / 200, "not before": exact / 200},
        "floor factor": ordered / 200,
        "composition": composed,
        "slope of ReLU": float(slopes.max()),
    }


# --- The rate of W -------------------------------------------------------------------------------


def rate(device: str, seeds: int = 24, sides: tuple[int, ...] = (8, 16)) -> Content:
    """E||e_W||^2 over N where W is the truth and targets have noise: means, and their deviations.

    y = A^T K W x + noise, no ReLU, weights by least squares; deviations are relative. `laws` says
    which law fits.
    """
    found = {}
    sizes = [2**power for power in range(6, 14)]
    for side in sides:
        scanner = CtScanner(side=side, views=side + side // 4, bins=side, beam="parallel")
        weights, tail = scanner.reconstruction(device, torch.float64)
        problem = CtProblem(scanner=scanner)
        known = Composed(tail)
        risks: dict[int, list[float]] = {n: [] for n in sizes}
        for seed in range(1, seeds + 1):
            pools = problem.pools(seed=seed, train=sizes[-1], validation=1, test=256, device=device)
            inputs, test = (each.inputs.double() for each in (pools.train, pools.test))
            generator = torch.Generator().manual_seed(seed)
            clean = known(weights * inputs)
            noise = torch.randn(clean.shape, generator=generator, dtype=torch.float64)
            targets = clean + 0.05 * noise.to(clean.device)
            ridge = DiagonalRidge(known, inputs, targets, toward=weights, relu=False)
            for n in sizes:
                training = ridge.training(n)
                fitted = training.fit(penalty=1e-10 * training.scale).weights
                errors = ((fitted - weights) * test).square().flatten(1).sum(1)
                risks[n].append(float(errors.mean()))
        values = np.array(list(risks.values()))
        means, count = values.mean(1), values.shape[1]
        found[str(side)] = {
            "p": math.prod(known.domain),
            "n": [float(n) for n in sizes],
            "mean": means.tolist(),
            "deviation": (values.std(1, ddof=1) / means / math.sqrt(count)).tolist(),
        }
    return {"noise": 0.05, "seeds": seeds, "sides": found}


def laws(n: ArrayLike, means: ArrayLike, deviations: ArrayLike) -> Content:
    """chi^2 of laws for mean risks over N, and the exponent b of c N^-b with its 95% interval."""
    sizes, log, deviation = np.array(n), np.log(means), np.array(deviations)
    shapes = {
        "1 / N": -np.log(sizes),
        "log N / N": np.log(np.log(sizes) / sizes),
        "1 / sqrt(N)": -np.log(sizes) / 2,
    }
    chi = {}
    for name, shape in shapes.items():
        level = np.average(log - shape, weights=deviation**-2)
        chi[name] = float((((log - shape - level) / deviation) ** 2).sum())
    design = np.stack([np.ones_like(sizes), -np.log(sizes)], axis=1) / deviation[:, None]
    covariance = np.linalg.inv(design.T @ design)
    _, exponent = covariance @ design.T @ (log / deviation)
    half = 1.96 * math.sqrt(covariance[1, 1])
    found = {"value": float(exponent), "low": exponent - half, "high": exponent + half}
    return {"exponent": found, "chi2": chi}


# --- Reconstructions and times -------------------------------------------------------------------


def images(device: str, sides: tuple[int, ...] = (128, 256)) -> Content:
    """Every metric of the paper's two large sweeps, with the sharpness of edges, and the times."""
    rows, kept = [], {}
    with _edges():
        for study in studies(points=sides, on_gpu=True):
            for task in study.tasks:
                start = time.perf_counter()
                result = cells.run_cell(task, lambda _: None, device=device)
                seconds = time.perf_counter() - start
                side, protocol = task.spec["problem"]["side"], task.spec["protocol"]
                rows += [
                    {"side": side, "protocol": protocol, "seed": task.seed, "model": row.model}
                    | {"n": row.n, "metrics": row.metrics, "cell": seconds}
                    | {"seconds": row.detail.get("seconds")}
                    for row in result.rows
                ]
                if task.seed == 1 and protocol == "released":
                    kept[f"{side}/truth"] = result.arrays["truth"][0]
                    for model in ("KO", "FC"):
                        for n in SHOWN:
                            if f"{model}/{n}/images" in result.arrays:
                                one = result.arrays[f"{model}/{n}/images"][0]
                                kept[f"{side}/{model}/{n}"] = one
    return {"device": _device_name(device), "rows": rows, "arrays": kept}


@contextmanager
def _edges() -> Iterator[None]:
    """Cells that also measure how sharp edges are: 1 as sharp as the target's, below 1 blurred."""

    def measured(predictions: Tensor, targets: Tensor) -> dict[str, float]:
        steps = [
            (torch.diff(each.double(), dim=1)[:, :, 1:], torch.diff(each.double(), dim=2)[:, 1:])
            for each in (predictions, targets)
        ]
        made, true = (torch.stack(each).square().sum(0).sqrt() for each in steps)
        edge = true > 0.1 * targets.flatten(1).amax(1).double()[:, None, None]
        along = sum(one * other for one, other in zip(*steps, strict=True))[edge] / true[edge]
        flat = made[~edge].mean() / true[edge].mean()
        edges = {"sharpness": float(along.mean() / true[edge].mean()), "noise": float(flat)}
        return measure(predictions, targets) | edges

    with patch.object(cells, "measure", measured):
        yield


def optimisers(device: str, sides: tuple[int, ...] = (128,), iterations: int = 5000) -> Content:
    """KO of the released operators, trained by SGD as the text says and by Adagrad as the code."""
    rows = []
    for side in sides:
        for optimiser in ("sgd", "adagrad"):
            recipe = {"fit": "gradient", "optimiser": optimiser, "rate": 0.02, "batch": 4}
            study = Study(
                {
                    "name": "optimisers",
                    "problem": {"beam": "released", "ellipses": [3, 6]},
                    "points": [{"side": side}],
                    "sizes": [4, 2048] if iterations > 100 else [4],
                    "seeds": [1, 2, 3],
                    "models": {"KO": recipe | {"iterations": iterations}},
                    "metric": "rmse_over_max",
                }
            )
            for task in study.tasks:
                rows += [
                    {"side": side, "optimiser": optimiser, "seed": task.seed, "n": row.n}
                    | {"error": row.metrics["rmse_over_max"]}
                    for row in cells.run_cell(task, lambda _: None, device=device).rows
                ]
    return {"device": _device_name(device), "rows": rows}


def protocol(device: str) -> Content:
    """What the released code does at H = 128, as the protocol `released` repeats it."""
    (study,) = studies(points=[128], protocols=["released"], on_gpu=True)
    spec = study.tasks[0].spec
    return {
        "validation": spec["pools"]["validation"],
        "ellipses": spec["problem"]["ellipses"],
        "optimiser": spec["models"]["KO"]["optimiser"],
        "grid": spec["models"]["FC"]["grid"],
    }


# --- What all share ------------------------------------------------------------------------------


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"


def _spread(values: list[float]) -> Content:
    """Mean and range."""
    return {"value": float(np.mean(values)), "low": min(values), "high": max(values)}


MEASURES: dict[str, Callable[..., Content]] = {
    "norms": norms,
    "sparsity": sparsity,
    "conditioning": conditioning,
    "gradients": gradients,
    "attention": attention,
    "identities": identities,
    "proof": proof,
    "independence": independence,
    "rate": rate,
    "protocol": protocol,
    "images": images,
    "optimisers": optimisers,
}
LARGE = ("norms", "sparsity", "rate", "images", "optimisers")
