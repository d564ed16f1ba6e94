"""Curves of structured layers from examples, against fits of training sets of every size."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.fitting.ridge.diagonal import DiagonalRidge, tail_gram
from korisk.operators import Matrix
from korisk.prediction.lanczos import lanczos
from korisk.prediction.weights import moments as structured_moments
from korisk.prediction.weights.moments import structured_from_pairs
from korisk.prediction.weights.structured import Structured

WEIGHTS, PIXELS = 6, 10
NOISE = 0.5
RIGHT = torch.linspace(0.5, 1.5, WEIGHTS, dtype=torch.float64)
SIZES = [4, 16, 64, 256, 4096]


def make_tail(seed: int = 0, dtype: torch.dtype = torch.float64) -> Matrix:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(PIXELS, WEIGHTS, generator=generator, dtype=torch.float64)
    return Matrix(matrix.to(dtype), (WEIGHTS,), (PIXELS,))


def draw(count: int, seed: int, *, wrong: float = 1.0, bright: float = 0.3) -> tuple[Tensor, ...]:
    """Inputs of uneven brightness, and targets that no weights reach."""
    generator = torch.Generator().manual_seed(seed)
    kind: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    brightness = torch.exp(bright * torch.randn(count, 1, **kind))
    inputs = brightness * (1 + torch.randn(count, WEIGHTS, **kind))
    reached = (RIGHT * inputs) @ make_tail().matrix.T
    bent = (inputs @ make_tail(1).matrix.T).sin()
    targets = reached + wrong * bent + NOISE * torch.randn(count, PIXELS, **kind)
    return inputs, targets


@cache
def population() -> tuple[Tensor, ...]:
    """So many that they stand for all."""
    return draw(10_000, 99)


def far() -> Tensor:
    """Weights so wrong that no ridge towards them helps."""
    return torch.full((WEIGHTS,), 30.0, dtype=torch.float64)


def measured(n: int, trials: int, *, seed: int = 5) -> float:
    """The mean error of least squares of n examples each."""
    tail, gram = make_tail(), tail_gram(make_tail())
    test = population()
    inputs, targets = draw(n * trials, seed)
    rows = inputs.reshape(trials, n, WEIGHTS)
    right = (inputs * (targets @ tail.matrix)).reshape(trials, n, WEIGHTS).sum(1)
    fitted = torch.linalg.solve((rows.mT @ rows) * gram, right)
    normal = (test[0].T @ test[0]) * gram / len(test[0])
    linear = (test[0] * (test[1] @ tail.matrix)).mean(0)
    quadratic = ((fitted @ normal) * fitted).sum(1) - 2 * fitted @ linear
    return float(quadratic.mean() + test[1].square().sum(1).mean()) / PIXELS


def test_it_foretells_least_squares() -> None:
    curve = structured_from_pairs(make_tail(), far(), *population(), relu=False)
    for n, tolerance in ((16, 0.12), (40, 0.06), (160, 0.06)):
        excess = measured(n, 160_000 // n) - curve.floor
        assert curve.errors(n) - curve.floor == pytest.approx(excess, rel=tolerance)
    assert curve.slope / 160 == pytest.approx(measured(160, 1000) - curve.floor, rel=0.08)


def small_draws(*, relu: bool, count: int) -> list[tuple[Structured, float]]:
    """Curves of 16 examples each, with their own error of the true weights."""
    found = []
    for seed in range(count):
        inputs, targets = draw(16, 100 + seed, wrong=0.0)
        images = (RIGHT * inputs) @ make_tail().matrix.T
        error = float(((images.relu() if relu else images) - targets).square().mean())
        curve = structured_from_pairs(make_tail(), far(), inputs, targets, relu=relu)
        found.append((curve, error))
    return found


def test_few_examples_are_not_too_hopeful() -> None:
    """Noise of one size behind a true model: the floor is its square, p times that the slope."""
    draws = small_draws(relu=False, count=40)
    optimism = WEIGHTS / (16 * PIXELS)  # of the fit's own error, relative
    over = np.mean([curve.floor - error for curve, error in draws]) / NOISE**2
    assert over == pytest.approx(0.0, abs=0.3 * optimism)
    slopes = [curve.slope for curve, _ in draws]
    assert np.mean(slopes) == pytest.approx(NOISE**2 * WEIGHTS / PIXELS, rel=0.08)
    for name, values in (("floor", [each.floor for each, _ in draws]), ("slope", slopes)):
        spread = np.std(np.log(values))
        assert np.mean([getattr(each.spread, name) for each, _ in draws]) == pytest.approx(
            spread, rel=0.5
        )


def test_few_examples_know_how_much_one_of_many_weighs() -> None:
    """An example among 16 takes part in its own normal matrix, which many would outweigh."""

    def crowd(curve: Structured) -> float:
        assert curve.leverages is not None
        values, weights = curve.leverages
        return float(weights @ values**2)

    many = crowd(structured_from_pairs(make_tail(), far(), *population(), relu=False))
    few = np.mean([crowd(curve) for curve, _ in small_draws(relu=False, count=30)])
    assert few == pytest.approx(many, rel=0.15)


def test_behind_a_relu_they_are_not_too_hopeful_either() -> None:
    draws = small_draws(relu=True, count=30)
    optimism = NOISE**2 * WEIGHTS / (16 * PIXELS)
    over = np.mean([curve.floor - error for curve, error in draws])
    assert over == pytest.approx(0.0, abs=0.3 * optimism)


def test_it_foretells_ridge_regression_from_weights_that_are_nearly_right() -> None:
    near = RIGHT + 0.15
    curve = structured_from_pairs(make_tail(), near, *population(), relu=False)
    test = tuple(each[:1000] for each in population())
    for n in (4, 32):
        best = []
        for seed in range(16):
            training = DiagonalRidge(
                make_tail(), *draw(n, 1000 + seed), toward=near, relu=False, gram=None
            ).training(n)
            grid = [n * 10.0**power for power in np.arange(-1, 3.1, 0.5)]
            fitted = training.weights([*grid, math.inf])
            images = torch.einsum("lw,kw,pw->lkp", fitted, test[0], make_tail().matrix)
            best.append((images - test[1]).square().mean((1, 2)))
        expected = float(torch.stack(best).mean(0).min())
        assert curve.errors(n) == pytest.approx(expected, rel=0.03)
    assert curve.errors(4) < curve.floor + curve.slope / 4
    assert curve.effective(4) < curve.effective(32) < WEIGHTS


def test_right_weights_have_nothing_to_learn() -> None:
    curve = structured_from_pairs(make_tail(), RIGHT, *draw(300, 3, wrong=0.0), relu=False)
    assert curve.start == curve.analytic
    np.testing.assert_allclose(curve.errors(SIZES), curve.start, rtol=0.01)
    for seed in range(6):  # of which some find better weights than these, by chance
        few = structured_from_pairs(make_tail(), RIGHT, *draw(8, seed, wrong=0.0), relu=False)
        assert few.floor <= few.start
        assert np.all(few.errors(SIZES) <= few.start)


@pytest.mark.parametrize("relu", [False, True])
def test_all_routes_agree(monkeypatch: pytest.MonkeyPatch, relu: bool) -> None:
    inputs, targets = draw(64, 3)

    def curve() -> Structured:
        return structured_from_pairs(make_tail(), far() / 20, inputs, targets, relu=relu)

    whole = curve()
    monkeypatch.setattr(structured_moments, "_LARGEST_WHOLE", 0)
    factored = curve()
    # Sums with random signs stand for the examples here.
    np.testing.assert_allclose(factored.errors(SIZES), whole.errors(SIZES), rtol=0.05)
    assert factored.floor == pytest.approx(whole.floor, rel=1e-3)
    assert factored.slope == pytest.approx(whole.slope, rel=0.3)
    monkeypatch.setattr(structured_moments, "_LARGEST_STORED", 0)
    free = curve()
    assert free.slope == pytest.approx(whole.slope, rel=0.3)
    np.testing.assert_allclose(free.errors(SIZES[1:]), whole.errors(SIZES[1:]), rtol=0.03)
    assert free.floor == pytest.approx(whole.floor, rel=0.01)
    assert free.pull.weights.sum() == pytest.approx(whole.pull.weights.sum())
    assert free.spectrum.weights.sum() == pytest.approx(WEIGHTS)


def test_halves_tell_what_leverages_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stored matrix, over several draws: the same floor, slope and number of rows."""
    stored = small_draws(relu=False, count=12)
    monkeypatch.setattr(structured_moments, "_LARGEST_STORED", 0)
    halved = small_draws(relu=False, count=12)
    optimism = NOISE**2 * WEIGHTS / (16 * PIXELS)
    pairs = zip(halved, stored, strict=True)
    over = np.mean([each.floor - other.floor for (each, _), (other, _) in pairs])
    assert over == pytest.approx(0.0, abs=0.4 * optimism)
    slopes = [np.mean([each.slope for each, _ in draws]) for draws in (halved, stored)]
    assert slopes[0] == pytest.approx(slopes[1], rel=0.15)
    early = [np.mean([each.errors(8) for each, _ in draws]) for draws in (halved, stored)]
    assert early[0] == pytest.approx(early[1], rel=0.1)


