"""Write the CT networks of the paper as YAML: examples/ct_h{H}_ko.yaml and ct_h{H}_fc.yaml.

Norms are those of a parallel-beam scanner in pixel units, views over 180 degrees, with pi / V
folded into the filter K. They are computed here with SciPy alone: ||K|| from its dense matrix,
||A^T|| and ||A^T K|| by Lanczos, which comes from below and is iterated to ten digits.

The constants C and kappa are read back from the paper's calibration (its Table 2): the smallest
ones with which the composed bound is not below the calibrated line. They carry that table's
units (MSE at H <= 32, squared relative RMSE above). Table 2 has no row for H = 512, so its files
keep C = 0 and kappa = 1, the matched-constant reference.

Usage: python examples/make_ct_networks.py [H ...]      (all scales: about a minute, 3 GiB)
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, svds

import korisk as kr
from korisk import published

FloatArray = NDArray[np.float64]
LANCZOS = "Lanczos to ten digits, not certified"


@dataclass(frozen=True)
class Norms:
    """||K||, ||A^T|| and ||A^T K|| of one geometry."""

    filter: float
    backprojection: float
    composed: float


def ramp_matrix(bins: int, views: int) -> FloatArray:
    """The band-limited ramp along the detector, (B, B): sampled kernel, zero padded, times pi/V."""
    distance = np.arange(bins)
    kernel = np.zeros(bins)
    kernel[0] = 0.25
    odd = distance % 2 == 1
    kernel[odd] = -1 / (math.pi * distance[odd]) ** 2
    return math.pi / views * scipy.linalg.toeplitz(kernel)


def projector(size: kr.Footprint) -> scipy.sparse.csr_matrix:
    """Line integrals of a bilinear image, (V B, H H): one sample a row or column, as Joseph did."""
    angles = np.arange(size.V) * math.pi / size.V
    blocks = [_one_view(angle, size.H, size.B) for angle in angles]
    return scipy.sparse.csr_matrix(scipy.sparse.vstack(blocks, format="csr"))


def _one_view(angle: float, side: int, bins: int) -> scipy.sparse.csr_matrix:
    # The ray {p : p . (cos, sin) = s} crosses every column (or row) once; step along the axis to
    # which it is nearer, and interpolate linearly across.
    along_x = abs(math.sin(angle)) >= abs(math.cos(angle))
    across, along = math.cos(angle), math.sin(angle)
    if not along_x:
        across, along = along, across
    offsets = np.arange(bins) - (bins - 1) / 2
    steps = np.arange(side) - (side - 1) / 2
    position = (offsets[:, None] - across * steps[None, :]) / along + (side - 1) / 2
    lower = np.floor(position).astype(np.int64)
    weight = position - lower
    length = 1 / abs(along)
    ray, step = np.broadcast_arrays(np.arange(bins)[:, None], np.arange(side)[None, :])
    rows, columns, values = [], [], []
    for neighbour, share in ((lower, 1 - weight), (lower + 1, weight)):
        inside = (neighbour >= 0) & (neighbour < side) & (share > 0)
        pixel = neighbour * side + step if along_x else step * side + neighbour
        rows.append(ray[inside])
        columns.append(pixel[inside])
        values.append(length * share[inside])
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return scipy.sparse.csr_matrix(entries, shape=(bins, side * side))


def norms(size: kr.Footprint) -> Norms:
    """The three norms that the bounds of the known-operator network need."""
    ramp, forward = ramp_matrix(size.B, size.V), projector(size)
    backward = forward.T.tocsr()

    def filtered(sinogram: FloatArray) -> FloatArray:
        views = sinogram.reshape(size.V, size.B) @ ramp
        return np.asarray(backward @ views.ravel())

    def filtered_adjoint(image: FloatArray) -> FloatArray:
        views = np.asarray(forward @ image.ravel()).reshape(size.V, size.B) @ ramp
        return views.ravel()

    composed = LinearOperator(
        shape=backward.shape, matvec=filtered, rmatvec=filtered_adjoint, dtype=np.float64
    )
    return Norms(
        filter=float(np.linalg.norm(ramp, 2)),
        backprojection=_largest_singular_value(backward),
        composed=_largest_singular_value(composed),
    )


def _largest_singular_value(operator: scipy.sparse.csr_matrix | LinearOperator) -> float:
    start = np.random.default_rng(0).standard_normal(min(operator.shape))
    values = svds(operator, k=1, v0=start, tol=1e-10, return_singular_vectors=False)
    return float(values[0])


def networks(size: kr.Footprint, found: Norms) -> tuple[kr.Network, kr.Network]:
    """The known-operator and the dense network, with constants from Table 2 where it has them."""
    row = next((row for row in published.CALIBRATION if row.H == size.H), None)
    tail = _rounded_up(found.composed)
    known = kr.Network(
        [
            _learned("W", size.known_parameters, row.known if row else None, tail),
            kr.Known("K", lipschitz=_bracket(found.filter, "dense SVD")),
            kr.Known("A^T", lipschitz=_bracket(found.backprojection, LANCZOS)),
            kr.Known("ReLU", lipschitz=1.0),
        ],
        compositions=[kr.Composition("K", "A^T", lipschitz=_bracket(found.composed, LANCZOS))],
        name=f"CT with known operators, {size.H} x {size.H}, {size.V} views, {size.B} bins",
    )
    dense = kr.Network(
        [
            _learned("M", size.dense_parameters, row.dense if row else None, 1.0),
            kr.Known("ReLU", lipschitz=1.0),
        ],
        name=f"CT with one dense matrix, {size.H} x {size.H}, {size.V} views, {size.B} bins",
    )
    return known, dense


def _learned(name: str, parameters: int, line: kr.RiskLine | None, tail: float) -> kr.Learned:
    if line is None:
        return kr.Learned(name, parameters=parameters)
    return kr.Learned(
        name,
        parameters=parameters,
        C=_rounded_up(math.sqrt(line.floor) / tail),
        kappa=_rounded_up(line.slope / tail**2 / parameters),
    )


def _bracket(value: float, how: str) -> kr.NormBracket:
    upper = _rounded_up(value)
    last_digit = 10.0 ** (math.floor(math.log10(upper)) - 3)
    return kr.NormBracket(float(f"{upper - last_digit:.4g}"), upper, how=how)


def _rounded_up(value: float) -> float:
    """Four digits, upwards, so that a rounded constant still bounds."""
    scale = 10.0 ** (3 - math.floor(math.log10(value)))
    return float(f"{math.ceil(value * scale - 1e-6) / scale:.4g}")


def main() -> None:
    """Write the files for the asked scales."""
    scales = [row.size.H for row in published.FOOTPRINT]
    parser = argparse.ArgumentParser(description="Write the paper's CT networks as YAML.")
    parser.add_argument("H", type=int, nargs="*", default=scales, help="image sides (all)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="where to")
    asked = parser.parse_args()
    for row in published.FOOTPRINT:
        if row.size.H not in asked.H:
            continue
        found = norms(row.size)
        product = found.filter * found.backprojection
        print(
            f"H = {row.size.H:3d}: ||K|| = {found.filter:.4f}, ||A^T|| = "
            f"{found.backprojection:.2f}, ||A^T K|| = {found.composed:.4f}, "
            f"{product / found.composed:.1f} times below the product",
            flush=True,
        )
        for network, kind in zip(networks(row.size, found), ("ko", "fc"), strict=True):
            network.write(asked.out / f"ct_h{row.size.H}_{kind}.yaml")


if __name__ == "__main__":
    main()
