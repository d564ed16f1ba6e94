"""Operators of other libraries in ours, ours in their solvers, and how their scanners compare."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import korisk as kr
from korisk.errors import KoriskError
from korisk.networks import DenseNet
from korisk.operators import (
    Composed,
    DataConsistency,
    Diagonal,
    Identity,
    LinearOperator,
    ParallelBeam,
    Projector,
    Tikhonov,
    from_callables,
    from_deepinv,
    from_scipy,
    testing,
)

Array = NDArray[np.float64]
DATA = Path(__file__).parents[1] / "data"
SINGLE = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))


def forward(x: Tensor) -> Tensor:
    return SINGLE.to(x.device) @ x


def adjoint(y: Tensor) -> Tensor:
    return SINGLE.t().to(y.device) @ y


def single() -> LinearOperator:
    """Functions that take float32 alone."""
    return from_callables(forward, adjoint, 6, 7)


class Blur(nn.Module):
    """What a LinearPhysics of deepinv has, for where that is not installed."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor([[[[1.0, 2.0, 1.0]]]]))

    def A(self, x: Tensor) -> Tensor:
        return nn.functional.conv2d(x, self.kernel)  # type: ignore[arg-type]

    def A_adjoint(self, y: Tensor) -> Tensor:
        return nn.functional.conv_transpose2d(y, self.kernel)  # type: ignore[arg-type]


def test_functions_in_single_precision_keep_the_laws_to_that_precision() -> None:
    testing.check(single(), tolerance=1e-5)
    blurred = from_deepinv(Blur(), (1, 3, 6))
    assert blurred.range == (1, 3, 4)
    testing.check(blurred, tolerance=1e-5)


def with_error(size: float) -> LinearOperator:
    """Products that are off by up to that much of the norm, as float32's may be."""
    noise = torch.Generator().manual_seed(1)

    def off(y: Tensor, of: Tensor) -> Tensor:
        error = torch.randn(y.shape, generator=noise, dtype=torch.float64)
        largest = float(torch.linalg.matrix_norm(SINGLE, 2) * of.norm())
        error *= size * largest / float(error.norm())
        return y + error.float()

    return from_callables(
        lambda x: off(forward(x.float()), x), lambda y: off(adjoint(y.float()), y), 6, 7
    )


@pytest.mark.parametrize("make", [single, lambda: with_error(2e-6)])
@pytest.mark.parametrize("build", [
    lambda A: A, lambda A: A.T, lambda A: Composed([A, A.T]), lambda A: A + A,
    lambda A: A.T @ A - 30 * Identity(6, dtype=A.dtype), lambda A: Tikhonov(A, 0.5),
])  # fmt: skip
def test_norms_in_single_precision_promise_no_more_than_is_known(
    make: Callable[[], LinearOperator], build: Callable[[LinearOperator], LinearOperator]
) -> None:
    bracket = build(make()).norm()
    exact = build(from_scipy(SINGLE.double().numpy(), dtype=torch.float64))
    truth = float(torch.linalg.matrix_norm(exact.as_matrix(), 2))
    assert bracket.lower <= truth <= bracket.upper
    assert 1e-5 * truth < bracket.upper - bracket.lower < 0.05 * truth
    assert "float32" in bracket.how or "eigenvalues" in bracket.how
    known = exact.norm()
    assert known.lower <= truth * (1 + 1e-9)
    assert truth <= known.upper * (1 + 1e-9)


