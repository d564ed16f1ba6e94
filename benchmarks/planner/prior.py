"""Learn the planner's priors from the tuning parts of collections of learning curves.

One prior for each kind of metric: squared errors learn from the imaging networks of
data/imaging.csv, rates from LCDB, losses from the published curves of neural networks; each also
sees simulated power laws with and without floors. A pilot whose metric says nothing gets the
mixture of all kinds, which is trained on everything at once.

What is maximised is the log predictive density of hidden errors, a proper score. Every pilot is
weighed once, under a broad reference prior; any other prior then only changes the weights of the
points that were kept, so that slopes with respect to all of its numbers come from one backward
pass. The same files give the same priors, but for the rounding of a GPU.

    python -m benchmarks.planner.prior [--processes 16] [--steps 60] [--json priors.json]

It prints the priors of korisk/planning/futures/prior.json.
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from benchmarks.planner import curves as curves
from korisk.curves.curve import Curve
from korisk.planning.futures import posterior as module
from korisk.planning.futures.posterior import posterior
from korisk.planning.futures.prior import PLAIN, PRIOR, SHARES, Kind, Prior

Array = NDArray[np.float64]
Work = tuple[int, Curve, Array, Array]  # domain, pilot, hidden N and errors

# Broad: it must leave possible what any prior that is tried makes likely.
REFERENCE = replace(
    PRIOR,
    kinds=(
        Kind(
            weight=1.0,
            rate_median=0.6,
            rate_spread=1.1,
            no_floor=0.3,
            floor_shape=(1.0, 0.7),
            drift_weights=(1.0 / len(PRIOR.drifts),) * len(PRIOR.drifts),
            shift_weights=(1.0,) * len(PRIOR.shifts),
            cap_weights=(1.0,) * len(PRIOR.caps),
        ),
    ),
)
DOMAINS = ("squares", "rates", "losses", "power laws")
# Of every prior's score, the share of simulated power laws. Real curves alone would make a curve
# without a floor as rare as it is among them, and a pilot could then never show one.
SIMULATED = 0.25
START = Kind(
    weight=0.5,
    rate_median=0.6,
    rate_spread=0.6,
    no_floor=0.3,
    floor_shape=(1.5, 1.0),
    drift_weights=(0.02, 0.03, 0.15, 0.3, 0.25, 0.2, 0.05),
    shift_weights=(0.2, 0.06, 0.13, 0.16, 0.06, 0.12),
    cap_weights=(0.045, 0.08, 0.08, 0.045, 0.05, 0.03),
)
STARTS = (START, replace(START, rate_median=1.0, rate_spread=0.3, no_floor=0.1))
HIDDEN = 4  # of a curve's hidden errors, at most
POINTS = 250  # of a pilot that are kept
SHARE = 0.5  # of the pilots, drawn at random; of losses, which are few, all
DOUBT = 0.002  # share of a law as wide as the world: one surprise does not decide
PULL = 0.005  # toward the start: without it a weight could leave the world for a single curve
_LN = float(np.log(0.02)), float(np.log(2.5))  # of the grid of rates


def tuning_curves() -> list[Work]:
    """Domain, pilot, hidden N and errors, of the parts that constants may be chosen on."""
    found: list[Work] = []
    for index, curve in enumerate(c for c in curves.imaging() if c.part == "tune"):
        for first, last in (
            (4, (32, 64, 128, 256)[index % 4]),
            (8, (128, 256, 512, 64)[index % 4]),
        ):
            case = curve.case(first, last, seeds=3 - index % 3 // 2 * 2)
            found.append((0, case.curve, case.hidden_n, case.hidden_error))
    found += [(1, c.curve, c.hidden_n, c.hidden_error) for c in curves.lcdb("tune", 3)]
    for neural in curves.neural("tune"):
        for each in (neural, neural.cut(8)):
            if len(each.curve.sizes) >= 4:
                kept = np.unique(np.linspace(0, len(each.hidden_n) - 1, HIDDEN).astype(int))
                found.append((2, each.curve, each.hidden_n[kept], each.hidden_error[kept]))
    simulated = curves.power_laws("tune", 240)
    found += [(3, c.curve, c.hidden_n, c.hidden_error) for c in simulated]
    drawn = np.random.default_rng(0).random(len(found)) < SHARE
    return [work for work, taken in zip(found, drawn, strict=True) if taken or work[0] == 2]


def weighed(work: Work) -> dict[str, Any]:
    """Weigh one pilot under the reference prior: points, and what each says of hidden errors."""
    domain, curve, n, error = work
    module._KEPT, module._MASS = POINTS, 0.9999
    made = posterior(curve, REFERENCE)
    mean, variance = made.moments(n)
    bent = np.where(
        made.cap > 0,
        len(REFERENCE.shifts) + np.searchsorted(REFERENCE.caps, made.cap - 1e-12),
        np.searchsorted(REFERENCE.shifts, made.shift - 1e-12),
    )
    drift = np.searchsorted(REFERENCE.drifts, made.drift - 1e-12)
    keep = drift < len(REFERENCE.drifts)  # pilots too rough for the prior's drifts get others
    logs = np.log(error)
    wide = np.exp(-0.5 * (logs - np.log(curve.means[-1])) ** 2) / np.sqrt(2 * np.pi)
    return {
        "domain": domain,
        "log_weight": np.where(keep, np.log(made.weight), -50.0),
        "log_rate": np.log(made.rate),
        "floor": made.floor,
        "bent": bent,
        "drift": np.minimum(drift, len(REFERENCE.drifts) - 1),
        "away": logs - mean,
        "variance": variance[:, 0],
        "ahead": np.log2(n / made.last),
        "wide": wide,
    }


@dataclass(frozen=True)
class Numbers:
    """A prior's free numbers, each on the whole line, by name: (kinds, ...)."""

    values: Mapping[str, Tensor]

    @staticmethod
    def of(kinds: Iterable[Kind]) -> "Numbers":
        """Those of some kinds."""
        rows: dict[str, list[list[float]]] = {}
        for kind in kinds:
            own: dict[str, tuple[float, ...]] = {
                "weight": (kind.weight,),
                "rate": (kind.rate_median, kind.rate_spread),
                "none": (kind.no_floor / (1 - kind.no_floor),),
                "shape": kind.floor_shape,
                "drift": kind.drift_weights,
                "bent": (*kind.shift_weights, *kind.cap_weights),
            }
            for name, values in own.items():
                rows.setdefault(name, []).append(np.log(values).tolist())
        return Numbers({name: torch.tensor(values).double() for name, values in rows.items()})

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of these numbers, in two digits."""

        def short(values: Tensor) -> tuple[float, ...]:
            return tuple(float(f"{value:.2g}") for value in values.tolist())

        own, shifts = self.values, len(PRIOR.shifts)
        weights = short(torch.softmax(own["weight"][:, 0], 0))
        made = []
        for k, weight in enumerate(weights):
            rate, spread = short(own["rate"][k].exp())
            first, second = short(own["shape"][k].exp())
            bent = short(_shares(own["bent"][k]))
            none = short(torch.sigmoid(own["none"][k]))[0]
            drift = short(_shares(own["drift"][k]))
            law = (weight, rate, spread, none, (first, second), drift, bent[:shifts], bent[shifts:])
            names = [field.name for field in fields(Kind)]
            made.append(Kind(**dict(zip(names, law, strict=True))))  # type: ignore[arg-type]
        return tuple(made)


def _shares(logits: Tensor) -> Tensor:
    """Weights that add up to one, none below a thousandth."""
    made = torch.softmax(logits, -1).clamp_min(1e-3)
    return made / made.sum(-1, keepdim=True)


class Problem:
    """All pilots in flat arrays, one row for a point and a hidden error, and priors' scores."""

    def __init__(self, found: list[dict[str, Any]]) -> None:
        sizes = np.array([len(each["floor"]) for each in found])
        hidden = np.array([len(each["ahead"]) for each in found])

        def flat(name: str) -> Tensor:
            return torch.as_tensor(np.concatenate([each[name] for each in found]))

        self.domain = torch.tensor([each["domain"] for each in found])
        self.case = torch.as_tensor(np.repeat(np.arange(len(found)), sizes))
        self.log_weight, self.log_rate, self.floor = map(flat, ("log_weight", "log_rate", "floor"))
        self.bent, self.drift = flat("bent"), flat("drift")
        # Pairs stand case by case, hidden error by hidden error, point by point.
        starts = np.r_[0, np.cumsum(sizes)[:-1]]
        spans = zip(starts, sizes, hidden, strict=True)
        rows = [first + np.tile(np.arange(count), asked) for first, count, asked in spans]
        self.point = torch.as_tensor(np.concatenate(rows))
        asked = np.repeat(np.arange(hidden.sum()), np.repeat(sizes, hidden))
        self.asked, self.of_case = (
            torch.as_tensor(asked),
            torch.as_tensor(np.repeat(np.arange(len(found)), hidden)),
        )
        self.away = torch.as_tensor(np.concatenate([e["away"].T.ravel() for e in found]))
        self.ahead = torch.as_tensor(np.concatenate([e["ahead"] for e in found]))[self.asked]
        self.variance, self.wide = flat("variance")[self.point], flat("wide")
        self.tau = torch.tensor(REFERENCE.drifts).double()[self.drift][self.point]
        self.reference = self.log_prior(Numbers.of(REFERENCE.kinds))[:, 0]
        self.plain = self.log_prior(Numbers.of([PLAIN]))

    def log_prior(self, numbers: Numbers) -> Tensor:
        """(points, kinds) log density of each kind at each point, up to a constant."""
        own = numbers.values
        centre, spread = own["rate"][:, 0], own["rate"][:, 1].exp()
        ends = [torch.special.ndtr((end - centre) / spread) for end in _LN]
        inside = ends[1] - ends[0]
        away = (self.log_rate[:, None] - centre) / spread
        rate = -0.5 * away**2 - torch.log(spread * inside.clamp_min(1e-12))
        a, b = own["shape"].exp().T
        there = self.floor > 0
        floor = self.floor.clamp(1e-12, 1 - 1e-12)[:, None]
        some = (a - 1) * torch.log(floor) + (b - 1) * torch.log1p(-floor)
        some = some + torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b)
        none = own["none"][:, 0]
        sign = torch.nn.functional.logsigmoid
        floors = torch.where(there[:, None], sign(-none) + some, sign(none))
        drift = torch.log(_shares(own["drift"])).T[self.drift]
        bent = torch.log(_shares(own["bent"])).T[self.bent]
        weight = torch.log_softmax(own["weight"][:, 0], 0)
        return weight + rate + floors + drift + bent

    def scores(self, log_prior: Tensor, tails: Mapping[str, Tensor]) -> Tensor:
        """(cases,) the mean log predictive density of each pilot's hidden errors."""
        log_weight = self.log_weight + log_prior - self.reference
        count = len(self.domain)
        top = torch.full((count,), -torch.inf).double()
        top = top.scatter_reduce(0, self.case, log_weight.detach(), "amax")
        weight = torch.exp(log_weight - top[self.case])
        total = torch.zeros(count).double().index_add(0, self.case, weight)
        weight = weight / total[self.case]
        drift = self.tau**2 * self.ahead ** tails["growth"].exp()
        stretches = torch.cat([torch.zeros(1).double(), tails["stretch"]]).exp()
        density = torch.zeros(len(self.point)).double()
        for stretch, share in zip(stretches, torch.softmax(tails["share"], 0), strict=True):
            spread = self.variance + stretch**2 * drift
            density = density + share * torch.exp(-0.5 * self.away**2 / spread) / torch.sqrt(spread)
        density = density * weight[self.point] / np.sqrt(2 * np.pi)
        seen = torch.zeros(len(self.wide)).double().index_add(0, self.asked, density)
        logs = torch.log((1 - DOUBT) * seen + DOUBT * self.wide)
        each = torch.zeros(count).double().index_add(0, self.of_case, logs)
        return each / torch.bincount(self.of_case, minlength=count)

    def means(self, scores: Tensor) -> Tensor:
        """(domains,) their mean scores."""
        return torch.stack([scores[self.domain == d].mean() for d in range(len(DOMAINS))])

    def total(self, numbers: list[Numbers], tails: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """(3, domains) the scores of each domain's own prior, and (domains,) of the mixture."""
        laws = [self.log_prior(own) for own in numbers]
        whole = [*laws, torch.cat(laws, 1) - np.log(len(laws))]
        made = []
        for share, law in zip(SHARES.values(), whole, strict=True):
            parts = [law + np.log(1 - share), self.plain + np.log(share)]
            made.append(self.means(self.scores(torch.logsumexp(torch.cat(parts, 1), 1), tails)))
        *alone, mixture = made
        return torch.stack(alone), mixture


def learned(problem: Problem, steps: int) -> dict[str, Prior]:
    """The priors with the largest score, by a quasi-Newton search."""
    starts = [Numbers.of(STARTS) for _ in range(3)]
    tails = {
        "stretch": torch.log(torch.tensor([2.0, 6.0]).double()),
        "share": torch.log(torch.tensor([0.62, 0.26, 0.12]).double()),
        "growth": torch.log(torch.tensor(1.2).double()),
    }
    parts = [(own.values, name) for own in starts for name in own.values]
    parts += [(tails, name) for name in tails]
    begin = torch.cat([where[name].flatten() for where, name in parts])

    def unpacked(values: Tensor) -> tuple[list[Numbers], dict[str, Tensor]]:
        rest = list(torch.split(values, [where[name].numel() for where, name in parts]))
        filled = []
        for own in starts:
            taken = {name: rest.pop(0).view_as(own.values[name]) for name in own.values}
            filled.append(Numbers(taken))
        return filled, {name: rest.pop(0).view_as(tails[name]) for name in tails}

    def loss(values: Array) -> tuple[float, Array]:
        free = torch.as_tensor(values).requires_grad_()
        own, mixture = problem.total(*unpacked(free))
        real = own.diagonal()[:3].sum() + mixture[:3].sum()
        score = (1 - SIMULATED) * real + SIMULATED * (own[:, 3].sum() + 3 * mixture[3])
        value = -score + PULL * (free - begin).square().sum()
        (slope,) = torch.autograd.grad(value, free)
        return float(value.detach()), slope.cpu().numpy()

    ends = [(float(s) - 4.0, float(s) + 4.0) for s in begin]
    for place in (-6, -5):  # stretches, which are no less than one
        ends[place] = 0.0, 3.0
    found = minimize(
        loss,
        begin.cpu().numpy(),
        jac=True,
        method="L-BFGS-B",
        bounds=ends,
        options={"maxiter": steps},
    )
    print(f"loss {found.fun:.4f} after {found.nit} steps", file=sys.stderr)
    with torch.no_grad():
        own, last = unpacked(torch.as_tensor(found.x))
        for label, which in (("start", begin), ("learned", torch.as_tensor(found.x))):
            alone, mixture = problem.total(*unpacked(which))
            rows = [*zip(DOMAINS, alone, strict=False), ("mixture", mixture)]
            for name, scores in rows:
                print(label, name, [f"{score:.4f}" for score in scores.tolist()])
    stretches = torch.cat([torch.zeros(1).double(), last["stretch"]]).exp()
    shares: dict[float, float] = {}  # stretches that are alike are one
    for stretch, share in zip(stretches.tolist(), torch.softmax(last["share"], 0), strict=True):
        rounded = float(f"{stretch:.2g}")
        shares[rounded] = shares.get(rounded, 0.0) + float(share)
    common = replace(
        PRIOR,
        stretches=tuple(shares),
        stretch_weights=tuple(float(f"{share:.2g}") for share in shares.values()),
        growth=float(f"{float(last['growth'].exp()):.2g}"),
    )
    return {
        name: replace(common, kinds=each.kinds()) for name, each in zip(DOMAINS, own, strict=False)
    }


def main(arguments: Iterable[str] | None = None) -> None:
    """Learn the priors and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--steps", type=int, default=60, help="of the search, at most")
    parser.add_argument("--json", help="write the priors there, too")
    options = parser.parse_args(None if arguments is None else list(arguments))
    torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
    work = tuning_curves()
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        problem = Problem(pool.map(weighed, work, chunksize=8))
    counts = torch.bincount(problem.domain).tolist()
    print(f"pilots: {dict(zip(DOMAINS, counts, strict=True))}", file=sys.stderr)
    made = learned(problem, options.steps)
    for name, prior in made.items():
        print(name)
        for kind in prior.kinds:
            print("   ", kind)
        print("   ", prior.stretches, prior.stretch_weights, prior.growth)
    if options.json:
        content = {name: asdict(prior) for name, prior in made.items()}
        Path(options.json).write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
