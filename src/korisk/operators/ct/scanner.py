"""The known operators of a CT scanner with the brackets of their norms, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import cast

import torch

from korisk._checks import one_of
from korisk.operators.ct.filter import WINDOWS, Window
from korisk.operators.ct.geometry import Geometry
from korisk.operators.linear import Adjoint, LinearOperator
from korisk.texts import Table, number
from korisk.theory.bracket import NormBracket
from korisk.theory.footprint import Footprint

Named = Mapping[str, tuple[LinearOperator, NormBracket]]
# The released filter wraps around the detector: it is for repeating the paper's numbers alone.
_WINDOWS = tuple(window for window in WINDOWS if window != "released")
_LARGEST_FACTORED = 4096  # rows of A^T A that are factored; larger ones are solved by iteration


@dataclass(frozen=True, eq=False)
class Scanner:
    """Operators by name with their norms. Made by `scanner`."""

    geometry: Geometry
    window: str
    mu: float | None
    operators: Named
    beside: Named

    @property
    def footprint(self) -> Footprint:
        """What the two networks on this scanner weigh."""
        return Footprint(self.geometry.image_shape[0], *self.geometry.sinogram_shape)

    def to_dict(self) -> dict[str, object]:
        """The operators as plain values, for JSON."""

        def rows(group: Named) -> list[dict[str, object]]:
            ends = {name: map(list, operator._ends()) for name, (operator, _) in group.items()}
            return [
                {"name": name, "from": source, "to": target, "norm": asdict(group[name][1])}
                for name, (source, target) in ends.items()
            ]

        return {
            "geometry": repr(self.geometry),
            "truncation": self.geometry.truncation,
            "window": self.window,
            "mu": self.mu,
            "operators": rows(self.operators),
            "beside_ct": rows(self.beside),
            "footprint": self.footprint.to_dict(),
        }

    def tables(self) -> Iterator[Table | str]:
        """The operators and the networks as texts, and a remark where one applies."""
        beam = type(self.geometry).__name__.replace("Beam", " beam").lower()
        size = self.footprint
        title = f"{beam}, {size.H} x {size.H} pixels, {size.V} views, {size.B} bins, "
        yield _table(f"{title}{self.window} window", self.operators)
        if self.operators["A^T"][0].T is not self.operators["A"][0]:
            yield (
                "The A^T of this filtered backprojection is pixel-driven, which has the smaller "
                "error: it is not the adjoint of A, and its norm differs.\n"
            )
        yield _table("beside CT", self.beside)
        yield size.table()


def scanner(
    geometry: Geometry,
    *,
    window: str = "ramp",
    mu: float | None = None,
    width: float = 0.01,
    progress: Callable[[str], object] = lambda what: None,
) -> Scanner:
    """The operators of filtered backprojection on a scanner, with the brackets of their norms.

    Parameters
    ----------
    geometry : Geometry
        The scanner.
    window : str, default "ramp"
        Window of K: ramp, shepp-logan, cosine, hamming, hann.
    mu : float, optional
        Add the regularised inverse (A^T A + MU I)^-1 A^T.
    width : float, default 0.01
        Relative width to aim for in a norm's bracket.
    progress : callable, optional
        Called with what is being computed.

    Returns
    -------
    Scanner
        The operators by name, in double precision.

    Raises
    ------
    KoriskError
        If the window has another name, or `mu` or `width` is outside its range.

    Examples
    --------
    >>> from korisk.operators import ParallelBeam
    >>> from korisk.operators.ct.scanner import scanner
    >>> found = scanner(ParallelBeam(8, views=6, bins=12))
    >>> list(found.operators)
    ['W', 'K', 'A', 'A^T', 'A^T K', 'A^T K W']
    """
    from korisk.operators import Diffusion, Fourier, Projector, Tikhonov, fbp

    one_of("window", window, _WINDOWS)
    # In double precision from the start: norms are computed there, and share what they build.
    double = torch.float64
    chain = fbp(geometry, window=cast(Window, window), dtype=double)
    kernel, back = chain["K"], chain["A^T"]
    projector = back.T if isinstance(back, Adjoint) else Projector(geometry, dtype=double)
    parts: dict[str, LinearOperator] = {"W": chain["W"], "K": kernel, "A": projector, "A^T": back}
    parts |= {"A^T K": back @ kernel, "A^T K W": chain}
    if mu is not None:
        shorter = min(math.prod(projector.domain), math.prod(projector.range))
        solver = "factor" if shorter <= _LARGEST_FACTORED else "cg"
        parts["A^+"] = Tikhonov(projector, mu, solver=solver)
    # Two known operators outside of CT, for comparison.
    side = geometry.image_shape[0]
    flow = Diffusion(side, viscosity=0.01, time=0.1, dtype=double)
    beside = {"Fourier": Fourier((side, side), dtype=double), "Diffusion": flow}
    norms: dict[LinearOperator, NormBracket] = {}
    for name, operator in (parts | beside).items():  # an operator and its adjoint share a norm
        same = operator.T if isinstance(operator, Adjoint) else operator
        if same not in norms:
            progress(f"bracketing the norm of {name}")
            norms[same] = operator.norm(width=width)
        norms[operator] = norms[same]
    ours, others = (
        {name: (operator, norms[operator]) for name, operator in group.items()}
        for group in (parts, beside)
    )
    return Scanner(geometry, window, mu, ours, others)


def _table(title: str, group: Named) -> Table:
    rows = []
    for name, (operator, norm) in group.items():
        shapes = [" x ".join(map(str, shape)) for shape in (operator.domain, operator.range)]
        rows.append([name, *shapes, number(norm.lower, 5), number(norm.upper, 5), norm.how])
    heads = ["operator", "from", "to", "norm lower", "norm upper", "how"]
    return Table(title, heads, rows, "lllrrl")
