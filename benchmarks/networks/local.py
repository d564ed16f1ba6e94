"""Constants on balls of inputs beside the slopes that an adversary finds in them.

    python -m benchmarks.networks.local [--workers 12] --json benchmarks/results/local.json
    python -m benchmarks.networks.local --tables benchmarks/results/local.json

Modules of every kind that has no constant on all inputs, or a large one: attention, gates,
recurrent layers, normalisations and products. Balls have 1%, 5% and 20% of the norm of the input at
their center. The search climbs |f(a) - f(b)| / |a - b| over pairs in the ball from several starts,
near and far, then follows the steepest direction of the Jacobian. An upper end below a quotient
would be unsound; so would a range that a value of a random input in the ball leaves.
"""

import argparse
import contextlib
import copy
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import korisk as kr
from benchmarks.markdown import line
from benchmarks.networks.describe import Of, resnet, small, train
from korisk.networks.describe.local import LocalNetwork
from korisk.problems.sources import EllipseSource
from korisk.store.usage import machine

SHARES = (0.01, 0.05, 0.2)  # of the input's norm: radii
SLACK = 1e-6  # relative: rounding of quotients
TOKENS, WIDTH, SIDE = 6, 8, 8

Made = tuple[nn.Module, Tensor]


class Attention(nn.Module):
    """Self-attention with one function of torch."""

    def __init__(self, *, causal: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.causal, self.scale = causal, scale

    def forward(self, x: Tensor) -> Tensor:
        """Tokens to tokens."""
        q, k, v = (self.scale * self.qkv(x)).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


class Heads(nn.Module):
    """nn.MultiheadAttention of one value, or of one beside a constant."""

    def __init__(self, heads: int, *, cross: bool = False, masked: bool = False) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, heads, batch_first=True)
        self.context = nn.Buffer(torch.randn(1, 4, WIDTH)) if cross else None
        mask = nn.Transformer.generate_square_subsequent_mask(TOKENS)
        self.mask = nn.Buffer(mask) if masked else None

    def forward(self, x: Tensor) -> Tensor:
        """Tokens to tokens."""
        other = x if self.context is None else self.context.expand(len(x), -1, -1)
        result: Tensor = self.inner(x, other, other, attn_mask=self.mask, need_weights=False)[0]
        return result


class Squeeze(nn.Module):
    """Squeeze and excitation behind a convolution."""

    def __init__(self, *, residual: bool = False) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.gate = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 4), nn.Sigmoid())
        self.last = nn.Conv2d(4, 1, 1)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        inner = torch.relu(self.convolution(x))
        inner = inner * self.gate(inner.mean((2, 3)))[:, :, None, None]
        made: Tensor = self.last(inner)
        return x + made if self.residual else made


def recurrent(kind: Callable[..., nn.Module], *, last: bool = True, **options: Any) -> nn.Module:
    """A recurrent layer over six tokens, and a linear map of its last state or of all."""
    layer = kind(WIDTH, WIDTH, batch_first=True, **options)
    outputs = WIDTH * (2 if options.get("bidirectional") else 1)

    def run(x: Tensor, inner: nn.Module, head: nn.Module) -> Tensor:
        states = inner(x)[0]
        made: Tensor = head(states[:, -1] if last else states)
        return made

    return Of(run, layer, nn.Linear(outputs, 4))


def cells(kind: type[nn.Module]) -> nn.Module:
    """Three passes of a cell."""

    def run(x: Tensor, cell: nn.Module) -> Tensor:
        state = cell(x[:, 0])
        for time_step in (1, 2):
            state = cell(x[:, time_step], state)
        result: Tensor = state[0] if isinstance(state, tuple) else state
        return result

    return Of(run, kind(WIDTH, WIDTH))


def gated(x: Tensor, one: nn.Module, two: nn.Module, out: nn.Module) -> Tensor:
    """SwiGLU."""
    result: Tensor = out(F.silu(one(x)) * two(x))
    return result


def modulated(x: Tensor, features: nn.Module, scale: nn.Module) -> Tensor:
    """Features that a second part scales and shifts."""
    factor, shift = scale(x).chunk(2, -1)
    result: Tensor = torch.tanh(features(x)) * (1 + factor) + shift
    return result


def by_hand(x: Tensor, inner: nn.Module) -> Tensor:
    """Layer normalisation that a user wrote."""
    made: Tensor = inner(x)
    variance = (made - made.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)
    return (made - made.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-3)


def shares(x: Tensor, inner: nn.Module) -> Tensor:
    """A softmax that a user wrote."""
    weights: Tensor = inner(x).exp()
    return weights / weights.sum(-1, keepdim=True)


def trained(module: nn.Module) -> nn.Module:
    """The module behind some steps towards smooth targets, on random images."""
    train(module, torch.rand(8, 1, SIDE, SIDE))
    return module


