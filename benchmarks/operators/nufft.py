"""Nufft: its error against the dense Fourier sum, and its time beside torchkbnufft's.

    python -m benchmarks.operators.nufft > benchmarks/results/nufft.txt

torchkbnufft computes the weights that `Nufft` interpolates with, so it is the peer, with its
default table and with the same sparse matrix. finufft has no package for ARM, and mri-nufft needs
it, or CUDA. Times are least of several runs, in turn within one process.
"""

import argparse
import math
import os
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.markdown import header, line
from korisk.operators import Nufft, radial, spiral
from korisk.operators.mri.noncartesian import FloatArray

RUNS = 7
SIDES = (32, 64, 128)
POINTS = (4, 6, 8)


def dense(image: Tensor, trajectory: FloatArray) -> Tensor:
    """The sum itself, N^(-1/2) sum_r x(r) exp(-2 pi i k.r / n), of complex (rows, columns)."""
    rows, columns = (
        torch.exp(
            -2j * math.pi / length * torch.outer(k, torch.arange(length).double() - length // 2)
        )
        for k, length in zip(
            torch.from_numpy(trajectory.reshape(-1, 2).T.copy()), image.shape, strict=True
        )
    )
    return ((rows @ image) * columns).sum(-1) / math.sqrt(image.numel())


def scans(side: int) -> dict[str, FloatArray]:
    """Trajectories of an image."""
    drawn = np.random.default_rng(0).uniform(-side / 2, side / 2, (4 * side, side, 2))
    return {"radial": radial(side), "spiral": spiral(side), "random": drawn}


def errors() -> None:
    """The largest error of a sample, over the sum of |x|, beside the tolerance that is stated."""
    print(
        "Largest error of a sample of random images, of ones and of single pixels, over the sum "
        "of |x| / sqrt(N), in float64:\n"
    )
    print(*header("side", "trajectory", *(f"points={points}" for points in POINTS)), sep="\n")
    generator = torch.Generator().manual_seed(0)
    for side in SIDES:
        images = torch.randn(4, side, side, 2, generator=generator, dtype=torch.float64)
        images = torch.view_as_complex(images)
        images[1] = 1
        images[2:] = 0
        images[2, 0, 0] = images[3, side // 2, -1] = 1  # the window is worst at the edges
        for name, trajectory in scans(side).items():
            cells = []
            for points in POINTS:
                operator = Nufft((side, side), trajectory, points=points, dtype=torch.float64)
                computed = torch.view_as_complex(operator(torch.view_as_real(images))).flatten(1)
                exact = torch.stack([dense(image, trajectory) for image in images])
                scale = images.abs().sum((1, 2)) / side
                error = float(((computed - exact).abs().amax(1) / scale).max())
                kept = "≤" if error <= operator.tolerance else "above"
                cells.append(f"{error:.1e} {kept} {operator.tolerance:.1e}")
            print(line(side, name, *cells))


def least(*functions: Callable[[], object]) -> list[float]:
    """Milliseconds of each function, the least of several runs in turn."""
    times = [math.inf] * len(functions)
    for _ in range(RUNS + 1):  # the first builds what is kept
        for number, function in enumerate(functions):
            begun = time.perf_counter()
            function()
            times[number] = min(times[number], 1e3 * (time.perf_counter() - begun))
    return times


def speed(device: str) -> None:
    """Milliseconds of both directions, ours and torchkbnufft's."""
    import torchkbnufft as peer

    print(f"\nMilliseconds in float32, least of {RUNS} runs in turn, radial scans:\n")
    print(
        *header("side", "batch", "", "korisk", "torchkbnufft, table", "sparse matrix", "ratio"),
        sep="\n",
    )
    for side in SIDES:
        trajectory = radial(side)
        operator = Nufft((side, side), trajectory, device=device)
        omega = torch.from_numpy(trajectory.reshape(-1, 2).T * 2 * math.pi / side).to(device)
        matrix = tuple(
            part.to(torch.float32) for part in peer.calc_tensor_spmatrix(omega, (side, side))
        )
        omega = omega.float()
        forward, adjoint = (
            kind(im_size=(side, side), device=torch.device(device))
            for kind in (peer.KbNufft, peer.KbNufftAdjoint)
        )
        for batch in (1, 8):
            x = torch.randn(batch, side, side, 2, device=device)
            y = torch.randn(batch, *operator.range, device=device)
            image = torch.view_as_complex(x)[:, None]
            samples = torch.view_as_complex(y).flatten(1)[:, None]
            for name, ours, theirs, given in (
                ("forward", operator, forward, (x, image)),
                ("adjoint", operator.adjoint, adjoint, (y, samples)),
            ):
                times = least(
                    partial(ours, given[0]),
                    partial(theirs, given[1], omega),
                    partial(theirs, given[1], omega, interp_mats=matrix),
                )
                ratio = times[0] / min(times[1:])
                shown = (f"{milliseconds:.2f}" for milliseconds in times)
                print(line(side, batch, name, *shown, f"{ratio:.2f}"))


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # torchkbnufft's, of torch.jit and of sparse matrices
    where = f"{platform.machine()}, {torch.get_num_threads()} threads"
    if given.device != "cpu":
        where = torch.cuda.get_device_name()
    print(f"{where}, PyTorch {torch.__version__}; load {os.getloadavg()[0]:.1f} before\n")
    with torch.no_grad():
        errors()
        speed(given.device)


if __name__ == "__main__":
    main()