def test_lanczos_sums_are_those_of_the_matrix() -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(3, 8, 8, generator=generator, dtype=torch.float64)
    matrices, start = root @ root.mT, torch.randn(3, 8, generator=generator, dtype=torch.float64)
    start[2] = 0
    space = lanczos(lambda rows: torch.einsum("bij,bj->bi", matrices, rows), start, steps=20)
    values, weights = space.nodes, space.weights
    solved = torch.linalg.solve(matrices, start)
    np.testing.assert_allclose(space.solved_above(1e-14)[:2], solved[:2], rtol=1e-6)
    assert not space.solved_above(1e-14)[2].any()
    squares = torch.einsum("bi,bij,bj->b", start, matrices @ matrices, start)
    np.testing.assert_allclose((weights * values**2).sum(1), squares, rtol=1e-9)
    np.testing.assert_allclose((weights[:2] / values[:2]).sum(1), (start * solved).sum(1)[:2])


def test_a_relu_behind_positive_images_changes_nothing() -> None:
    inputs, targets = draw(64, 3)
    tail = Matrix(make_tail().matrix.abs() + 0.1, (WEIGHTS,), (PIXELS,))
    inputs, targets = inputs.abs() + 1, targets.abs() + 20
    plain, behind = (
        structured_from_pairs(tail, far(), inputs, targets, relu=relu) for relu in (False, True)
    )
    assert behind.share == 1.0
    np.testing.assert_allclose(behind.errors(SIZES), plain.errors(SIZES), rtol=1e-12)