# What is wrong, and words of the message.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "range": ({"range": 6}, r"must give .* shape \(3, 6\) .* got torch.float32 of shape \(3, 7\)"),
    "integers": ({"forward": lambda x: forward(x).int()}, "got torch.int32"),
    "complex": ({"forward": lambda x: forward(x) + 0j}, "got torch.complex64"),
    "half": ({"adjoint": lambda y: adjoint(y).half()}, "got torch.float16"),
    "nothing": ({"adjoint": lambda y: None}, "adjoint must give one tensor .* got None"),
    "arrays": ({"forward": lambda x: forward(x).numpy()}, "must give one tensor .* got array"),
    "factor": ({"adjoint": lambda y: 1.001 * adjoint(y)}, "adjoint must be .* error of 0.00[01]"),
    "zero": ({"adjoint": lambda y: 0 * adjoint(y)}, "adjoint must be that of forward"),
    "bent": ({"forward": lambda x: forward(x).relu()}, "forward must be linear"),
    "shifted": ({"forward": lambda x: forward(x) + 1}, "forward must be linear"),
    "one by one": ({"batched": True}, "batched="),
    "no function": ({"adjoint": 3}, "adjoint must be a function of a tensor, got 3"),
    "precision": ({"precision": torch.float16}, "float32 or torch.float64, got torch.float16"),
    "only double": ({"precision": torch.float64}, "got RuntimeError for a batch of 3 in torch.flo"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_functions_are_refused_when_the_operator_is_made(name: str) -> None:
    changes, words = WRONG[name]
    given: dict[str, Any] = {"forward": forward, "adjoint": adjoint, "domain": 6, "range": 7}
    with pytest.raises(KoriskError, match=words):
        from_callables(**{**given, **changes})


def test_a_small_error_in_double_precision_is_refused_too() -> None:
    matrix = SINGLE.double().numpy()
    with pytest.raises(KoriskError, match="limit 1e-09"):
        from_callables(lambda x: matrix @ x, lambda y: (1 + 1e-7) * matrix.T @ y, 6, 7, numpy=True)


def test_what_is_solved_in_single_precision_has_a_bracket_that_holds() -> None:
    # Singular values over five decades: a solve makes an error of 1e-7 one of percents.
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(2, 40, 40, generator=generator, dtype=torch.float64)
    left, right = torch.linalg.qr(draws)[0]
    matrix = (left * torch.logspace(0, -5, 40, dtype=torch.float64) @ right).float()
    options: dict[str, Any] = {"precision": torch.float32, "dtype": torch.float64}
    theirs = from_callables(lambda x: matrix @ x, lambda y: matrix.t() @ y, 40, 40, **options)
    exact = from_scipy(matrix.double().numpy(), dtype=torch.float64)
    weights = Diagonal(torch.linspace(0.1, 1, 40, dtype=torch.float64))
    identity = Identity(40, dtype=torch.float64)
    for build in (
        lambda A, T: T,
        lambda A, T: T @ weights,
        lambda A, T: (weights @ T).T,
        lambda A, T: identity - T @ A,
        lambda A, T: Tikhonov(T @ weights, 1e-2),
        lambda A, T: A - (A + 1e-4 * weights),
        lambda A, T: weights @ (A - (A + 1e-4 * weights)),
    ):
        made, true = (build(A, Tikhonov(A, 1e-6)) for A in (theirs, exact))
        bracket = made.norm()
        truth = float(torch.linalg.matrix_norm(true.as_matrix(), 2))
        assert bracket.lower <= truth <= bracket.upper
        assert "float32" in bracket.how
    layer = DataConsistency(theirs, 1e-6, solver="factor").image_norm()
    smallest = float(torch.linalg.svdvals(matrix.double())[-1])
    assert layer.lower <= 1e-6 / (smallest**2 + 1e-6) <= layer.upper == 1


def test_unchecked_functions_are_used_as_they_are_and_nothing_is_known_of_norms() -> None:
    crooked = from_callables(forward, lambda y: 2 * adjoint(y), 6, 7, check=False)
    x = torch.ones(6)
    torch.testing.assert_close(crooked(x), forward(x))
    layer = DataConsistency(crooked, 1.0)
    parts = [crooked, crooked.T @ single(), single() - 2 * crooked, Tikhonov(crooked, 1.0)]
    for bracket in (*(each.norm() for each in parts), layer.image_norm(), layer.data_norm()):
        assert (bracket.lower, bracket.upper) == (0, float("inf"))
        assert "not checked" in bracket.how
    assert (0 * crooked).norm().upper == 0
    with pytest.raises(AssertionError, match="adjoint"):
        testing.check(crooked, laws=["adjoint"])


@pytest.mark.parametrize(("wrong", "words"), [
    ("text", "must be a LinearOperator of SciPy"),
    (np.ones(3), r"must be a matrix, .* shape \(3\)"),
    (np.array([["a"]]), "must be a LinearOperator of SciPy"),
    (scipy.sparse.linalg.LinearOperator((3, 3), matvec=lambda x: x, dtype=float), "adjoint must"),
])  # fmt: skip
def test_what_scipy_does_not_know_or_has_no_adjoint_is_refused(wrong: Any, words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        from_scipy(wrong)


def test_shapes_of_other_libraries_must_fit() -> None:
    with pytest.raises(KoriskError, match=r"domain must have 6 entries .* got \(2, 2\)"):
        from_scipy(SINGLE.numpy(), domain=(2, 2))
    with pytest.raises(KoriskError, match="img_size must be"):
        from_deepinv(Blur(), (2, 3, 6))
    with pytest.raises(KoriskError, match="physics must be a LinearPhysics"):
        from_deepinv(nn.Linear(2, 2), (2,))
    trained = nn.Linear(6, 7, bias=False)
    with pytest.raises(KoriskError, match="must not be trainable"):
        from_callables(trained, lambda y: y @ trained.weight, 6, 7)


def test_weights_that_become_trainable_are_noticed() -> None:
    trained = nn.Linear(6, 7, bias=False).requires_grad_(False)

    def back(y: Tensor, module: nn.Linear) -> Tensor:
        return y @ module.weight

    for held in (trained, partial(trained), partial(nn.Linear.forward, trained)):
        A = from_callables(held, partial(back, module=trained), 6, 7)
        A(torch.ones(6))
        trained.requires_grad_(True)
        with pytest.raises(KoriskError, match="must not be trainable"):
            A(torch.ones(6))
        with pytest.raises(KoriskError, match="must not be trainable"):
            from_callables(held, partial(back, module=trained), 6, 7)
        trained.requires_grad_(False)


def test_functions_are_tried_where_they_are_called() -> None:
    def doubled(x: Tensor) -> Tensor:
        seen.append(torch.empty(1).device.type)
        return 2 * x

    seen: list[str] = []
    with torch.device("meta"):
        from_callables(doubled, doubled, 3, 3, device="cpu")
    assert set(seen) == {"meta"}


def test_a_matrix_that_changes_later_is_another_one() -> None:
    for matrix in (np.ones((2, 2)), scipy.sparse.csr_array(np.ones((2, 2)))):
        A = from_scipy(matrix)
        values = matrix if isinstance(matrix, np.ndarray) else matrix.data
        values *= -3
        assert A(torch.ones(2)).tolist() == [2, 2]


def test_functions_may_write_into_what_they_get_and_reuse_what_they_give() -> None:
    kept = torch.zeros(3)

    def doubled(x: Tensor) -> Tensor:
        kept.copy_(x.mul_(2))
        return kept

    A = from_callables(doubled, doubled, 3, 3)
    x = torch.ones(3)
    first = A(x)
    A(5 * x)
    assert first.tolist() == [2, 2, 2]
    assert x.tolist() == [1, 1, 1]
    # Reversed arrays of NumPy are views that PyTorch cannot take as they are.
    sums = from_callables(np.cumsum, lambda y: np.cumsum(y[::-1])[::-1], 3, 3, numpy=True)
    assert sums.T(x).tolist() == [3, 2, 1]


def test_modules_keep_their_precision_and_what_can_be_pickled_is() -> None:
    physics = Blur()
    A = from_deepinv(physics, (1, 3, 6)).to(torch.float64)
    assert A(torch.ones(1, 3, 6, dtype=torch.float64)).dtype == torch.float64
    assert physics.kernel.dtype == torch.float32
    assert pickle.loads(pickle.dumps(single()))(torch.ones(6)).shape == (7,)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(from_callables(lambda x: 2 * x, lambda y: 2 * y, 3, 3))


def test_an_adapted_operator_stands_wherever_ours_do() -> None:
    image = (8, 8)
    ours = Projector(ParallelBeam(8, views=6, bins=9))
    theirs = from_scipy(ours.sparse_matrix(), domain=image, range=ours.range, name="A")
    assert theirs.norm().lower == pytest.approx(ours.norm().lower, rel=1e-5)
    assert "certified" in theirs.norm().how
    networks = [
        kr.Network([kr.Learned("W", parameters=54), kr.Known("A^T", lipschitz=A.T)])
        for A in (ours, theirs)
    ]
    bounds = [network.amplification("composed") for network in networks]
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-5)
    y = torch.rand(3, *ours.range)
    for solver in ("factor", "cg"):
        solved = [Tikhonov(A, 0.1, solver=solver)(y) for A in (ours, theirs)]
        torch.testing.assert_close(*solved, rtol=1e-4, atol=1e-5)
    images = torch.rand(24, *image, generator=torch.Generator().manual_seed(0))

    def dense() -> DenseNet:
        return DenseNet(ours.range, image, relu=False)

    made = [kr.rehearse(dense, A, images, 0.05, [4, 8, 16], seeds=1) for A in (ours, theirs)]
    np.testing.assert_allclose(made[0].curve.error, made[1].curve.error, rtol=1e-3)
    model = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), theirs)
    layers = list(kr.describe(model, torch.rand(1, 1, *image)))
    assert [layer.kind for layer in layers] == ["learned", "known"]


