"""Every operator keeps every law of korisk.operators.testing, and the suite notices broken ones."""

import copy
import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import scipy.sparse
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators import (
    WINDOWS,
    ConeBeam,
    Convolution,
    FanBeam,
    Moving,
    Nufft,
    ParallelBeam,
    PixelBackprojector,
    Projector,
    RampFilter,
    Sense,
    Warp,
    birdcage_sensitivities,
    fbp,
    from_callables,
    from_scipy,
    gaussian_kernel,
    radial,
    released_fbp,
    testing,
)
from korisk.operators.basic import Diagonal, Diffusion, Fourier, Identity, Mask, Matrix
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
CURVED = FanBeam(
    4, views=4, bins=7, bin_spacing=1.9, source_to_center=12, source_to_detector=20, curved=True
)
# A whole turn in quarters, one in no quarters on a curved detector, and a helix.
CONE = ConeBeam((2, 3, 3), views=4, bins=(3, 4), bin_spacing=2.1, source_to_center=8)
SHIFTED = ConeBeam(
    (3, 2, 3), views=3, arc=4.5, bins=(5, 4), row_offset=0.4, detector_offset=-0.3, curved=True
)
HELIX = ConeBeam((4, 2, 3), views=5, arc=8.0, pitch=2.5, bins=(2, 4), slice_spacing=0.8)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def flow() -> Diffusion:
    return Diffusion(8, viscosity=0.01, speed=0.3, time=0.2)


def coil_maps(coils: int) -> Tensor:
    return birdcage_sensitivities((4, 4), coils)


def sense(**other: Any) -> Sense:
    return Sense((4, 4), coil_maps(2), **other)


def tall() -> Matrix:
    return Matrix(draw(9, 6), domain=(2, 3))


def wide() -> Matrix:
    return Matrix(draw(6, 8), range=(2, 3))


POSES = [[0.0, 0.0, 0.0], [0.2, 0.5, -0.3]]
NUMBERS = draw(7, 6).double().numpy()


def times(x: Any) -> Any:
    return NUMBERS @ x


def transposed(y: Any) -> Any:
    return NUMBERS.T @ y


def reversed_sums(y: Tensor) -> Tensor:
    return y.flip(-1).cumsum(-1).flip(-1)


def complex_scipy() -> LinearOperator:
    return from_scipy(NUMBERS + 1j * draw(7, 6, seed=1).numpy(), domain=(2, 3))


def sums() -> LinearOperator:
    return from_callables(partial(torch.cumsum, dim=-1), reversed_sums, 5, 5, batched=True)


