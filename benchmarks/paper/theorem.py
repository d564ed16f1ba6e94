"""The theorem on small networks: does the error stay within the bounds of the layers' errors?

    python -m benchmarks.paper.theorem --json benchmarks/results/theorem.json [--only KIND ...]
    python -m benchmarks.paper.theorem --tables > benchmarks/results/theorem.txt

A true network of every kind is known, so that the error of each learned layer can be measured at
the inputs that a trained network hands it. Four tests, the later the harder: networks trained
towards the true one, the same before training, the true network with one learned part changed, and
that part moved by gradients of error / composed bound, which would have to exceed 1 for the theorem
to fail. Parts at whose change the bound is the error itself (nothing stands behind them) are left
out of the last test. In AMPLIFYING known operators have norms above 1, and KNOWN are weights in
front of a known operator of another field. The second command prints the tables of
docs/explanation/theory.md.
"""

import argparse
import copy
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

import torch
from torch import Tensor, nn

import korisk as kr
from benchmarks.markdown import header, line
from korisk.errors import KoriskWarning
from korisk.fitting import Recipe, train
from korisk.networks import zoo
from korisk.networks.amplification import learned_parts, title_of
from korisk.networks.describe.marks import mark_learned, mark_of
from korisk.networks.known_operator import free_name
from korisk.operators import Convolution, Diagonal, LinearOperator, Tikhonov, gaussian_kernel
from korisk.problems import CtProblem, CtScanner, Motion, MriProblem, PdeProblem
from korisk.store.usage import machine
from korisk.theory import BOUNDS, BoundForm, Learned, Network, deep_risk

RESULTS = Path(__file__).parents[1] / "results" / "theorem.json"
SCANNER = CtScanner(side=8, views=12, bins=12, beam="parallel")
GRAPHS = (*zoo.KINDS, "dense-skips", "unrolled")
AMPLIFYING = ("backprojection", "inverse blurs", "inverse blurs, skip")
KNOWN = {
    "advection and diffusion": PdeProblem(points=16),
    "MRI": MriProblem(side=8, lines=5),
    "motion": CtProblem(
        scanner=CtScanner(side=8, views=12, bins=12, beam="parallel", motion=Motion(turn=5))
    ),
}
TRAINED, BEFORE, ONE, SOUGHT = "trained", "untrained, near", "one part changed", "sought"
AT_BOUND = 1.01  # bound over error up to which nothing is tested: the last layer alone errs
ROUNDING = 1e-4  # errors are measured in single precision, as differences of larger numbers
SEEDS, SIZES, TEST = (1, 2), (16, 128), 128
NEAR = 0.3  # the share of itself by which a weight is changed
RECIPE = Recipe(optimiser="adam", rate=3e-3, steps=300, batch=16)
STEPS, RATE, INPUTS = 300, 0.02, 64  # of the search; the rate is relative to a part's weights
PASSES, LEVELS = 3, 2  # of unrolled schemes and of U-Nets


# --- True networks -------------------------------------------------------------------------------


class DenseSkips(nn.Module):
    """A known inverse, then convolutions of which each takes all images before it."""

    def __init__(self, inverse: nn.Module, width: int, draws: torch.Generator) -> None:
        super().__init__()
        self.inverse = inverse
        self.convolutions = nn.ModuleList(
            nn.Conv2d(1 + index * width, width if index < 3 else 1, 3, padding=1)
            for index in range(4)
        )
        drawn_anew(self.parameters(), draws, entries=100)

    def forward(self, y: Tensor) -> Tensor:
        """Images of what was measured."""
        images = self.inverse(y).unsqueeze(1)
        for index, convolution in enumerate(self.convolutions):
            output = convolution(images)
            images = torch.cat([images, torch.relu(output)], 1) if index < 3 else output
        return cast(Tensor, images.squeeze(1))


class Unrolled(nn.Module):
    """Gradient descent on ||A x - y||^2 / 2 with one residual CNN behind every step."""

    def __init__(self, operator: LinearOperator, width: int, draws: torch.Generator) -> None:
        super().__init__()
        # With a norm of 1 at most, gradient steps of length 1 descend.
        self.scale = 1 / operator.norm().upper
        self.operator = operator * self.scale
        self.adjoint = self.operator.T
        self.net = zoo.Cnn(1, 3, width=width, generator=draws)
        mark_learned(self.net.stack)

    def forward(self, y: Tensor) -> Tensor:
        """Images of what was measured."""
        data = y * self.scale
        x = self.adjoint(data)
        for _ in range(PASSES):
            x = x - self.adjoint(self.operator(x) - data)
            x = self.net(x.unsqueeze(1)).squeeze(1)
        return cast(Tensor, x)