# Solvers of others on our operators

SCAN = Projector(ParallelBeam(10, views=16, bins=15), dtype=torch.float64)
IMAGE = torch.rand(10, 10, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def test_scipy_solves_with_our_operators() -> None:
    measured = SCAN(IMAGE).reshape(-1).numpy()
    flat = IMAGE.reshape(-1).numpy()
    A = SCAN.as_scipy()
    assert A.shape == (240, 100)
    for solver in (scipy.sparse.linalg.lsqr, scipy.sparse.linalg.lsmr):
        found = solver(A, measured, atol=1e-13, btol=1e-13)[0]
        np.testing.assert_allclose(found, flat, atol=1e-7)
    normal = (SCAN.T @ SCAN + 0.1 * Identity((10, 10), dtype=torch.float64)).as_scipy()
    found, failed = scipy.sparse.linalg.cg(normal, A.rmatvec(measured), rtol=1e-12)
    assert not failed
    wanted = Tikhonov(SCAN, 0.1)(SCAN(IMAGE)).reshape(-1).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    largest = scipy.sparse.linalg.svds(A, k=1, return_singular_vectors=False)[0]
    assert SCAN.norm().lower <= largest <= SCAN.norm().upper


def test_flat_arrays_are_one_vector_columns_or_complex_numbers() -> None:
    matrix, A = SCAN.as_matrix().numpy(), SCAN.as_scipy()
    columns = np.random.default_rng(0).normal(size=(100, 3))
    np.testing.assert_allclose(A @ columns, matrix @ columns, atol=1e-12)
    turned = columns[:, 0] + 1j * columns[:, 1]
    np.testing.assert_allclose(A @ turned, matrix @ turned, atol=1e-12)
    back = np.ones((240, 1))
    np.testing.assert_allclose(A.T @ back, matrix.T @ back, atol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(A)) @ columns, A @ columns)
    assert A.matmat(np.ones((100, 0))).shape == (240, 0)
    with pytest.raises(ValueError, match="imension mismatch"):
        A @ IMAGE.numpy()