def modules() -> dict[str, dict[str, Callable[[], nn.Module]]]:
    """By kind, then by name; all take tokens, vectors or images."""
    wide = 2 * WIDTH
    mlp = partial(nn.Sequential, nn.Linear(WIDTH, wide))
    layer = partial(nn.TransformerEncoderLayer, WIDTH, 2, wide, batch_first=True)
    return {
        "attention, tokens": {
            "dot products": Attention,
            "dot products, causal": lambda: Attention(causal=True),
            "dot products, large": lambda: Attention(scale=3.0),
            "two heads": lambda: Heads(2),
            "four heads": lambda: Heads(4),
            "two heads, masked": lambda: Heads(2, masked=True),
            "cross": lambda: Heads(2, cross=True),
            "residual": lambda: Of(lambda x, part: x + part(x), Heads(2)),
            "Transformer layer": layer,
            "Transformer layer, norm first": lambda: layer(norm_first=True, activation="gelu"),
        },
        "gates, vectors": {
            "GLU": lambda: nn.Sequential(nn.Linear(WIDTH, wide), nn.GLU(), nn.Linear(WIDTH, 4)),
            "GLU twice": lambda: nn.Sequential(
                *(part for _ in range(2) for part in (nn.Linear(WIDTH, wide), nn.GLU()))
            ),
            "SwiGLU": lambda: Of(
                gated, nn.Linear(WIDTH, wide), nn.Linear(WIDTH, wide), nn.Linear(wide, WIDTH)
            ),
            "SwiGLU, residual": lambda: Of(
                lambda x, *parts: x + gated(x, *parts),
                nn.Linear(WIDTH, wide),
                nn.Linear(WIDTH, wide),
                nn.Linear(wide, WIDTH),
            ),
            "modulation": lambda: Of(modulated, nn.Linear(WIDTH, 6), nn.Linear(WIDTH, 12)),
            "highway": lambda: Of(
                lambda x, f, g: x + torch.sigmoid(g(x)) * (torch.relu(f(x)) - x),
                nn.Linear(WIDTH, WIDTH),
                nn.Linear(WIDTH, WIDTH),
            ),
        },
        "gates, images": {
            "squeeze and excitation": Squeeze,
            "squeeze and excitation, residual": lambda: Squeeze(residual=True),
            "convolutional GLU": lambda: Of(
                lambda x, inner, out: out(F.glu(inner(x), 1)),
                nn.Conv2d(1, 6, 3, padding=1),
                nn.Conv2d(3, 1, 3, padding=1),
            ),
            "spatial gate": lambda: Of(
                lambda x, inner, gate: x * torch.sigmoid(gate(torch.relu(inner(x)))),
                nn.Conv2d(1, 4, 3, padding=1),
                nn.Conv2d(4, 1, 3, padding=1),
            ),
        },
        "recurrent, tokens": {
            "LSTM": lambda: recurrent(nn.LSTM),
            "LSTM, all states": lambda: recurrent(nn.LSTM, last=False),
            "LSTM, two layers": lambda: recurrent(nn.LSTM, num_layers=2),
            "LSTM, both directions": lambda: recurrent(nn.LSTM, bidirectional=True, last=False),
            "GRU": lambda: recurrent(nn.GRU),
            "GRU, all states": lambda: recurrent(nn.GRU, last=False),
            "RNN": lambda: recurrent(nn.RNN),
            "LSTM cells": lambda: cells(nn.LSTMCell),
            "GRU cells": lambda: cells(nn.GRUCell),
            "RNN cells": lambda: cells(nn.RNNCell),
        },
        "normalisation, vectors": {
            "layer": lambda: mlp(nn.LayerNorm(wide), nn.ReLU(), nn.Linear(wide, 4)),
            "layer, first": lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)),
            "root mean square": lambda: mlp(nn.RMSNorm(wide), nn.GELU(), nn.Linear(wide, 4)),
            "written by hand": lambda: Of(by_hand, nn.Linear(WIDTH, wide)),
            "to length 1": lambda: Of(
                lambda x, inner: F.normalize(inner(x), dim=-1), nn.Linear(WIDTH, wide)
            ),
        },
        "normalisation, images": {
            "instance": lambda: nn.Sequential(
                nn.Conv2d(1, 4, 3, padding=1),
                nn.InstanceNorm2d(4, affine=True),
                nn.ReLU(),
                nn.Conv2d(4, 1, 3, padding=1),
            ),
            "instance, residual": lambda: Of(
                lambda x, part: x + part(x),
                nn.Sequential(
                    nn.Conv2d(1, 4, 3, padding=1),
                    nn.InstanceNorm2d(4),
                    nn.SiLU(),
                    nn.Conv2d(4, 1, 3, padding=1),
                ),
            ),
            "group": lambda: nn.Sequential(
                nn.Conv2d(1, 4, 3, padding=1),
                nn.GroupNorm(2, 4),
                nn.ReLU(),
                nn.Conv2d(4, 1, 3, padding=1),
            ),
        },
        "products, vectors": {
            "square": lambda: Of(
                lambda x, one, two: two(one(x) ** 2), nn.Linear(WIDTH, wide), nn.Linear(wide, 4)
            ),
            "x tanh x": lambda: Of(lambda x, one: x * torch.tanh(one(x)), nn.Linear(WIDTH, WIDTH)),
            "x exp(-x)": lambda: Of(
                lambda x, one: one(x) * torch.exp(-one(x)), nn.Linear(WIDTH, WIDTH)
            ),
            "of three": lambda: Of(
                lambda x, a, b, c: a(x) * torch.sin(b(x)) * c(x),
                *(nn.Linear(WIDTH, 6) for _ in range(3)),
            ),
            "quotient": lambda: Of(
                lambda x, a, b: a(x) / (1 + b(x).square()), nn.Linear(WIDTH, 6), nn.Linear(WIDTH, 6)
            ),
            "softmax by hand": lambda: Of(shares, nn.Linear(WIDTH, 6)),
            "x / max(1, |x|)": lambda: Of(
                lambda x, a: a(x) / a(x).abs().clamp_min(1.0), nn.Linear(WIDTH, 6)
            ),
            "matrix with itself": lambda: Of(
                lambda x, a: (m := a(x).reshape(-1, 3, 4)) @ m.transpose(1, 2), nn.Linear(WIDTH, 12)
            ),
        },
        "ResNets, images": {
            "2 blocks": lambda: resnet(2),
            "2 blocks, trained": lambda: trained(resnet(2)),
            "3 blocks, no norm": lambda: resnet(3, norm=False),
            "3 blocks, no norm, trained": lambda: trained(resnet(3, norm=False)),
        },
        "without these, vectors and images": {
            "tanh": lambda: mlp(nn.Tanh(), nn.Linear(wide, 4)),
            "ReLU, three layers": lambda: mlp(
                nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 4)
            ),
            "GELU, residual": lambda: Of(
                lambda x, part: x + part(x), mlp(nn.GELU(), nn.Linear(wide, WIDTH))
            ),
            "softmax": lambda: mlp(nn.Tanh(), nn.Linear(wide, 6), nn.Softmax(-1)),
            "convolutions": small,
            "convolutions, residual": lambda: Of(lambda x, part: x + part(x), small()),
        },
    }


