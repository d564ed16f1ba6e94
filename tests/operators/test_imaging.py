"""Sense, Convolution, Mask, Diffusion in a rectangle and DataConsistency."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators import (
    Convolution,
    DataConsistency,
    Diagonal,
    Diffusion,
    Fourier,
    LinearOperator,
    Mask,
    Matrix,
    Sense,
    birdcage_sensitivities,
    gaussian_kernel,
)

# SciPy's names of our boundaries
MODES: dict[str, Any] = {"zero": "constant", "periodic": "wrap", "reflect": "mirror"}


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def singular_values(operator: LinearOperator) -> Tensor:
    values: Tensor = torch.linalg.svdvals(operator.in_double().as_matrix())
    return values


def check_bracket(operator: LinearOperator) -> None:
    largest, bracket = float(singular_values(operator)[0]), operator.norm()
    slack = 1e-9 * largest
    assert bracket.lower - slack <= largest <= bracket.upper + slack, operator


@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize(("shape", "kernel"), [((7,), (3,)), ((6, 7), (3, 4)), ((5, 6), (1, 5))])
def test_a_convolution_is_scipys(boundary: Any, shape: Any, kernel: Any) -> None:
    h, x = draw(*kernel), draw(*shape, seed=1)
    expected = scipy.ndimage.convolve(x.numpy(), h.numpy(), mode=MODES[boundary])
    found = Convolution(shape, h, boundary=boundary, dtype=torch.float64)(x)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("boundary", MODES)
def test_brackets_of_convolutions_hold_the_largest_singular_value(boundary: Any) -> None:
    for seed in range(6):
        for h in (draw(3, 3, seed=seed), draw(2, 4, seed=seed).abs()):
            operator = Convolution((6, 5), h, boundary=boundary)
            check_bracket(operator)
            if boundary == "periodic":
                assert operator.norm().lower == operator.norm().upper
            elif operator.nonnegative:
                assert "certified" in operator.norm().how
    signed = Convolution((6, 5), [[1.0, -1.0]])
    assert signed.norm().upper <= 2 * (1 + 1e-9)  # that of the difference on a whole line


def test_a_kernel_longer_than_a_torus_wraps_around_it() -> None:
    x = draw(3)
    wrapped = Convolution(3, [1.0, 2.0, 3.0, 4.0, 5.0], boundary="periodic", dtype=torch.float64)
    short = Convolution(3, [7.0, 3.0, 5.0], boundary="periodic", dtype=torch.float64)
    torch.testing.assert_close(wrapped(x), short(x))


def test_a_gaussian_kernel_has_its_deviations_and_keeps_the_mean() -> None:
    kernel = gaussian_kernel((1.0, 2.0), reach=8)
    assert float(kernel.sum()) == pytest.approx(1, rel=1e-14)
    for axis, deviation in enumerate((1.0, 2.0)):
        line = kernel.sum(1 - axis)
        distance = torch.arange(len(line)) - len(line) // 2
        assert float((line * distance**2).sum()) == pytest.approx(deviation**2, rel=1e-6)
    assert Convolution((9, 9), kernel).norm().upper <= 1 + 1e-9


def test_sense_is_numpys_transform_of_what_each_coil_sees() -> None:
    maps = birdcage_sensitivities((4, 6), coils=3)
    mask = np.array([1, 0, 1, 1, 0, 1])
    x = draw(4, 6, 2)
    whole = torch.view_as_complex(maps) * torch.view_as_complex(x)
    axes = (-2, -1)
    spectrum = np.fft.fft2(np.fft.ifftshift(whole.numpy(), axes), norm="ortho")
    expected = np.fft.fftshift(spectrum, axes) * mask
    for given in (maps, torch.view_as_complex(maps), torch.view_as_complex(maps).numpy()):
        found = Sense((4, 6), given, mask, dtype=torch.float64)(x)
        np.testing.assert_allclose(torch.view_as_complex(found), expected, atol=1e-12)
    real = Sense((4, 6), maps, mask, real=True, dtype=torch.float64)
    with_zeros = torch.stack([x[..., 0], torch.zeros(4, 6)], -1)
    torch.testing.assert_close(real(x[..., 0]), Sense((4, 6), maps, mask).double()(with_zeros))


@pytest.mark.parametrize("real", [False, True])
def test_brackets_of_sense_hold_and_are_exact_where_all_is_sampled(real: bool) -> None:
    for seed in range(4):
        maps = draw(3, 4, 6, 2, seed=seed)
        largest = math.sqrt(float(maps.square().sum((0, -1)).max()))
        for mask in (None, [1, 0, 1, 0, 1, 0], [0, 0, 0, 1, 0, 0]):
            operator = Sense((4, 6), maps, mask, real=real)
            check_bracket(operator)
            assert operator.norm().upper <= largest * (1 + 1e-6)
            if mask is None:
                assert operator.norm().lower == operator.norm().upper
    whole = Sense((8, 8), birdcage_sensitivities((8, 8), 5), real=real, dtype=torch.float64)
    x = draw(*whole.domain)
    torch.testing.assert_close(whole.T(whole(x)), x)  # squares that add up to one


def test_birdcage_maps_are_smooth_and_each_is_strongest_at_its_own_side() -> None:
    steps = {}
    for side in (64, 32):
        maps = torch.view_as_complex(birdcage_sensitivities((side, side), coils=4))
        steps[side] = max(float(maps.diff(dim=axis).abs().max()) for axis in (1, 2))
    assert steps[64] < 0.55 * steps[32]
    strongest = [divmod(int(each.abs().argmax()), 32) for each in maps]
    assert [column for _, column in strongest][::2] == [31, 0]
    assert [row for row, _ in strongest][1::2] == [31, 0]


def test_a_mask_ignores_what_it_leaves_out() -> None:
    mask = Mask((2, 3), [1, 0, 1])
    x = torch.tensor([[1.0, math.nan, 2.0], [3.0, math.inf, 4.0]])
    assert mask(x).tolist() == mask.T(x).tolist() == [[1, 0, 2], [3, 0, 4]]


def test_diffusion_in_a_rectangle_is_that_of_its_axes_one_after_the_other() -> None:
    x = draw(3, 6, 5)
    flow: dict[str, Any] = {"time": 0.3, "dtype": torch.float64}
    both = Diffusion((6, 5), viscosity=(0.02, 0.05), speed=(1.0, -0.4), length=(1, 2), **flow)
    rows = Diffusion(6, viscosity=0.02, speed=1.0, **flow)
    columns = Diffusion(5, viscosity=0.05, speed=-0.4, length=2, **flow)
    torch.testing.assert_close(both(x), rows(columns(x).mT).mT)
    check_bracket(both)


def test_a_wave_in_a_rectangle_moves_and_decays_as_the_equation_says() -> None:
    nu, t, n = 0.01, 0.2, 16
    line = 2 * math.pi * torch.arange(n, dtype=torch.float64) / n
    y, x = line[:, None], line[None]
    moved = torch.cos(2 * (y - 2 * math.pi * 0.5 * t) - 3 * (x + 2 * math.pi * 0.7 * t))
    decay = math.exp(-nu * (2 * math.pi) ** 2 * (2**2 + 3**2) * t)
    flow = Diffusion((n, n), viscosity=nu, speed=(0.5, -0.7), time=t, dtype=torch.float64)
    torch.testing.assert_close(flow(torch.cos(2 * y - 3 * x)), decay * moved)


# --- Data consistency ----------------------------------------------------------------------------

HALF = [1, 0, 1, 0]
CONSISTENT: dict[str, Callable[[], LinearOperator]] = {
    "fourier": lambda: Fourier((3, 4), HALF),
    "fourier, real": lambda: Fourier((3, 4), [0, 1, 1, 0], real=True),
    "mask": lambda: Mask((3, 4), HALF),
    "diagonal": lambda: Diagonal(draw(4).float()),
    "diffusion": lambda: Diffusion((3, 4), viscosity=0.1, speed=1.0, time=0.2),
    "blur on a torus": lambda: Convolution((3, 4), gaussian_kernel(0.7), boundary="periodic"),
    "blur": lambda: Convolution((3, 4), gaussian_kernel(0.7)),
    "sense, whole": lambda: Sense((3, 4), draw(2, 3, 4, 2)),
    "sense": lambda: Sense((3, 4), draw(3, 3, 4, 2), HALF, real=True),
    "wide matrix": lambda: Matrix(draw(3, 5)),
    "tall matrix": lambda: Matrix(draw(7, 4)),
}
ITERATED = {"blur", "sense", "wide matrix", "tall matrix"}


@pytest.mark.parametrize("name", CONSISTENT)
def test_data_consistency_solves_its_normal_equations(name: str) -> None:
    operator = CONSISTENT[name]().double()
    layer = DataConsistency(operator, 0.3)
    assert ("closed form" in repr(layer)) == (name not in ITERATED)
    z, y = draw(2, *operator.domain), draw(2, *operator.range, seed=1)
    x = layer(z, y)
    torch.testing.assert_close(operator.T(operator(x)) + 0.3 * x, operator.T(y) + 0.3 * z)
    torch.testing.assert_close(DataConsistency(operator, 0.3, solver="factor")(z, y), x)
    values = singular_values(operator)
    spectrum = torch.cat([values, torch.zeros(math.prod(operator.domain) - len(values))])
    for bracket, of in (
        (layer.image_norm(), 0.3 / (spectrum**2 + 0.3)),
        (layer.data_norm(), spectrum / (spectrum**2 + 0.3)),
    ):
        assert bracket.lower * (1 - 1e-9) <= float(of.max()) <= bracket.upper * (1 + 1e-9)
        assert bracket.upper <= 1.011 * bracket.lower


@pytest.mark.parametrize("name", ["fourier, real", "wide matrix", "blur on a torus"])
def test_gradients_of_data_consistency_pass_to_image_and_data(name: str) -> None:
    operator = CONSISTENT[name]().double()
    layer = DataConsistency(operator, 0.3)
    z, y = draw(*operator.domain).requires_grad_(), draw(*operator.range).requires_grad_()
    assert torch.autograd.gradcheck(layer, (z, y))


def test_an_adjoint_with_a_conjugate_is_one_inside_a_compiled_network() -> None:
    """Below a compiler PyTorch forgets conjugates that were not computed yet."""
    operator = CONSISTENT["sense"]().double()
    layer = DataConsistency(operator, 0.3, solver="cg")
    z, y = draw(*operator.domain), draw(*operator.range, seed=1)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(z, y), layer(z, y))


def test_mu_can_be_trained_with_a_closed_form() -> None:
    operator = Fourier((3, 4), HALF, real=True, dtype=torch.float64)
    layer = DataConsistency(operator, 0.3, trainable=True)
    z, y = draw(3, 4), draw(3, 4, 2)
    assert layer.log_mu is not None
    layer(z, y).square().sum().backward()
    near = [
        float(DataConsistency(operator, 0.3 * math.exp(step))(z, y).square().sum())
        for step in (1e-5, -1e-5)
    ]
    assert float(layer.log_mu.grad) == pytest.approx((near[0] - near[1]) / 2e-5, rel=1e-6)  # type: ignore[arg-type]
    assert layer.mu == pytest.approx(0.3)


def test_sense_and_its_data_consistency_follow_a_mask_that_is_loaded() -> None:
    for first, second in ((None, HALF), (HALF, None)):
        operators = [Sense((3, 4), draw(2, 3, 4, 2), mask).double() for mask in (first, second)]
        layer, expected = (DataConsistency(operator, 0.3) for operator in operators)
        z, y = draw(*operators[0].domain), draw(*operators[0].range, seed=1)
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        assert not torch.allclose(compiled(z, y), expected(z, y))
        layer.load_state_dict(expected.state_dict())
        torch.testing.assert_close(compiled(z, y), expected(z, y))
        torch.testing.assert_close(layer(z, y), expected(z, y))
        check_bracket(operators[0])
        assert layer.image_norm() == expected.image_norm()
    operators[0].mask[..., 0] = False  # in place, without loading
    check_bracket(operators[0])


def test_data_consistency_takes_data_of_the_range_and_of_the_images_batch_alone() -> None:
    layer = DataConsistency(Mask(3, [1, 0, 1]), 0.3)
    wrong: list[Any] = [np.ones(3), torch.ones(1), torch.ones(3).double(), torch.ones(5, 3)]
    for y in wrong:
        with pytest.raises(KoriskError, match=r"data must|same batch"):
            layer(torch.ones(3), y)


def test_data_consistency_inside_autocast_is_computed_in_its_own_precision() -> None:
    layer = DataConsistency(Fourier((3, 4), HALF, real=True), 0.3)
    z, y = draw(3, 4).bfloat16(), draw(3, 4, 2).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, mixed = layer(z, y), layer(z.float(), y)
    exact = layer(z.float(), y.float())
    assert torch.equal(found, exact.bfloat16())
    assert torch.equal(mixed, exact)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Convolution((4, 4), [1.0, 2.0]), r"an axis for each .* got \(2\)"),
        (lambda: Convolution(4, [1.0] * 9, boundary="reflect"), "kernel must reach less than"),
        (lambda: Convolution(4, [1.0], boundary="same"), "boundary must be one of zero"),  # type: ignore[arg-type]
        (lambda: Convolution(4, torch.ones(3, requires_grad=True)), r"kernel\.detach\(\)"),
        (lambda: gaussian_kernel(0.0), "deviation must be"),
        (lambda: gaussian_kernel(2.0, axes=8), "at most .* entries"),
        (lambda: gaussian_kernel(1e300), "deviation must be"),
        (lambda: Sense((4, 4), draw(4, 4)), r"complex of shape \(coils, 4, 4\)"),
        (lambda: Sense((4, 4), "maps"), "sensitivities must be a torch tensor"),
        (lambda: Sense(4, torch.full((2, 4, 2), math.nan)), "must be one or more finite"),
        (lambda: Sense(4, draw(2, 4, 2).requires_grad_()), r"sensitivities\.detach\(\)"),
        (lambda: birdcage_sensitivities((4, 4, 4), 2), "shape must be"),
        (lambda: birdcage_sensitivities((4, 4), 2, radius=1.0), "radius must be"),
        (lambda: Mask((2, 3), [1, 2, 1]), "mask must hold 0 and 1 only"),
        (lambda: Diffusion((4, 4), viscosity=0.1, speed=(1, 2, 3), time=1), "each of the 2 axes"),
        (lambda: Diffusion(4, viscosity=1e300, time=1e300), "must be finite .* got viscosity"),
        (lambda: DataConsistency(Matrix(draw(3, 3)), 1.0, trainable=True), "closed form only"),
        (lambda: DataConsistency(Mask(3, [1, 1, 0]), 0.0), "mu must be"),
        (lambda: DataConsistency(Mask(3, [1, 1, 0]), 1e-60), "mu must be"),
        (lambda: setattr(Diffusion(4, viscosity=1.0, time=1.0), "time", 2.0), "another Diffusion"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        make()