def test_pylops_solves_with_our_operators() -> None:
    pylops = pytest.importorskip("pylops")
    A = pylops.LinearOperator(SCAN.as_scipy(), dims=SCAN.domain, dimsd=SCAN.range)
    image, measured = IMAGE.numpy(), SCAN(IMAGE).numpy()
    np.testing.assert_allclose(A @ image, measured, atol=1e-12)
    assert pylops.utils.dottest(A)
    start = np.zeros(100)
    found = pylops.optimization.basic.cgls(A, measured.ravel(), start, niter=400, tol=1e-15)[0]
    np.testing.assert_allclose(np.ravel(found), image.ravel(), atol=1e-6)
    # min |A x - y|^2 / 2 + eps |x|_1: where x > 0, A^T (y - A x) = eps.
    eps = 0.5
    steps = {"niter": 600, "eps": 2 * eps, "alpha": 1 / SCAN.norm().upper ** 2, "tol": 0.0}
    found = np.ravel(pylops.optimization.sparsity.fista(A, measured.ravel(), **steps)[0])
    slope = np.ravel(A.H @ (measured - A @ found.reshape(10, 10)))
    assert np.abs(slope).max() <= eps * 1.05
    np.testing.assert_allclose(slope[found > 0.01], eps, rtol=0.05)