class Backprojection(nn.Module):
    """Weights in front of A^T, whose norm is above 1, and a ReLU."""

    def __init__(self, adjoint: LinearOperator, draws: torch.Generator) -> None:
        super().__init__()
        drawn = 1 + 0.2 * torch.randn(adjoint.domain, generator=draws)
        self.weights, self.adjoint = Diagonal(drawn, name="W", trainable=True), adjoint

    def forward(self, y: Tensor) -> Tensor:
        """Sinograms to images."""
        return torch.relu(self.adjoint(self.weights(y)))


class InverseBlurs(nn.Module):
    """Convolutions, with a known inverse blur behind each; with a skip around the second."""

    def __init__(
        self, known: LinearOperator, width: int, draws: torch.Generator, *, skip: bool
    ) -> None:
        super().__init__()
        self.known, self.skip = known, skip
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.second = nn.Conv2d(width, 1, 3, padding=1)
        drawn_anew(self.parameters(), draws, scale=0.8)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        sharp = torch.relu(self.known(self.first(x[:, None])))
        image = self.second(sharp)[:, 0]
        return cast(Tensor, self.known(image + sharp.mean(1) if self.skip else image))


@torch.no_grad()
def drawn_anew(
    parameters: Iterator[nn.Parameter],
    draws: torch.Generator,
    *,
    scale: float = 1.0,
    entries: int = 36,
) -> None:
    """Normal weights of a size that keeps the energy of images, biases too."""
    for weights in parameters:
        drawn = torch.randn(weights.shape, generator=draws)
        weights.copy_(scale * drawn / math.sqrt(max(weights[0].numel(), entries)))


@dataclass(frozen=True)
class Kind:
    """A kind of network, of which one is true."""

    name: str
    scanner: CtScanner = SCANNER
    width: int = 4

    def built(self, seed: int) -> nn.Module:
        """One with random weights, of a kind in GRAPHS."""
        first, tail = self.scanner.reconstruction("cpu", torch.float32)
        inverse = [Diagonal(first, name="W"), *tail]
        operator = self.scanner.projector("cpu", torch.float32)
        draws = torch.Generator().manual_seed(seed)
        if self.name == "dense-skips":
            return DenseSkips(nn.Sequential(*inverse), self.width, draws)
        if self.name == "unrolled":
            return Unrolled(operator, self.width, draws)
        size = {"width": self.width, "levels": LEVELS, "passes": PASSES}
        network = zoo.build(self.name, operator, inverse, **size, seed=seed)
        if isinstance(network, zoo.PrimalDual):
            for block in (*network.duals, *network.primals):
                mark_learned(block)
        return network

    def truth(self) -> nn.Module:
        """The true network; every part of it has a say, where zoo networks start close to none."""
        draws = torch.Generator().manual_seed(0)
        if self.name in KNOWN:
            weights, tail = KNOWN[self.name].reconstruction()
            return nn.Sequential(Diagonal(weights, name="W", trainable=True), *tail, nn.ReLU())
        if self.name == AMPLIFYING[0]:
            return Backprojection(self.scanner.projector("cpu", torch.float32).T, draws)
        if self.name in AMPLIFYING:
            blur = Convolution((8, 8), gaussian_kernel(1.0), dtype=torch.float32)
            skip = self.name == AMPLIFYING[2]
            return InverseBlurs(Tikhonov(blur, 1e-2), self.width, draws, skip=skip)
        network = self.built(0)
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                drawn_anew(module.parameters(recurse=False), draws, scale=0.8)
            else:
                changed(module.parameters(recurse=False), draws, share=0.2)
        return network.requires_grad_(True)

    def start(self, seed: int, near: float | None = None) -> nn.Module:
        """Where training starts: at random, or near the true weights."""
        if near is None:
            return self.built(1 + seed)
        draws = torch.Generator().manual_seed(1 + seed)
        network = self.truth()
        changed(network.parameters(), draws, share=near)
        return network

    def inputs(self, seed: int, train: int, test: int) -> tuple[Tensor, Tensor]:
        """Inputs for training, and those of the test set, which no seed changes."""
        problem = KNOWN.get(self.name, CtProblem(scanner=self.scanner))
        pools = problem.pools(seed=seed, train=train, validation=0, test=test)
        if self.name not in AMPLIFYING[1:]:
            dtype = next(self.truth().parameters()).dtype
            return pools.train.inputs.to(dtype), pools.test.inputs.to(dtype)
        known = self.scanner.reconstruction("cpu", torch.float32).tail[-1]
        images = torch.relu(known(pools.test.inputs.float()))
        return images[:0], images / images.max()


