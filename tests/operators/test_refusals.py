"""Wrong input to operators and geometries is refused in one line that names the rule and remedy."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from korisk.errors import KoriskError
from korisk.networks import KnownOperatorNet
from korisk.operators import (
    Composed,
    Diagonal,
    Diffusion,
    FanBeam,
    Fourier,
    Identity,
    Matrix,
    ParallelBeam,
    Projector,
    RampFilter,
    Tikhonov,
    fbp,
    released_geometry,
    stack,
    testing,
)

any_: Any = lambda value: value  # noqa: E731 (values that the types forbid)
PARALLEL = ParallelBeam((14, 11), views=9, bins=21, pixel_spacing=0.7, detector_offset=0.4)
FAN = FanBeam(8, views=3, bins=16, source_to_center=20, source_to_detector=31)
A, B = Matrix(torch.ones(4, 5)), Matrix(torch.ones(5, 3))


class Cut(Identity):
    """Gives one entry, and one more back, whatever shape it states."""

    def _map(self, x: torch.Tensor) -> torch.Tensor:
        return x[..., :1]

    def _map_adjoint(self, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([y, y[..., :1]], -1)


def flow(**changes: Any) -> Diffusion:
    return Diffusion(**{"points": 8, "viscosity": 0.02, "time": 0.3, **changes})


def beam(**changes: Any) -> ParallelBeam:
    return ParallelBeam(**{"shape": 32, "bins": 64, **changes})


def fan(**changes: Any) -> FanBeam:
    distances = {"source_to_center": 100.0, "source_to_detector": 150.0}
    return FanBeam(**{"shape": 32, "bins": 64, "views": 4, **distances, **changes})


REFUSED: list[tuple[Callable[[], Any], str]] = [
    # A user's own, also where broadcasting would hide the shape
    *(
        (lambda make=make: make(Cut(4))(torch.ones(2, 4)), r"_map must .* \(2, 4\).* got \(2, 1\)")
        for make in (
            lambda cut: cut,
            lambda cut: cut + Identity(4),
            lambda cut: Diagonal(torch.ones(4)) @ cut,
            lambda cut: KnownOperatorNet(torch.ones(4), [cut, Identity(4)]),
        )
    ),
    (lambda: Cut(4).T(torch.ones(4)), r"_map_adjoint must .* \(4\).* got \(5\).* Cut._map_adjoint"),
    (lambda: Cut(4).as_matrix(), r"_map must give the shape \(4, 4\)"),
    # Algebra
    (lambda: A @ A, r"M cannot follow M: M gives \(4\), M takes \(5\)"),
    (lambda: A + B, r"the same shapes only, got M \(5\) -> \(4\) and M \(3\) -> \(5\)"),
    (lambda: stack(A, B), r"must have one domain.* got M \(5\) -> \(4\) and M \(3\) -> \(5\)"),
    (lambda: stack(Diagonal(1.0), Diagonal(2.0)), "ranges of at least one axis"),
    (lambda: A @ Matrix(torch.ones(5, 3).double()), r"bring them together with \.to"),
    (lambda: A @ np.zeros(5), "convert arrays with torch.as_tensor"),
    (lambda: A * float("nan"), "scaled by a finite number only, got nan"),
    (lambda: A * any_(torch.ones((), requires_grad=True)), r"Diagonal\(..., trainable"),
    (lambda: A / 0, "scaled by a finite number only, got inf"),
    (lambda: A + any_(3), "LinearOperators in a list, got .*3"),
    (lambda: Composed(any_(A)), "LinearOperators in a list, got Matrix"),
    (lambda: Composed([]), r"one or more LinearOperators in a list, got \[\]"),
    (lambda: A.norm(seed=any_(1.5)), "seed must be a whole number"),
    (lambda: A.norm(width=3), "width must be a finite number >= 0.0001 and <= 0.99, got 3"),
    (lambda: Identity(60000).as_matrix(), "would fill 13.4 GiB"),
    (lambda: testing.check(A, laws=["beauty"]), "laws must be one of adjoint, linearity"),
    (lambda: testing.check(any_(3)), "operator must be a LinearOperator"),
    # Entries and shapes
    (lambda: Diagonal([1.0, math.nan, math.inf]), "finite numbers, got 3 .*, of which 2 are NaN"),
    (lambda: Diagonal(torch.tensor([1j])), "weights must be real"),
    (lambda: Diagonal([]), "one or more finite numbers, got 0 entries"),
    (lambda: Diagonal("ramp"), "weights must be a torch tensor or an array"),
    (lambda: Diagonal(torch.ones(2).half()), "float32 or torch.float64"),
    (lambda: Matrix([1.0, 2.0]), "matrix must have two dimensions"),
    (lambda: Matrix(torch.ones(2, 3), domain=(2, 2)), "domain must have 3 entries"),
    (lambda: Matrix(torch.ones(2, 3), range=3), "range must have 2 entries"),
    (lambda: Identity(any_(2.5)), "shape must be a whole number >= 1, got 2.5"),
    # Fourier and Diffusion
    (lambda: Fourier((4, 6), np.zeros(6)), "keep at least one sample"),
    (lambda: Fourier((4, 6), np.ones(4)), r"mask must have the image's shape \(4, 6\)"),
    (lambda: Fourier((4, 6), np.full(6, 0.5)), "mask must hold 0 and 1 only"),
    (lambda: Fourier((4, 6), ["a"] * 6), "mask must hold 0 and 1 only"),
    (lambda: Fourier(()), "shape must have at least one axis"),
    (lambda: flow(viscosity=-1.0), "viscosity must be a finite number >= 0, got -1.0"),
    (lambda: flow(time=-1.0), "time must be a finite number >= 0"),
    (lambda: flow(length=0.0), "length must be a finite number > 0"),
    (lambda: flow(speed=math.inf), "speed must be a finite number"),
    (lambda: flow(points=0), "points must be a whole number >= 1"),
    # Tikhonov
    (lambda: Tikhonov(Identity(3), 0.0), "mu must be a finite number > 0, got 0.0"),
    (lambda: Tikhonov(Identity(3), 1, solver="gc"), "solver must be one of factor, cg"),
    (lambda: Tikhonov(any_(torch.eye(3)), 1), "operator must be a LinearOperator"),
    (lambda: Tikhonov(Identity((256, 256)), 1.0), "20,000 rows, got 65,536 .*solver='cg'"),
    (lambda: Tikhonov(Diagonal([1.0], trainable=True), 1.0), r"requires_grad_\(False\)"),
    # Projectors, filters, FBP
    (lambda: Projector(PARALLEL, kind=any_("line")), "kind must be one of joseph, rotate, sampled"),
    (lambda: Projector(PARALLEL, engine=any_("dense")), "engine must be one of auto, matrix"),
    (lambda: Projector(PARALLEL, samples=9), "samples= belongs to kind='sampled'"),
    (lambda: Projector(PARALLEL, kind="sampled"), "needs a FanBeam"),
    (lambda: Projector(FAN, kind="sampled", samples=1), "samples must be a whole number >= 2"),
    (lambda: Projector(PARALLEL, kind="rotate"), "one bin for each column"),
    (lambda: Projector(any_((8, 8))), "geometry must be a ParallelBeam, FanBeam or ConeBeam"),
    (lambda: Projector(PARALLEL, device="nowhere"), "device must be one that PyTorch has"),
    (lambda: Projector(PARALLEL, dtype=torch.float16), "torch.float32 or torch.float64"),
    (lambda: Projector(fan(source_to_detector=102), kind="sampled"), "must lie behind the image"),
    (lambda: RampFilter((2, 8), window=any_("hanning")), "did you mean 'hann'"),
    (lambda: RampFilter((2, 8), scale=math.inf), "scale must be a finite number"),
    (lambda: RampFilter(any_((2, 8, 3, 4))), r"shape must be \(views, bins\)"),
    (lambda: fbp(FAN, backprojection="adjoint"), "use backprojection='pixel'"),
    (lambda: fbp(PARALLEL)["M"], "layers: W, K, A"),
    (lambda: released_geometry(64), r"\[128, 256, 512\].* got 64"),
    # Inputs
    (lambda: Projector(PARALLEL)(torch.zeros(3, 14, 12)), r"\(..., 14, 11\), got \(3, 14, 12\)"),
    (lambda: Projector(PARALLEL)(torch.zeros(11)), r"\(..., 14, 11\), got \(11\)"),
    (lambda: Projector(PARALLEL)(np.zeros((14, 11))), "must be a torch tensor"),
    (lambda: Projector(PARALLEL)(torch.zeros(14, 11).double()), "float32 on cpu, got torch.float6"),
    (lambda: Projector(PARALLEL)(torch.zeros(14, 11).to_sparse()), "dense.* got .*sparse_coo"),
    (lambda: Projector(PARALLEL)(torch.zeros(14, 11, device="meta")), "on cpu, got .* on meta"),
    (lambda: Projector(PARALLEL).T(torch.zeros(14, 11)), r"must have shape \(..., 9, 21\)"),
    # Geometries
    *(
        (lambda options=options, make=make: make(**{"views": 3, **options}), message)
        for make in (beam, fan)
        for options, message in (
            ({"views": 0}, "views must be .* from 1 to 1,000,000, got 0; pass views= or angles="),
            ({"views": None}, "views must be .* got None; pass views= or angles="),
            ({"angles": (0, math.nan, 1)}, r"angles\[1\] must be a finite .*got nan; give radians"),
            ({"angles": "012"}, "angles must be a sequence of radians, got '012'"),
            ({"angles": (0.0, "a")}, r"angles\[1\] must be a finite number, got 'a'"),
            ({"angles": (0.0,)}, "either angles= or views=.* not both, got 1 angles with views=3"),
            ({"angles": (0.0,), "views": 1, "start": 1.0}, "either angles= or views= with start="),
            ({"arc": 0.0}, "arc must be a finite number > 0 .*, got 0.0; give radians"),
            ({"arc": 180.0}, "arc must be .* <= 6.28319, got 180.0; give radians"),
            ({"start": math.inf}, "start must be a finite number, got inf; give radians"),
            ({"bins": 0}, "bins must be a whole number from 1 to 1,000,000, got 0; count the"),
            ({"bin_spacing": -1.0}, "bin_spacing must be .* >= 1e-09 and <= 1e.09, got -1"),
            ({"pixel_spacing": 0}, "pixel_spacing must be a finite .*, got 0; give millimetres"),
            ({"detector_offset": math.nan}, "detector_offset must be a finite number"),
            ({"shape": 65536}, r"fewer than 2\^31 elements, got 4,294,967,296"),
            ({"bins": 10**6, "views": 10**6}, r"1,000,000,000,000 rays \(3725 GiB"),
        )
    ),
    *(
        (lambda shape=shape: beam(shape=shape, views=3), "shape must be")
        for shape in (0, -4, 1.5, "32", None, (32,), (1, 2, 3), (4, 0), ())
    ),
    (lambda: fan(source_to_center=10.0), "outside the image, which reaches 16 mm"),
    (lambda: fan(source_to_center=0.0), "source_to_center must be a finite number > 0, got 0.0"),
    (lambda: FanBeam(8, views=3, bins=9), "source_to_center must be .* a fan beam needs both"),
]


@pytest.mark.filterwarnings("ignore::korisk.errors.KoriskWarning")
@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[words for _, words in REFUSED])
def test_wrong_input_is_refused_in_one_line(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(KoriskError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_half_precision_changes_nothing() -> None:
    with pytest.raises(KoriskError, match=r"float32 or torch.float64, got torch.float16"):
        A.half()
    assert A.dtype == A.matrix.dtype == torch.float32


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import korisk as kr
from korisk import *
assert kr.sample_size(kr.Network([kr.Learned("W", parameters=5)]), target=0.1) > 0
for name in ("operators", "problems", "networks"):
    try:
        __import__(f"korisk.{name}")
    except ImportError as error:
        assert isinstance(error, kr.KoriskError)
        print(error)
    try:
        getattr(kr, name)
    except kr.KoriskError as error:
        print(error)
"""


def test_without_torch_the_core_works_and_the_others_name_the_extra() -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    line = "needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    names = [name for name in ("operators", "problems", "networks") for _ in range(2)]
    assert done.stdout.splitlines() == [f"korisk.{name} {line}" for name in names]