def test_pylops_operators_become_ours() -> None:
    pylops = pytest.importorskip("pylops")
    theirs = {
        "derivative": pylops.FirstDerivative((4, 5), axis=0),
        "Fourier": pylops.signalprocessing.FFT(6),
        "single": pylops.MatrixMult(SINGLE.numpy(), dtype="float32"),
    }
    for operator in theirs.values():
        adapted = from_scipy(operator)
        testing.check(adapted)
        largest = float(np.linalg.norm(operator.todense(), 2))
        assert adapted.norm().lower <= largest * (1 + 1e-6)
        assert largest <= adapted.norm().upper * (1 + 1e-6)
    assert from_scipy(theirs["derivative"]).domain == (4, 5)
    assert from_scipy(theirs["Fourier"]).range == (6, 2)


@pytest.mark.filterwarnings("ignore")  # of deepinv and of what it imports
def test_deepinv_solves_with_our_operators_and_its_own_become_ours() -> None:
    deepinv = pytest.importorskip("deepinv", reason="deepinv is not among the development packages")
    y = SCAN(IMAGE)
    options: dict[str, Any] = {"solver": "CG", "tol": 1e-12, "max_iter": 1000}
    maps = {"A": SCAN, "A_adjoint": SCAN.adjoint, "img_size": SCAN.domain}
    physics = deepinv.physics.LinearPhysics(**maps, **options)
    batch, measured = IMAGE[None, None], y[None, None]
    assert abs(float(physics.adjointness_test(batch))) < 1e-10
    close = physics.prox_l2(torch.zeros_like(batch), measured, 10.0)
    torch.testing.assert_close(close[0, 0], Tikhonov(SCAN, 0.1)(y), atol=1e-4, rtol=0)
    # Proximal gradient descent to min |A x - y|^2 / 2 + eps |x|_1, as above with PyLops.
    fidelity, prior = deepinv.optim.data_fidelity.L2(), deepinv.optim.prior.L1Prior()
    x, eps, step = torch.zeros_like(batch), 0.5, 1 / SCAN.norm().upper ** 2
    for _ in range(3000):
        x = prior.prox(x - step * fidelity.grad(x, measured, physics), gamma=step * eps)
    slope = SCAN.adjoint(measured - SCAN(x))
    assert float(slope.abs().max()) <= eps * 1.05
    assert float((slope[x > 0.01] - eps).abs().max()) <= eps * 0.05
    options = {"angles": torch.arange(6) * 30.0, "img_width": 6, "normalize": False}
    adapted = from_deepinv(deepinv.physics.Tomography(**options), (1, 6, 6))
    testing.check(adapted, tolerance=1e-5)
    near = deepinv.physics.Tomography(**options, adjoint_via_backprop=False)
    with pytest.raises(KoriskError, match="adjoint must be that of forward"):
        from_deepinv(near, (1, 6, 6))


# The porting table: docs/reference/operators.md

ANGLES = np.pi * np.arange(60) / 60


@pytest.fixture(scope="module")
def phantom() -> Array:
    found: Array = np.load(DATA / "astra_sinograms.npz")["phantom"].astype(float)
    return found


def projected(image: Array, angles: Array, bins: int, kind: Any = "joseph") -> Array:
    geometry = ParallelBeam(len(image), angles=tuple(angles), bins=bins)
    found: Array = Projector(geometry, kind=kind, dtype=torch.float64)(
        torch.from_numpy(image)
    ).numpy()
    return found


