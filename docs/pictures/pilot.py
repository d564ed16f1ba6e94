"""Error over N of FBP and a CNN, twice: planned from four sizes, even odds for the target are at
N = 53; with a fifth size, which lies above the expected curve, they are at N = 175."""

import numpy as np
import torch
from _chart import BLUE, GREY, TYPE, chart, sizes
from torch import nn

import korisk as kr
from korisk.operators import ParallelBeam, Projector, fbp
from korisk.problems import random_ellipses

geometry = ParallelBeam(8, views=10, bins=12)
scanner = Projector(geometry).double()


def pairs(count, seed):
    """Scans and images."""
    images = random_ellipses(count, seed=seed, stream="tutorial").images(8).double()
    noise = np.random.default_rng(seed).normal(scale=0.3, size=(count, 10, 12))
    return scanner(images) + torch.from_numpy(noise), images


def fit(n, seed):
    """The error of a network that n samples train."""
    torch.manual_seed(seed)
    scans, images = pairs(n, seed)
    model = nn.Sequential(
        fbp(geometry, backprojection="adjoint", trainable=True),
        *(nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(4, 1, 3, padding=1), nn.Flatten(1, 2)),
    ).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.mse_loss(model(scans), images).backward()
        optimiser.step()
    scans, images = pairs(200, 1000)
    return {"mse": nn.functional.mse_loss(model(scans), images).item()}


figure, panels = chart(height=4.6, rows=2, xscale="log", yscale="log", ylabel="error")
n = np.geomspace(4, 512, 60)
whole = kr.run_pilot(fit, [4, 8, 16, 32, 91], seeds=3, quiet=True).curve
for axes, last in zip(panels, (32, 91), strict=True):
    kept = whole.n <= last
    plan = kr.plan(kr.Curve(whole.n[kept], whole.error[kept], whole.seed[: kept.sum()]), 0.005)
    band = (plan.forecast.quantile(n, p) for p in (0.05, 0.95))
    axes.fill_between(n, *band, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(n, plan.forecast.quantile(n, 0.5), color=BLUE)
    axes.plot(whole.n[kept], whole.error[kept], ".", color=GREY, markersize=5)
    axes.plot(plan.curve.sizes, plan.curve.means, "o", color=BLUE, markersize=5)
    axes.axhline(plan.target, color=GREY, linewidth=1)
    axes.plot(plan.even, plan.target, "D", color=BLUE, markersize=7)
    words = f"planned up to N = {last}: 50% sure at {plan.even}"
    axes.set_title(words, fontsize=TYPE, loc="left")
    axes.set(ylim=(0.0015, 0.02))
    axes.set_yticks([0.002, 0.005, 0.01, 0.02], ["0.002", "0.005", "0.01", "0.02"])
    sizes(axes, [4, 8, 16, 32, 91, 256])
axes.set_xlabel("training samples N")