@torch.no_grad()
def changed(parameters: Iterator[nn.Parameter], draws: torch.Generator, *, share: float) -> None:
    """Change weights by normal shares of themselves."""
    for weights in parameters:
        weights.mul_(1 + share * torch.randn(weights.shape, generator=draws).to(weights))


# --- The check -----------------------------------------------------------------------------------


def layer_errors(truth: nn.Module, trained: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """E||e_l||^2 of every call of a learned part, at the inputs that the trained network gives it.

    The last entry, "output", is the error of the network.
    """
    true_parts, errors, handles = learned_parts(truth), dict[str, Tensor](), []

    def measure(path: str, _: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
        name = free_name(title_of(path, true_parts[path]), set(errors))
        errors[name] = mean_square(true_parts[path](*given) - output)

    for path, part in learned_parts(trained).items():
        handles.append(part.register_forward_hook(partial(measure, path)))
    errors["output"] = mean_square(truth(inputs) - trained(inputs))
    for handle in handles:
        handle.remove()
    return errors


def graph_network(truth: nn.Module, example: Tensor) -> Network:
    """A module as a `Network` in which every learned part is one layer."""
    marked = copy.deepcopy(truth)
    for path, layer in learned_parts(marked).items():
        mark, title = mark_of(layer), title_of(path, layer)
        if isinstance(mark, Learned):
            mark_learned(layer, name=title, lipschitz=mark.lipschitz, parameters=mark.parameters)
        else:
            mark_learned(layer, name=title)
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore", KoriskWarning)  # of weights that layers share
        return kr.describe(marked, example)


def mean_square(errors: Tensor) -> Tensor:
    """E||e||^2: the mean over samples of the sum over entries."""
    return errors.to(torch.float64).square().flatten(1).sum(1).mean()


@torch.no_grad()
def graph_errors(truth: nn.Module, trained: nn.Module, inputs: Tensor) -> dict[str, float]:
    """The errors of the layers as numbers, without that of the network."""
    errors = layer_errors(truth, trained, inputs)
    return {name: float(error) for name, error in errors.items() if name != "output"}


@torch.no_grad()
def judged(
    truth: nn.Module, trained: nn.Module, inputs: Tensor, described: Network
) -> dict[str, Any]:
    """The error of a network, the bounds on it, and whether it is within all of them."""
    error = float(mean_square(truth(inputs) - trained(inputs)))
    errors = graph_errors(truth, trained, inputs)
    bounds = {form: deep_risk(described, errors, bound=form).total for form in BOUNDS}
    holds = error <= (1 + ROUNDING) * min(bounds.values())
    return {"holds": holds, "error": error, "bounds": bounds}


def composed(described: Network, errors: dict[str, Tensor]) -> Tensor:
    """The composed bound of Eq. (eq:minkowski): (sum_l sqrt(A_l E|e_l|^2))^2, with gradients."""
    factors = dict(zip(described.names, described.amplification("composed"), strict=True))
    # Where nothing errs the root has no slope.
    terms = [
        (factors[name] * error).sqrt()
        for name, error in errors.items()
        if name != "output" and float(error.detach()) > 0
    ]
    return torch.stack(terms).sum().square()


def trainings(kind: Kind) -> Iterator[dict[str, Any]]:
    """Networks of one shape, before and after training towards the true one."""
    truth = kind.truth()
    test = kind.inputs(1, 0, TEST)[1]
    described = graph_network(truth, test[:1])
    for start, near in (("random", None), ("near", NEAR)):
        for seed in SEEDS:
            if near is not None:
                before = judged(truth, kind.start(seed, near), test, described)
                yield {"test": BEFORE, "start": start, "n": 0, "seed": seed} | before
            for n in SIZES:
                network = kind.start(seed, near).requires_grad_(True)
                inputs = kind.inputs(seed, n, 0)[0]
                generator = torch.Generator().manual_seed(seed)
                train(network, inputs, truth(inputs).detach(), RECIPE, generator=generator)
                after = judged(truth, network, test, described)
                yield {"test": TRAINED, "start": start, "n": n, "seed": seed} | after


def one_part(kind: Kind) -> Iterator[dict[str, Any]]:
    """The true network with one learned part changed: as drawn, and as gradients make it worse."""
    truth, inputs = kind.truth(), kind.inputs(1, 0, INPUTS)[1]
    described = graph_network(truth, inputs[:1])
    for seed in SEEDS:
        for path in learned_parts(truth):
            network = copy.deepcopy(truth)
            part = network.get_submodule(path)
            changed(part.parameters(), torch.Generator().manual_seed(seed), share=NEAR)
            row = judged(truth, network, inputs, described)
            before = row["bounds"]["composed"] / row["error"]
            yield {"test": ONE, "part": path, "seed": seed} | row
            if before <= AT_BOUND:
                continue  # nothing stands behind the part
            # Each weight moves by a share of the part's typical weight.
            sizes = [float(w.detach().square().mean().sqrt()) for w in part.parameters()]
            groups = [
                {"params": [weights], "lr": RATE * max(size, 1e-3)}
                for weights, size in zip(part.parameters(), sizes, strict=True)
            ]
            adam = torch.optim.Adam(groups)
            lowest, closest = before, copy.deepcopy(part.state_dict())
            for _ in range(STEPS):
                errors = layer_errors(truth, network, inputs)
                ratio = composed(described, errors) / errors["output"]
                if float(ratio.detach()) < lowest:
                    lowest, closest = float(ratio.detach()), copy.deepcopy(part.state_dict())
                adam.zero_grad()
                ratio.log().backward()  # type: ignore[no-untyped-call]
                adam.step()
            part.load_state_dict(closest)
            row = judged(truth, network, inputs, described)
            yield {"test": SOUGHT, "part": path, "seed": seed, "before": before} | row


# --- Results -------------------------------------------------------------------------------------


def tables(networks: list[dict[str, Any]]) -> Iterator[str]:
    """For each kind, in how many it held, and composed bound / error in each test."""
    tests = TRAINED, BEFORE, ONE, SOUGHT
    yield from header("network", "held", *tests, "paper's bound, trained")
    for kind in dict.fromkeys(row["network"] for row in networks):
        rows = [row for row in networks if row["network"] == kind]
        of_test = {test: [row for row in rows if row["test"] == test] for test in tests}
        cells = [spread(of_test[test], "composed") for test in tests]
        held = f"{sum(row['holds'] for row in rows)} of {len(rows)}"
        yield line(kind, held, *cells, spread(of_test[TRAINED], "paper"))


def spread(rows: list[dict[str, Any]], form: BoundForm) -> str:
    """Bound over error: the median and the least."""
    loose = [row["bounds"][form] / row["error"] for row in rows]
    return f"{median(loose):.2g} ({min(loose):.3g})" if loose else "-"


def main() -> None:
    """Check and keep, or print what was kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to keep the outcome")
    parser.add_argument("--tables", action="store_true", help="print the table of what was kept")
    parser.add_argument("--only", nargs="*", default=(*AMPLIFYING, *KNOWN, *GRAPHS))
    options = parser.parse_args()
    if options.tables:
        print("\n".join(tables(json.loads(RESULTS.read_text())["networks"])))
        return
    content: dict[str, Any] = {"machine": dict(machine()), "networks": []}
    for name in options.only:
        kind = Kind(name)
        for rows in (trainings(kind) if name in GRAPHS else (), one_part(kind)):
            for row in rows:
                content["networks"].append({"network": name} | row)
                ratio = row["bounds"]["composed"] / row["error"]
                print(name, row["test"], row["holds"], f"{ratio:.4g}", flush=True)
                if options.json is not None:  # at once: a slow one may be stopped
                    options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