# To register an operator, add its name and a function without arguments that makes it.
OPERATORS: list[tuple[str, Factory]] = [
    ("identity", lambda: Identity((3, 4))), ("diagonal", lambda: Diagonal(draw(3, 4))),
    ("diagonal of one number", lambda: Diagonal(-2.5)),
    ("diagonal, trainable", lambda: Diagonal(draw(3, 4), trainable=True)),
    ("diagonal of zeros", lambda: Diagonal(torch.zeros(4))), ("matrix, tall", tall),
    ("matrix, wide", wide), ("fourier", lambda: Fourier((4, 6))),
    ("fourier in 1D", lambda: Fourier(7, [0, 1, 1, 1, 0, 0, 0])),
    ("fourier in 3D", lambda: Fourier((2, 3, 4), real=True)),
    ("fourier of real images", lambda: Fourier((5, 6), draw(5, 6) > 0, real=True)),
    ("fourier, half of each pair", lambda: Fourier(7, [0, 0, 0, 0, 1, 1, 1], real=True)),
    ("diffusion, even", flow),
    ("diffusion, odd", lambda: Diffusion(9, viscosity=0.01, speed=-0.3, time=0.2, length=2)),
    ("diffusion in a rectangle", lambda: Diffusion((4, 5), viscosity=0.01, speed=(1, 2), time=0.1)),
    ("diffusion in a box", lambda: Diffusion((2, 3, 4), viscosity=(0, 0.1, 0), speed=1, time=0.1)),
    ("mask", lambda: Mask((3, 4), [1, 0, 1, 1])),
    ("sense", sense), ("sense, every other line", lambda: sense(mask=[1, 0, 1, 0])),
    ("sense of real images", lambda: sense(mask=[1, 0, 1, 1], real=True)),
    ("NUFFT", lambda: Nufft((4, 4), radial(4, spokes=3, readout=4))),
    ("NUFFT of coils", lambda: Nufft((4, 4), radial(4, spokes=2), sensitivities=coil_maps(2))),
    ("NUFFT of real volumes", lambda: Nufft((2, 3, 4), draw(9, 3).tanh(), real=True)),
    ("Tikhonov of a NUFFT", lambda: Tikhonov(Nufft(5, draw(9, 1).tanh()), 0.1)),
    ("warp", lambda: Warp((3, 4), [[0.3, 0.5, -0.2], [0.0, 0, 0]])),
    ("warp of complex images, trained", lambda: Warp((3, 4, 2), [[0.3, 0.5, -2]], trainable=True)),
    ("warp of volumes", lambda: Warp((2, 3, 3), 0.4 * draw(2, 6))),
    ("warp, affine", lambda: Warp((3, 3), draw(2, 2, 3))),
    ("moving, parallel", lambda: Moving(Projector(EVEN), POSES)),
    ("moving, cone", lambda: Moving(Projector(CONE), 0.3 * draw(2, 6))),
    ("moving, lines", lambda: Moving(Fourier((4, 4)), POSES, states=[0, 1, 0, 1])),
    ("moving, coils", lambda: Moving(sense(real=True), POSES, trainable=True)),
    ("moving, spokes", lambda: Moving(Nufft((4, 4), radial(4, spokes=2)), POSES)),
    ("Tikhonov of a moving scan", lambda: Tikhonov(Moving(Projector(EVEN), POSES), 0.1)),
    ("sense in 1D", lambda: Sense(5, draw(3, 5, 2))),
    ("blur", lambda: Convolution((4, 5), gaussian_kernel(0.6, reach=2))),
    ("blur on a torus", lambda: Convolution((4, 5), gaussian_kernel(0.6), boundary="periodic")),
    ("blur, mirrored", lambda: Convolution((4, 5), draw(3, 4).abs(), boundary="reflect")),
    ("convolution", lambda: Convolution((4, 5), draw(2, 3))),
    ("convolution, mirrored", lambda: Convolution(7, draw(4), boundary="reflect")),
    ("tikhonov of sense", lambda: Tikhonov(sense(mask=[1, 0, 1, 0]), 0.1)),
    ("deblurring", lambda: Tikhonov(Convolution(4, [1.0, 2.0, 1.0]), 0.1, solver="cg")),
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
    ("joseph, parallel", lambda: Projector(PARALLEL)), ("joseph, fan", lambda: Projector(FAN)),
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
    ("FBP, fan", lambda: fbp(FAN, window="hann")), ("FBP, short scan", lambda: fbp(SHORT)),
    ("FBP as released", lambda: released_fbp(FAN)),
    ("joseph, curved fan", lambda: Projector(CURVED)),
    ("FBP, curved fan", lambda: fbp(CURVED)),
    ("joseph, cone", lambda: Projector(CONE, engine="on_the_fly")),
    ("joseph, cone stored", lambda: Projector(CONE, engine="matrix")),
    ("joseph, curved cone", lambda: Projector(SHIFTED, engine="on_the_fly")),
    ("joseph's adjoint, helix", lambda: Projector(HELIX, engine="on_the_fly").T),
    ("voxel-driven, cone", lambda: PixelBackprojector(CONE, engine="on_the_fly")),
    ("voxel-driven, helix", lambda: PixelBackprojector(HELIX, engine="on_the_fly")),
    ("FDK", lambda: fbp(CONE, trainable=True, engine="on_the_fly")),
    ("FDK, short scan", lambda: fbp(SHIFTED)),
    ("Tikhonov of a helix", lambda: Tikhonov(Projector(HELIX), 0.1)),
    ("Tikhonov of Joseph", lambda: Tikhonov(Projector(FAN), 0.1)),
    ("functions of tensors", sums),
    ("functions, adjoint and composed", lambda: (sums() @ sums()).T),
    ("functions of arrays", lambda: from_callables(times, transposed, 6, 7, numpy=True)),
    ("SciPy, sparse", lambda: from_scipy(scipy.sparse.csr_array(abs(NUMBERS)), range=(7, 1))),
    ("SciPy, complex", complex_scipy), ("Tikhonov of SciPy", lambda: Tikhonov(complex_scipy(), 1)),
]  # fmt: skip