def test_a_relu_is_in_the_errors() -> None:
    inputs, targets = draw(2000, 3)
    targets = targets.clamp_min(0)
    plain, behind = (
        structured_from_pairs(make_tail(), RIGHT, inputs, targets, relu=relu)
        for relu in (False, True)
    )
    images = (inputs * RIGHT) @ make_tail().matrix.T
    assert behind.analytic == pytest.approx(float((images.relu() - targets).square().mean()))
    assert plain.analytic == pytest.approx(float((images - targets).square().mean()))
    assert 0.3 < behind.share < 0.9  # about half of the images is positive, its larger half
    assert behind.floor < plain.floor
    assert behind.slope == pytest.approx(behind.share * plain.slope)


@pytest.mark.parametrize(("of_inputs", "of_targets"), [(1e-3, 1.0), (1.0, 50.0), (1e4, 1e4)])
def test_units_do_not_matter(of_inputs: float, of_targets: float) -> None:
    inputs, targets = draw(64, 3)
    plain = structured_from_pairs(make_tail(), far(), inputs, targets, relu=False)
    scaled = structured_from_pairs(
        make_tail(),
        far() * of_targets / of_inputs,
        inputs * of_inputs,
        targets * of_targets,
        relu=False,
    )
    np.testing.assert_allclose(scaled.errors(SIZES), of_targets**2 * plain.errors(SIZES), rtol=1e-6)
    assert scaled.slope == pytest.approx(of_targets**2 * plain.slope)


def test_towards_zero_it_starts_from_no_image() -> None:
    inputs, targets = draw(64, 3)
    curve = structured_from_pairs(make_tail(), far(), inputs, targets, toward="zero", relu=False)
    other = structured_from_pairs(make_tail(), far(), inputs, targets, relu=False)
    assert curve.start == pytest.approx(float(targets.square().mean()))
    assert curve.analytic == other.analytic == other.start
    assert (curve.floor, curve.slope) == pytest.approx((other.floor, other.slope))


def test_rays_that_meet_nothing_do_not_matter() -> None:
    inputs, targets = draw(64, 3)
    wider = Matrix(
        torch.cat([make_tail().matrix, torch.ones(PIXELS, 2, dtype=torch.float64)], 1),
        (WEIGHTS + 2,),
        (PIXELS,),
    )
    padded = torch.cat([inputs, torch.zeros(64, 2, dtype=torch.float64)], 1)
    weights = torch.cat([far(), torch.ones(2, dtype=torch.float64)])
    plain = structured_from_pairs(make_tail(), far(), inputs, targets, relu=False)
    found = structured_from_pairs(wider, weights, padded, targets, relu=False)
    np.testing.assert_allclose(found.errors(SIZES), plain.errors(SIZES), rtol=1e-9)
    assert found.parameters == plain.parameters + 2


def test_more_weights_than_examples_see() -> None:
    """A tail of one pixel: 8 rows for 6 weights, then 8 for 12, of which 8 can be told."""
    for weights in (6, 12):
        generator = torch.Generator().manual_seed(0)
        kind: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
        tail = Matrix(torch.randn(1, weights, **kind), (weights,), (1,))
        inputs, targets = torch.randn(8, weights, **kind), torch.randn(8, 1, **kind)
        ones = torch.ones(weights, dtype=torch.float64)
        curve = structured_from_pairs(tail, ones, inputs, targets, relu=False)
        errors = curve.errors(SIZES)
        assert curve.spectrum.weights.sum() == min(weights, 8)
        assert np.all(np.isfinite(errors))
        assert np.all((errors >= 0) & (errors <= curve.start))