def off(found: Array, truth: Array) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def test_scikit_image_turns_the_other_way_about_the_pixel_n_halves(phantom: Array) -> None:
    radon = pytest.importorskip("skimage.transform").radon
    angles = ANGLES[::5]
    theirs = radon(phantom, np.rad2deg(angles), circle=True).T
    # Its axis is the centre of pixel n // 2, ours that of the image: with a row and a column more
    # these are the same, and so is everything else.
    padded = np.pad(phantom, ((0, 1), (0, 1)))
    assert off(projected(padded, -angles, 129, "rotate")[:, :128], theirs) < 1e-13
    assert off(projected(padded, -angles, 129)[:, :128], theirs) < 0.01
    # Without that, view b is shifted by (cos b - sin b - 1) / 2 bins, and no offset mends it.
    assert off(projected(phantom, -angles, 128, "rotate"), theirs) > 0.09
    shifts = (np.cos(angles) - np.sin(angles) - 1) / 2
    where = np.arange(64)
    gaussian = np.exp(-np.add.outer(np.square(where - 25), np.square(where - 37)) / 50)
    gaussian[gaussian < 1e-3] = 0
    centres = [
        sinogram @ where / sinogram.sum(axis=1)
        for sinogram in (
            radon(gaussian, np.rad2deg(angles), circle=True).T,
            projected(gaussian, -angles, 64),
        )
    ]
    np.testing.assert_allclose(centres[1] - centres[0], shifts, atol=0.01)


def test_astra_has_y_upwards(phantom: Array) -> None:
    # Its sinograms were made with the angles negated, so that its rays are ours.
    theirs = np.load(DATA / "astra_sinograms.npz")["parallel"]
    assert off(projected(phantom, ANGLES, 128), theirs) < 1e-4
    assert off(projected(phantom, -ANGLES, 128), theirs) > 0.1


@pytest.mark.filterwarnings("ignore")
def test_deepinv_turns_the_other_way_with_bins_first(phantom: Array) -> None:
    tomography = pytest.importorskip("deepinv.physics").Tomography
    degrees = torch.from_numpy(np.rad2deg(ANGLES)).float()
    batch = torch.from_numpy(phantom).float()[None, None]
    for circle, bins in ((True, 128), (False, 182)):
        options = {"angles": degrees, "img_width": 128, "normalize": False, "circle": circle}
        theirs = tomography(**options).A(batch)[0, 0].t().numpy()
        assert theirs.shape == (60, bins)
        assert off(projected(phantom, -ANGLES, bins), theirs) < 0.01
        if circle:
            assert off(projected(phantom, -ANGLES, bins, "rotate"), theirs) < 1e-5


def test_torchtomo_turns_the_other_way_in_halves_of_the_image(phantom: Array) -> None:
    torchtomo = pytest.importorskip("torchtomo", reason="not among the development packages")
    batch = torch.from_numpy(phantom).float()[None, None]
    theirs = torchtomo.ParallelBeam(128, 60, 128)(batch)[0, 0].numpy()
    assert off(projected(phantom, -ANGLES, 128), 64 * theirs) < 0.01


@pytest.mark.filterwarnings("ignore")
def test_odl_has_x_first() -> None:
    odl = pytest.importorskip("odl", reason="ODL is not among the development packages")
    side, views = 33, 12
    where = np.arange(side) - 16.0
    image = np.exp(-np.add.outer(np.square(where + 5), np.square(where - 3)) / 18)
    half = side / 2
    space = odl.uniform_discr([-half, -half], [half, half], (side, side), dtype="float64")
    turns = odl.uniform_partition(0, np.pi, views)
    geometry = odl.applications.tomo.Parallel2dGeometry(
        turns, odl.uniform_partition(-half, half, side)
    )
    ray = odl.applications.tomo.RayTransform(space, geometry, impl="skimage")
    theirs = np.asarray(ray(space.element(image)).data)
    assert off(projected(image.T.copy(), turns.coord_vectors[0], side), theirs) < 0.02
    assert off(projected(image, turns.coord_vectors[0], side), theirs) > 0.2