# Another one of the list runs the same code, at another shape or with other numbers.
LATER = {
    *(f"{window} filter" for window in WINDOWS[1:-1]),
    *("tikhonov, wide", "tikhonov by cg, wide", "Tikhonov of Joseph", "sense, every other line"),
    *("joseph, curved cone", "voxel-driven, helix", "FDK, short scan", "convolution, mirrored"),
    *("FBP, parallel and pixel-driven", "pixel-driven, parallel", "moving, coils"),
    *("Tikhonov of a helix", "Tikhonov of a moving scan", "adjoint of tikhonov"),
    *("fourier in 1D", "fourier, half of each pair", "diffusion, odd", "diffusion in a rectangle"),
    *("NUFFT of coils", "Tikhonov of a NUFFT", "warp", "warp of volumes", "moving, spokes"),
    *("sense in 1D", "blur on a torus", "blur, mirrored", "convolution", "tikhonov, tall"),
    *("composed, adjoint", "normal equations", "joseph on the fly, fan", "joseph, fan"),
    *("pixel-driven, fan", "rotate on the fly", "FBP, fan", "FBP, curved fan", "FBP as released"),
    *("joseph, curved fan", "joseph, cone stored", "functions, adjoint and composed"),
    *("Tikhonov of SciPy", "filter by FFT", "diagonal of zeros"),
}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[pytest.mark.slow] * (name in LATER))
        for name, make in OPERATORS
    ],
)
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # PyTorch's own jvp
def test_operator_keeps_the_laws(make: Factory) -> None:
    operator = make()
    report = testing.check(operator)
    print(report)  # shown by pytest -s
    assert list(report.errors) == list(testing.LAWS)
    works_under_torch_func(operator, 0)
    works_under_torch_func(operator, 1)
    survives_pickling(operator)
    agrees_between_precisions_and_devices(operator)


def near(result: Tensor, expected: Tensor, x: Tensor, operator: LinearOperator) -> bool:
    """Whether results differ by rounding, relative to the operator's norm and its input."""
    limit = testing.LIMITS[min(result.dtype, expected.dtype, key=lambda kind: kind.itemsize)]
    bracket, gap = (
        operator.norm(),
        (result.double().cpu() - expected.double().cpu()).detach().norm(),
    )
    scale = (bracket.lower or 1.0) * float(x.double().norm())
    return result.shape == expected.shape and float(gap) <= limit * scale


def sides(operator: LinearOperator) -> list[tuple[Any, Any, Tensor, Tensor]]:
    """A and A^T with the other one, an input and an output."""
    x, y = (draw(*end, seed=k).to(operator.dtype) for k, end in enumerate(operator._ends()))
    return [(operator, operator.adjoint, x, y), (operator.adjoint, operator, y, x)]


def works_under_torch_func(operator: LinearOperator, side: int) -> None:
    # Copies, because what an operator makes at its first use must not be caught inside.
    double = copy.deepcopy(operator).double()
    inferred, mapped, fresh = (copy.deepcopy(double) for _ in range(3))
    of, back, x, y = sides(inferred)[side]
    with torch.inference_mode():
        of(x)
    (gradient,) = torch.autograd.grad((of(x.requires_grad_()) * y).sum(), x)
    assert near(gradient, back(y), y, double)
    of, back, x, y = sides(mapped)[side]
    batch, cotangents = torch.stack([x, -x, 2 * x]), torch.stack([y, 3 * y])
    # The mapped dimension last, where a map that counts dimensions from the front would fail.
    last = torch.func.vmap(of, in_dims=-1, out_dims=-1)(batch.movedim(0, -1))
    assert near(last.movedim(-1, 0), of(batch), batch, double)
    of, back, x, y = sides(fresh)[side]
    value, pull = torch.func.vjp(of, x)[:2]
    assert near(value, of(x), x, double)
    assert near(torch.func.vmap(pull)(cotangents)[0], back(cotangents), cotangents, double)
    tangents = torch.func.vmap(lambda v: torch.func.jvp(of, (x,), (v,))[1])(batch)
    assert near(tangents, of(batch), batch, double)