def inputs(kind: str, module: nn.Module) -> Tensor:
    """One input: tokens and vectors at random, images of ellipses."""
    draws = torch.Generator().manual_seed(5)
    first = next(module.parameters())
    if "images" in kind and first.ndim == 4:
        drawn = EllipseSource().examples(SIDE, seed=3, count=1, device=None)
        return torch.as_tensor(drawn.images).float().reshape(1, 1, SIDE, SIDE)
    shape = (1, TOKENS, WIDTH) if "tokens" in kind else (1, WIDTH)
    tokens: Tensor = torch.randn(shape, generator=draws)
    return tokens


def steepest(module: nn.Module, center: Tensor, radius: float, starts: int = 8) -> float:
    """The largest quotient that is found in the ball, in double precision."""
    module = copy.deepcopy(module).double().requires_grad_(False)
    center = center.double()
    draws = torch.Generator().manual_seed(17)
    shape = (starts, *center.shape[1:])

    def drawn() -> Tensor:
        noise = torch.randn(shape, generator=draws, dtype=torch.float64)
        return noise / size(noise)

    def size(batch: Tensor) -> Tensor:
        norms: Tensor = batch.flatten(1).norm(dim=1)
        return norms.reshape(-1, *[1] * (batch.ndim - 1))

    fractions = torch.linspace(0, 1, starts, dtype=torch.float64)
    fractions = fractions.reshape(-1, *[1] * (center.ndim - 1))
    offset = (radius * fractions * drawn()).requires_grad_()
    half = (radius * 0.9 * (1 - 0.9 * fractions) * drawn()).requires_grad_()
    rate, best = 0.05 * radius / math.sqrt(center.numel()), 0.0
    optimizer = torch.optim.Adam([offset, half], lr=rate)
    for step in range(150):
        with torch.no_grad():  # both ends in the ball
            far = (size(offset) + size(half)) / radius
            offset /= far.clamp_min(1.0)
            half /= far.clamp_min(1.0)
        optimizer.zero_grad()
        ends = [module(center + offset + sign * half) for sign in (1, -1)]
        quotients = size(ends[0] - ends[1]).flatten() / (2 * size(half).flatten())
        best = max(best, float(quotients.detach().max()))
        (-quotients.clamp_min(1e-300).log().sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 30 == 29:
            with torch.no_grad():
                half *= 0.5
    vjp: Any = torch.autograd.functional.vjp
    near = 1e-4 * radius
    for place in range(starts):
        point = offset[place : place + 1].detach()
        point = center + point * min(1.0, (radius - near) / max(float(point.norm()), 1e-300))
        direction = half[place : place + 1].detach()
        for _ in range(12):
            direction = direction / direction.norm()
            with torch.no_grad():  # a pair in the ball: forward modes do not know every function
                ends = [module(point + sign * near * direction) for sign in (1, -1)]
            moved = (ends[0] - ends[1]) / (2 * near)
            best = max(best, float(moved.norm()))
            direction = vjp(module, point, moved)[1]
            if not float(direction.norm()) > 0:
                break
    return best


def measured(kind: str, name: str, made: Made, share: float) -> dict[str, Any]:
    """The constants of one module on one ball, and what the adversary found."""
    module, example = made
    radius = share * float(example.norm())
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = kr.describe(module, example, inputs=kr.Ball(example[0], radius))
        seconds = time.perf_counter() - start
    assert isinstance(net, LocalNetwork)
    draws = torch.Generator().manual_seed(29)
    noise = torch.randn((64, *example.shape[1:]), generator=draws, dtype=torch.float64)
    length = radius * torch.rand(64, generator=draws, dtype=torch.float64) ** (1 / example.numel())
    noise *= (length / noise.flatten(1).norm(dim=1)).reshape(-1, *[1] * (example.ndim - 1))
    points = example.double() + noise
    return {
        "kind": kind,
        "name": name,
        "share": share,
        "upper": net.lipschitz(),
        "paths": net.lipschitz("minkowski"),
        "lower": steepest(module, example, radius),
        "inside": net.inside(points).share,
        "seconds": seconds,
    }


def cases_of(key: tuple[str, str]) -> list[dict[str, Any]]:
    """One module on every ball."""
    kind, name = key
    torch.set_num_threads(1)
    torch.manual_seed(11)
    module = modules()[kind][name]().eval()
    example = inputs(kind, module)
    everywhere = math.inf
    with warnings.catch_warnings(), contextlib.suppress(kr.KoriskError):
        warnings.simplefilter("ignore")
        everywhere = kr.describe(module, example).lipschitz()
    return [
        {**measured(kind, name, (module, example), share), "everywhere": everywhere}
        for share in SHARES
    ]


def all_cases(workers: int) -> Iterator[dict[str, Any]]:
    """Every module on every ball."""
    keys = [(kind, name) for kind, factories in modules().items() for name in factories]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for cases in pool.map(cases_of, keys):
            for case in cases:
                print(json.dumps(case), flush=True)
                yield case


def unsound(case: dict[str, Any]) -> bool:
    """Whether a quotient is above the upper end, or a value left its range."""
    return bool(case["upper"] < case["lower"] * (1 - SLACK) or case["inside"] < 1)


def table(kept: dict[str, Any]) -> Iterator[str]:
    """For each kind and size of the ball: how loose, and how many have no constant everywhere."""
    heads = ("modules", "unsound", "upper / found, median", "largest", "sums over paths / found")
    yield line("", "radius / norm", *heads, "finite on all inputs")
    yield line(*["---"] * 8)
    cases = kept["cases"]
    kinds = [*dict.fromkeys(case["kind"] for case in cases), "all"]
    for kind in kinds:
        for share in SHARES:
            chosen = [c for c in cases if kind in (c["kind"], "all") and c["share"] == share]
            loose = [case["upper"] / case["lower"] for case in chosen]
            paths = [case["paths"] / case["lower"] for case in chosen]
            finite = sum(math.isfinite(case["everywhere"]) for case in chosen)
            bad = sum(map(unsound, chosen))
            numbers = (statistics.median(loose), max(loose), statistics.median(paths))
            texts = (f"{number:.2g}" for number in numbers)
            yield line(kind, f"{share:.0%}", len(chosen), bad, *texts, finite)


def main() -> None:
    """Measure and keep, or print what was kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to keep what came out")
    parser.add_argument("--tables", type=Path, help="print the table of what was kept there")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.tables is not None:
        print("\n".join(table(json.loads(options.tables.read_text()))))
        return
    kept = {"machine": dict(machine()), "cases": list(all_cases(options.workers))}
    if options.json is not None:
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
        options.json.with_suffix(".txt").write_text("\n".join([*table(kept), ""]))
    print("\n".join(table(kept)))


if __name__ == "__main__":
    main()
