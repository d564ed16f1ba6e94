"""Write the CT networks of the paper as YAML: examples/ct_h{H}_ko.yaml and ct_h{H}_fc.yaml.

Norms are those of a parallel-beam scanner in pixel units, views over 180 degrees, with pi / V
folded into the filter K, bracketed by the operators themselves to one part in a thousand: ||K||
exactly, ||A^T|| with certainty, ||A^T K|| with the probability that the file states.

The constants C and kappa are those of the paper's calibration (its Table 2), rounded up, through
the composed form of the bound. They carry that table's units (MSE at H <= 32, squared relative
RMSE above). Table 2 has no row for H = 512, so its files keep C = 0 and kappa = 1, the
matched-constant reference.

Usage: python examples/make_ct_networks.py [H ...]      (all scales: some minutes, 4 GiB)
"""

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path

import korisk as kr
from korisk.operators import ParallelBeam, fbp
from korisk.paper import published

WIDTH = 1e-3  # of the brackets, relative


@dataclass(frozen=True)
class Norms:
    """||K||, ||A^T|| and ||A^T K|| of one geometry."""

    filter: kr.theory.NormBracket
    backprojection: kr.theory.NormBracket
    composed: kr.theory.NormBracket


def norms(size: published.Scan) -> Norms:
    """The three norms that the bounds of the known-operator network need."""
    scan = ParallelBeam(size.H, views=size.V, bins=size.B)
    layers = fbp(scan, backprojection="adjoint")  # the paper's A^T
    K, back = layers["K"], layers["A^T"]
    return Norms(
        filter=K.norm(width=WIDTH),
        backprojection=back.norm(width=WIDTH),
        composed=(back @ K).norm(width=WIDTH),
    )


def networks(size: published.Scan, found: Norms) -> tuple[kr.Network, kr.Network]:
    """The known-operator and the dense network, with constants from Table 2 where it has them."""
    row = next((row for row in published.CALIBRATION if row.H == size.H), None)
    known = kr.Network(
        [
            kr.Learned("W", parameters=size.known_parameters),
            kr.Known("K", lipschitz=_rounded(found.filter)),
            kr.Known("A^T", lipschitz=_rounded(found.backprojection)),
            kr.Known("ReLU", lipschitz=1.0),
        ],
        compositions=[kr.theory.Composition("K", "A^T", lipschitz=_rounded(found.composed))],
        name=f"CT with known operators, {size.H} x {size.H}, {size.V} views, {size.B} bins",
    )
    dense = kr.Network(
        [
            kr.Learned("M", parameters=size.dense_parameters),
            kr.Known("ReLU", lipschitz=1.0),
        ],
        name=f"CT with one dense matrix, {size.H} x {size.H}, {size.V} views, {size.B} bins",
    )
    if row is None:
        return known, dense
    return _calibrated(known, row.known), _calibrated(dense, row.dense)


def _calibrated(network: kr.Network, line: kr.theory.RiskLine) -> kr.Network:
    """The network with C and kappa of a line, which stand in its first layer."""
    exact = kr.theory.calibrated(network, line)
    (layer,) = exact.learned
    rounded = replace(layer, C=_rounded_up(layer.C), kappa=_rounded_up(layer.kappa))
    return replace(exact, layers=(rounded, *exact.layers[1:]))


def _rounded(bracket: kr.theory.NormBracket) -> kr.theory.NormBracket:
    """Four digits, outwards."""
    lower = -_rounded_up(-bracket.lower)
    return kr.theory.NormBracket(lower, _rounded_up(bracket.upper), how=bracket.how)


def _rounded_up(value: float) -> float:
    """Four digits, upwards, so that a rounded constant still bounds."""
    scale = 10.0 ** (3 - math.floor(math.log10(abs(value))))
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
        K, back, composed = (
            part.upper for part in (found.filter, found.backprojection, found.composed)
        )
        print(
            f"H = {row.size.H:3d}: ||K|| <= {K:.4f}, ||A^T|| <= {back:.2f}, ||A^T K|| <= "
            f"{composed:.4f}, {K * back / composed:.1f} times below the product",
            flush=True,
        )
        for network, kind in zip(networks(row.size, found), ("ko", "fc"), strict=True):
            network.write(asked.out / f"ct_h{row.size.H}_{kind}.yaml")


if __name__ == "__main__":
    main()