def survives_pickling(operator: LinearOperator) -> None:
    file = io.BytesIO()
    torch.save(operator, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    for again in (pickle.loads(pickle.dumps(operator)), saved, copy.deepcopy(operator)):
        for (of, _, x, _), (same, *_) in zip(sides(operator), sides(again), strict=True):
            with torch.no_grad():
                assert near(same(x), of(x), x, operator)


def agrees_between_precisions_and_devices(operator: LinearOperator) -> None:
    double = copy.deepcopy(operator).double()
    for place in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        single = copy.deepcopy(operator).float().to(place)
        for (of, _, x, _), (to, *_) in zip(sides(double), sides(single), strict=True):
            result = to(x.float().to(place))
            assert (result.dtype, result.device.type) == (torch.float32, place)
            assert near(result, of(x), x, double)
            with pytest.raises((KoriskError, TypeError, RuntimeError)):
                of(x.float())


def test_report_is_a_table_and_the_same_seed_measures_the_same() -> None:
    report = testing.check(Diagonal(torch.ones(3)))
    lines = str(report).splitlines()
    assert lines[0] == "W (Diagonal)"
    assert "largest |weight|" in lines[1]
    assert len(lines) == 3 + len(report.errors)
    assert report.errors["adjoint"] < 1e-15
    first, again = (testing.check(wide(), laws=["adjoint"], seed=3) for _ in range(2))
    assert first == again


class Broken(Matrix):
    """A matrix that some subclass gets wrong."""

    def __init__(self) -> None:
        super().__init__(draw(6, 6), name="Broken")


class _WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return 0.99 * cotangents[0]


class _OnceOnly(_WrongBackward):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return cotangents[0]


def overwriting(self: Broken, x: Tensor) -> Tensor:
    y = Matrix._map(self, x)
    x.mul_(2)
    return y


def mixing(self: Broken, x: Tensor) -> Tensor:
    lead = tuple(range(x.ndim - 1))
    return Matrix._map(self, x if not lead else x + 1e-3 * x.mean(lead))


def bracketed(low: float, high: float) -> Any:
    def norm(self: Broken, width: float, seed: int) -> NormBracket:
        true = Matrix._norm(self, width, seed).upper
        return NormBracket(low * true, high * true)

    return norm


def maps(function: Callable[[Broken, Tensor], Tensor]) -> dict[str, Any]:
    return {"_map": function}


def before(function: Any) -> dict[str, Any]:
    return maps(lambda self, x: Matrix._map(self, function.apply(x)))


def off(self: Broken, y: Tensor) -> Tensor:
    return 1.01 * Matrix._map_adjoint(self, y)


def viewing(self: Broken, x: Tensor) -> Tensor:
    return (x.view(-1, 6) @ self.matrix.t()).view(x.shape)


PLAIN = Matrix._map
# What is wrong, the law that notices it, and the words in which it is said.
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "adjoint off": ({"_map_adjoint": off}, "adjoint", "adjoint in float32 is off by"),
    "bent": (maps(lambda s, x: PLAIN(s, x) + 1e-3 * x.abs()), "linearity", "in float32 is off by"),
    "shifted": (maps(lambda s, x: PLAIN(s, x) + 1e-3), "linearity", "in float32 is off by"),
    "mixes items": (maps(mixing), "batches", r"A of a batch \(1\) is off by"),
    "one item only": (maps(lambda s, x: s.matrix @ x), "batches", r"A of a batch \(1\) "),
    "needs contiguous": (maps(viewing), "batches", "transposed batch raises"),
    "overwrites its input": (maps(overwriting), "batches", "changes its input"),
    "gives its input back": (maps(lambda s, x: x), "batches", "shares memory with its input"),
    "no gradient": (maps(lambda s, x: PLAIN(s, x.detach())), "gradient", "gradient of A raises"),
    "wrong gradient": (before(_WrongBackward), "gradient", "gradient of A is off by 0.00"),
    "no second gradient": (before(_OnceOnly), "gradient", "second gradient of A raises"),
    "norm too low": ({"_norm": bracketed(0.98, 0.99)}, "norm", "above the upper end"),
    "norm too high": ({"_norm": bracketed(1.1, 1.2)}, "norm", "below the lower end"),
}


@pytest.mark.parametrize("name", WRONG)
def test_suite_notices(name: str) -> None:
    wrong, law, words = WRONG[name]
    kind = type("Kind", (Broken,), wrong)
    with pytest.raises(AssertionError, match=words) as caught:
        testing.check(kind(), laws=[law])
    assert str(caught.value).startswith("Broken (")
    assert "\n" not in str(caught.value)
    with pytest.raises(AssertionError):
        testing.check(kind())


def test_suite_accepts_what_they_are_made_from_and_a_tolerance() -> None:
    testing.check(Broken())
    kind = type("Kind", (Broken,), WRONG["adjoint off"][0])
    testing.check(kind(), laws=["adjoint"], tolerance=0.1)
    with pytest.raises(AssertionError, match="limit 1e-05"):
        testing.check(kind(), laws=["adjoint"], tolerance=1e-9)
    for wrong in (-1.0, float("nan"), float("inf"), "x"):
        with pytest.raises(KoriskError, match="tolerance must be"):
            testing.check(Broken(), tolerance=wrong)  # type: ignore[arg-type]