def test_exact_examples_have_no_error_left() -> None:
    inputs, _ = draw(32, 3)
    targets = (2 * inputs) @ make_tail().matrix.T
    curve = structured_from_pairs(make_tail(), far(), inputs, targets, relu=False)
    assert curve.floor < 1e-20
    assert curve.errors(64) < 1e-12
    black = structured_from_pairs(
        make_tail(), torch.zeros(WEIGHTS), inputs, torch.zeros_like(targets), relu=True
    )
    assert (black.errors(SIZES) < 1e-150).all()  # rounding, which has a logarithm
    assert (black.errors(SIZES) > 0).all()


def test_a_tail_that_loses_everything_learns_nothing() -> None:
    tail = Matrix(torch.zeros(PIXELS, WEIGHTS, dtype=torch.float64), (WEIGHTS,), (PIXELS,))
    inputs, targets = draw(16, 3)
    curve = structured_from_pairs(tail, far(), inputs, targets, relu=True)
    assert curve.errors(SIZES).tolist() == [curve.start] * len(SIZES)
    assert curve.start == pytest.approx(float(targets.square().mean()))
    assert (curve.slope, curve.effective(9), curve.holds_from) == (0.0, 0.0, 1)


def test_single_precision_gives_the_same() -> None:
    inputs, targets = draw(64, 3)
    weak = torch.logspace(0, -2, WEIGHTS, dtype=torch.float64)  # rays that bring little
    single, double = (
        structured_from_pairs(
            make_tail(dtype=dtype), far() / weak, inputs * weak, targets, relu=False
        )
        for dtype in (torch.float32, torch.float64)
    )
    np.testing.assert_allclose(single.errors(SIZES), double.errors(SIZES), rtol=1e-3)


def test_a_gram_that_is_given_is_used() -> None:
    inputs, targets = draw(64, 3)
    gram = tail_gram(make_tail())

    def curve(given: Tensor | None) -> Structured:
        return structured_from_pairs(make_tail(), far(), inputs, targets, relu=False, gram=given)

    assert curve(gram).errors(SIZES).tolist() == curve(None).errors(SIZES).tolist()
    assert curve(2 * gram).slope != pytest.approx(curve(None).slope)
    with pytest.raises(KoriskError, match=r"gram must have shape \(6, 6\), got \(5, 5\); use"):
        curve(gram[:5, :5])


def test_progress_grows_to_one() -> None:
    shares: list[float] = []
    structured_from_pairs(make_tail(), far(), *draw(16, 3), relu=False, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


NAN = torch.full((PIXELS,), math.nan, dtype=torch.float64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inputs": draw(7, 3)[0], "targets": draw(7, 3)[1]}, "examples must be 8 or more, got 7"),
        ({"inputs": draw(0, 3)[0], "targets": draw(0, 3)[1]}, "examples must be 8 or more, got 0"),
        ({"inputs": draw(9, 3)[0]}, "inputs and targets must be as many, got 9 and 16"),
        ({"inputs": draw(16, 3)[1]}, r"examples must map \(6,\) to \(10,\), got inputs of shape"),
        ({"targets": draw(16, 3)[1][0]}, r"and targets of \(\)"),
        ({"weights": torch.ones(5)}, r"weights must have an input's shape \(6,\), got \(5,\)"),
        ({"targets": draw(16, 3)[1] + NAN}, "targets must be finite numbers, got NaN"),
        ({"inputs": draw(16, 3)[0] / 0}, "inputs must be finite numbers"),
        ({"weights": far() * math.nan}, "weights must be finite numbers"),
        ({"inputs": torch.zeros(16, WEIGHTS)}, "inputs must not be zero in every entry"),
        ({"inputs": np.ones((16, WEIGHTS))}, "inputs must be a torch tensor, got ndarray"),
        ({"inputs": draw(16, 3)[0] * 1e200}, r"inputs must have squares that torch.float64 holds"),
        ({"toward": "analytical"}, "toward must be one of analytic, zero"),
    ],
)
def test_what_cannot_be_is_said(changes: dict[str, Any], words: str) -> None:
    inputs, targets = draw(16, 3)
    given: dict[str, Any] = {"weights": far(), "inputs": inputs, "targets": targets}
    with pytest.raises(KoriskError, match=words) as refused:
        structured_from_pairs(make_tail(), **given | changes, relu=False)
    assert "; " in str(refused.value)
    assert "\n" not in str(refused.value)
