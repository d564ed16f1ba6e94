"""Every operator keeps every law of korisk.operators.testing, and the suite notices broken ones."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from korisk.operators import (
    WINDOWS,
    FanBeam,
    ParallelBeam,
    PixelBackprojector,
    Projector,
    RampFilter,
    fbp,
    released_fbp,
    testing,
)
from korisk.operators.basic import Diagonal, Diffusion, Fourier, Identity, Matrix
from korisk.operators.linear import Adjoint, Composed, LinearOperator, Scaled, Sum, stack
from korisk.operators.tikhonov import Tikhonov
from korisk.theory.bracket import NormBracket

Factory = Callable[[], LinearOperator]

# As small as they can be with rays along both axes and between: gradients are checked number by
# number, which takes as long as numbers are many.
PARALLEL = ParallelBeam((4, 5), views=5, bins=7, pixel_spacing=0.8, detector_offset=0.3)
EVEN = ParallelBeam(4, views=4, bins=4)
FAN = FanBeam((5, 4), views=4, bins=7, bin_spacing=1.9, source_to_center=12, source_to_detector=20)
SHORT = FanBeam(
    4, views=7, arc=4.2, bins=7, bin_spacing=1.6, source_to_center=12, source_to_detector=20
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def flow() -> Diffusion:
    return Diffusion(8, viscosity=0.01, speed=0.3, time=0.2)


def tall() -> Matrix:
    return Matrix(draw(9, 6), domain=(2, 3))


def wide() -> Matrix:
    return Matrix(draw(6, 8), range=(2, 3))


# To register an operator, add its name and a function without arguments that makes it.
OPERATORS: list[tuple[str, Factory]] = [
    ("identity", lambda: Identity((3, 4))),
    ("diagonal", lambda: Diagonal(draw(3, 4))),
    ("diagonal of one number", lambda: Diagonal(-2.5)),
    ("diagonal, trainable", lambda: Diagonal(draw(3, 4), trainable=True)),
    ("diagonal of zeros", lambda: Diagonal(torch.zeros(4))),
    ("matrix, tall", tall),
    ("matrix, wide", wide),
    ("matrix in double", lambda: Matrix(draw(3, 5).double())),
    ("fourier", lambda: Fourier((4, 6))),
    ("fourier, columns", lambda: Fourier((4, 6), [1, 0, 0, 1, 1, 0])),
    ("fourier in 1D", lambda: Fourier(7, [0, 1, 1, 1, 0, 0, 0])),
    ("fourier in 3D", lambda: Fourier((2, 3, 4), real=True)),
    ("fourier of real images", lambda: Fourier((5, 6), draw(5, 6) > 0, real=True)),
    ("fourier, half of each pair", lambda: Fourier(7, [0, 0, 0, 0, 1, 1, 1], real=True)),
    ("diffusion, even", flow),
    ("diffusion, odd", lambda: Diffusion(9, viscosity=0.01, speed=-0.3, time=0.2, length=2)),
    ("diffusion at one point", lambda: Diffusion(1, viscosity=1.0, speed=1.0, time=1.0)),
    ("tikhonov, tall", lambda: Tikhonov(tall(), 0.1)),
    ("tikhonov, wide", lambda: Tikhonov(wide(), 0.1)),
    ("tikhonov by cg, tall", lambda: Tikhonov(tall(), 0.1, solver="cg")),
    ("tikhonov by cg, wide", lambda: Tikhonov(wide(), 0.1, solver="cg")),
    ("tikhonov of fourier", lambda: Tikhonov(Fourier((4, 4), [1, 0, 1, 1], real=True), 0.01)),
    ("adjoint", lambda: Adjoint(wide())),
    ("adjoint of tikhonov", lambda: Tikhonov(tall(), 0.1, solver="cg").T),
    ("composed", lambda: Composed([flow(), wide(), Diagonal(draw(2, 3), trainable=True)])),
    ("composed, adjoint", lambda: (Fourier(8, real=True) @ flow()).T),
    ("scaled", lambda: Scaled(flow(), -2.5)),
    ("sum", lambda: Sum([flow(), Identity(8), Diagonal(draw(8))])),
    ("stacked", lambda: stack(wide(), Matrix(draw(9, 8, seed=1), range=(3, 3)))),
    ("normal equations", lambda: wide().T @ wide() + 0.1 * Identity(8)),
    ("joseph, parallel", lambda: Projector(PARALLEL)),
    ("joseph, fan", lambda: Projector(FAN)),
    ("joseph on the fly, fan", lambda: Projector(FAN, engine="on_the_fly")),
    ("joseph's adjoint in double", lambda: Projector(PARALLEL, dtype=torch.float64).T),
    ("rotate and sum", lambda: Projector(ParallelBeam(5, views=4, bins=5), kind="rotate")),
    ("rotate on the fly", lambda: Projector(EVEN, kind="rotate", engine="on_the_fly")),
    ("sampled rays", lambda: Projector(FAN, kind="sampled", samples=30)),
    ("pixel-driven, parallel", lambda: PixelBackprojector(PARALLEL)),
    ("pixel-driven, fan", lambda: PixelBackprojector(FAN)),
    ("pixel-driven on the fly", lambda: PixelBackprojector(FAN, engine="on_the_fly")),
    *[(f"{window} filter", partial(RampFilter, (2, 9), window=window)) for window in WINDOWS],
    ("filter by FFT", lambda: RampFilter((1, 1100))),
    ("FBP, parallel", lambda: fbp(PARALLEL, trainable=True)),
    ("FBP, parallel and pixel-driven", lambda: fbp(PARALLEL, backprojection="pixel")),
    ("FBP, fan", lambda: fbp(FAN, window="hann")),
    ("FBP, short scan", lambda: fbp(SHORT)),
    ("FBP as released", lambda: released_fbp(FAN)),
    ("Tikhonov of Joseph", lambda: Tikhonov(Projector(FAN), 0.1)),
    ("two detectors", lambda: stack(Projector(PARALLEL), 0.5 * Projector(PARALLEL))),
]
# Where another limit than 1e-12 is needed, by name, with the reason beside it.
TOLERANCES: dict[str, float] = {}


@pytest.mark.parametrize(("name", "make"), OPERATORS, ids=[name for name, _ in OPERATORS])
def test_operator_keeps_the_laws(name: str, make: Factory) -> None:
    report = testing.check(make(), tolerance=TOLERANCES.get(name))
    print(report)  # shown by pytest -s
    assert len(report.findings) == 9


def test_report_is_a_table() -> None:
    report = testing.check(Diagonal(torch.ones(3)))
    lines = str(report).splitlines()
    assert lines[0] == "W (Diagonal)"
    assert "largest |weight|" in lines[1]
    assert len(lines) == 3 + len(report.findings)
    assert report["adjoint"] is not None
    assert report["adjoint"] < 1e-15
    with pytest.raises(ValueError, match="laws: adjoint, linearity"):
        report["beauty"]


def test_the_same_seed_measures_the_same() -> None:
    assert testing.check_adjoint(wide(), seed=3) == testing.check_adjoint(wide(), seed=3)


# The suite notices


class Broken(Matrix):
    """A matrix that some subclass gets wrong."""

    def __init__(self) -> None:
        super().__init__(draw(6, 6), name="Broken")


class AdjointOff(Broken):
    def _map_adjoint(self, y: Tensor) -> Tensor:
        return 1.01 * super()._map_adjoint(y)


class Bent(Broken):
    def _map(self, x: Tensor) -> Tensor:
        return super()._map(x) + 1e-3 * x.abs()


class Shifted(Broken):
    def _map(self, x: Tensor) -> Tensor:
        return super()._map(x) + 1e-3


class MixesItems(Broken):
    def _map(self, x: Tensor) -> Tensor:
        lead = tuple(range(x.ndim - 1))
        return super()._map(x if not lead else x + 1e-3 * x.mean(lead))


class OneItemOnly(Broken):
    def _map(self, x: Tensor) -> Tensor:
        return self.matrix @ x


class NeedsContiguous(Broken):
    def _map(self, x: Tensor) -> Tensor:
        return (x.view(-1, 6) @ self.matrix.t()).view(x.shape)


class OverwritesInput(Broken):
    def _map(self, x: Tensor) -> Tensor:
        y = super()._map(x)
        x.mul_(2)
        return y


class GivesInputBack(Broken):
    def _map(self, x: Tensor) -> Tensor:
        return x

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return y


class NoGradient(Broken):
    def _map(self, x: Tensor) -> Tensor:
        return super()._map(x.detach())


class _WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return 0.99 * cotangents[0]


class WrongGradient(Broken):
    def _map(self, x: Tensor) -> Tensor:
        through: Tensor = _WrongBackward.apply(x)  # type: ignore[no-untyped-call]
        return super()._map(through)


class _OnceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return cotangents[0]


class NoSecondGradient(Broken):
    def _map(self, x: Tensor) -> Tensor:
        through: Tensor = _OnceOnly.apply(x)  # type: ignore[no-untyped-call]
        return super()._map(through)


class CountsDimensions(Broken):
    """Leaves PyTorch, as wrappers of other libraries do: right, but not under vmap."""

    def _map(self, x: Tensor) -> Tensor:
        return super()._map(x) + 0 * float(x.detach().sum())


class KeepsInferenceTensor(Broken):
    def _map(self, x: Tensor) -> Tensor:
        if "transposed" not in self._made:  # by hand, where _once would leave inference mode
            self._made["transposed"] = self.matrix.t().clone()
        return cast(Tensor, x @ self._made["transposed"])


class Unpicklable(Broken):
    def __init__(self) -> None:
        super().__init__()
        self.key = lambda: 1

    def __deepcopy__(self, memo: Any) -> "Unpicklable":
        return Unpicklable().to(self.dtype)


class ForgetsState(Broken):
    def __reduce__(self) -> Any:
        return Matrix, (torch.ones(6, 6),)


class DoubleOnly(Broken):
    def _map(self, x: Tensor) -> Tensor:
        return super()._map(x).double()


class WithNorm(Broken):
    lower, upper = 0.0, 0.0

    def _norm(self, width: float, seed: int) -> NormBracket:
        true = super()._norm(width, seed).upper
        return NormBracket(self.lower * true, self.upper * true)


class NormTooLow(WithNorm):
    lower, upper = 0.98, 0.99


class NormTooHigh(WithNorm):
    lower, upper = 1.1, 1.2


WRONG: list[tuple[type[Broken], Callable[..., Any], str]] = [
    (AdjointOff, testing.check_adjoint, "adjoint in float32 is off by"),
    (Bent, testing.check_linearity, "linearity in float32 is off by"),
    (Shifted, testing.check_linearity, "linearity in float32 is off by"),
    (MixesItems, testing.check_batches, r"A of a batch \(1\) is off by"),
    (OneItemOnly, testing.check_batches, r"A of a batch \(1\) "),
    (NeedsContiguous, testing.check_batches, "A of a transposed batch raises RuntimeError"),
    (OverwritesInput, testing.check_batches, "changes its input"),
    (GivesInputBack, testing.check_batches, "shares memory with its input"),
    (NoGradient, testing.check_gradient, "gradient of A raises RuntimeError"),
    (WrongGradient, testing.check_gradient, "gradient of A is off by 0.00"),
    (NoSecondGradient, testing.check_gradient, "second gradient of A raises RuntimeError"),
    (CountsDimensions, testing.check_transforms, "vmap of A raises RuntimeError"),
    (KeepsInferenceTensor, testing.check_transforms, "first used in inference_mode, of A raises"),
    (Unpicklable, testing.check_pickle, "pickle raises"),
    (ForgetsState, testing.check_pickle, "A after pickle is off by"),
    (DoubleOnly, testing.check_dtypes, "A gives float64 and float64"),
    (NormTooLow, testing.check_norm, "above the upper end"),
    (NormTooHigh, testing.check_norm, "below the lower end"),
]


@pytest.mark.parametrize(
    ("kind", "law", "words"), WRONG, ids=[kind.__name__ for kind, _, _ in WRONG]
)
def test_suite_notices(kind: type[Broken], law: Callable[..., Any], words: str) -> None:
    with pytest.raises(AssertionError, match=words) as caught:
        law(kind())
    assert str(caught.value).startswith("Broken (")
    assert "\n" not in str(caught.value)
    with pytest.raises(AssertionError):
        testing.check(kind())


def test_suite_accepts_what_they_are_made_from() -> None:
    testing.check(Broken())


def test_tolerance_is_for_operators_that_iterate() -> None:
    testing.check_adjoint(AdjointOff(), tolerance=0.1)
    with pytest.raises(AssertionError, match="limit 1e-05"):
        testing.check_adjoint(AdjointOff(), tolerance=1e-9)
