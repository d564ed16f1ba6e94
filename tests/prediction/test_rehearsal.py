"""A rehearsal on the examples against the ridge regression that trains dense layers."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from korisk.fitting import DenseRidge
from korisk.fitting.scores import Scorer
from korisk.prediction import rehearsal
from korisk.prediction.rehearsal import rehearse

Array = NDArray[np.float64]


def pairs(count: int, *, noise: float = 0.3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    targets = rng.exponential(size=(count, 3, 4)) * (rng.random((count, 3, 4)) < 0.4)
    forward = rng.standard_normal((12, 20))
    inputs = targets.reshape(count, 12) @ forward
    return (inputs + noise * rng.standard_normal(inputs.shape)).reshape(count, 4, 5), targets


def trained(inputs: Array, targets: Array, sizes: Array, *, relu: bool) -> Array:
    """(4, sizes) errors of DenseRidge on the halves that a rehearsal takes."""
    rng, half = np.random.default_rng(0), len(inputs) // 2
    found = np.empty((4, len(sizes)))
    for split in range(4):
        order = rng.permutation(len(inputs))
        x, y = (torch.from_numpy(part[order]) for part in (inputs, targets))
        ridge = DenseRidge(x[:half], y[:half], relu=relu)
        for at, n in enumerate(sizes.astype(int)):
            training = ridge.training(int(n))
            score = training.scores(Scorer(x[half:], y[half:]))
            found[split, at] = min(
                score([training.scale * 10.0**e for e in np.arange(-9, 1.5, 0.5)])
            )
    return found


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("count", [33, 64])
def test_it_is_what_training_on_half_of_the_examples_gives(count: int, relu: bool) -> None:
    inputs, targets = pairs(count)
    checks = rehearse(inputs, targets, relu=relu)
    assert checks.n.tolist() == [4, 8, 16, 32][: len(checks)]
    assert checks.n[-1] == (16 if count == 33 else 32)
    logs = np.log(trained(inputs, targets, checks.n, relu=relu))
    assert checks.log_error == pytest.approx(logs.mean(axis=0), abs=1e-6)
    assert checks.variance == pytest.approx(logs.var(axis=0, ddof=1) + 0.03**2)


def test_a_relu_helps_where_targets_are_not_negative() -> None:
    inputs, targets = pairs(64)
    plain, clipped = (rehearse(inputs, targets, relu=relu) for relu in (False, True))
    assert (clipped.log_error < plain.log_error).all()


def test_a_sample_of_the_pixels_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, targets = pairs(64)
    every = rehearse(inputs, targets, relu=True)
    monkeypatch.setattr(rehearsal, "_PIXELS", 8)
    monkeypatch.setattr(rehearsal, "_ENTRIES", 64)
    some = rehearse(inputs, targets, relu=True)
    assert some.log_error == pytest.approx(every.log_error, abs=0.5)
    assert not np.array_equal(some.log_error, every.log_error)
    plain = rehearse(inputs, targets, relu=False)  # the sum over pixels costs nothing there
    monkeypatch.setattr(rehearsal, "_PIXELS", 4096)
    assert np.array_equal(plain.log_error, rehearse(inputs, targets, relu=False).log_error)


def test_thousands_of_examples_take_no_longer_than_a_thousand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert rehearsal.MOST_REHEARSED <= 2048
    monkeypatch.setattr(rehearsal, "MOST_REHEARSED", 32)
    inputs, targets = pairs(80)
    many, first = (
        rehearse(inputs, targets, relu=False),
        rehearse(inputs[:32], targets[:32], relu=False),
    )
    assert many.n.tolist() == [4, 8, 16]
    assert many.log_error == pytest.approx(first.log_error)


def test_seven_examples_are_too_few_to_split() -> None:
    checks = rehearse(*pairs(7), relu=False)
    assert len(checks) == 0
    assert rehearse(*pairs(8), relu=False).n.tolist() == [4]


@pytest.mark.parametrize("relu", [False, True])
def test_examples_without_anything_on_them_have_finite_checks(relu: bool) -> None:
    checks = rehearse(np.zeros((8, 5)), np.zeros((8, 5)), relu=relu)
    assert np.isfinite(checks.log_error).all()
    assert np.isfinite(checks.variance).all()


@pytest.mark.parametrize("factor", [1e-50, 1e50])
def test_units_do_not_matter(factor: float) -> None:
    inputs, targets = pairs(16)
    plain = rehearse(inputs, targets, relu=True)
    other = rehearse(factor * inputs, targets / factor, relu=True)
    assert other.log_error + 2 * np.log(factor) == pytest.approx(plain.log_error)
