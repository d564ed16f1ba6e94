"""How far a theory is off: the misfit against conditioning by hand, a rehearsal against ridge."""

import math
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

from korisk.fitting import DenseRidge
from korisk.fitting.ridge.choice import Scorer
from korisk.prediction import misfit as module
from korisk.prediction.misfit import (
    BELIEF,
    KNOWN_BELIEF,
    NOTHING_MEASURED,
    Belief,
    LogErrors,
    Misfit,
    rehearse,
)

Array = NDArray[np.float64]

DOCS = Path(__file__).parents[2] / "docs/explanation"

FAR = np.array([3.0, 100.0, 6e4])


def belief(shape: float, length: float, offset: float) -> Belief:
    return Belief(shapes=((shape, 1.0),), lengths=((length, 1.0),), offsets=((offset, 1.0),))


def prior_covariance(n: Array, real: Array, kind: Belief, level: float) -> Array:
    """Of a belief in one case."""
    ((shape, _),), ((length, _),), ((offset, _),) = kind.shapes, kind.lengths, kind.offsets
    u = np.log2(n)
    walk = shape**2 * np.exp(-np.abs(u[:, None] - u) / length)
    return np.asarray(walk + (offset**2 + level**2) * np.outer(real, real))


def checks(n: list[float], log_error: list[float], deviation: float = 0.05) -> LogErrors:
    return LogErrors(np.array(n), np.array(log_error), np.full(len(n), deviation**2))


SIMULATED = checks([4, 8, 16, 32], [0.1, 0.15, 0.05, -0.02])
REAL = checks([8, 64, 512], [0.3, 0.25, 0.4], 0.02)


@pytest.mark.parametrize("kind", [belief(0.3, 2.0, 0.1), belief(0.05, 6.0, 0.5)])
@pytest.mark.parametrize("level", [0.0, 0.2])
def test_it_is_the_normal_law_conditional_on_all_checks(kind: Belief, level: float) -> None:
    n = np.concatenate([SIMULATED.n, REAL.n, FAR])
    real = np.repeat([0.0, 1.0], [4, 6])
    noise = np.concatenate([SIMULATED.variance, REAL.variance, np.zeros(3)])
    joint = prior_covariance(n, real, kind, level) + np.diag(noise)
    data = np.concatenate([SIMULATED.log_error, REAL.log_error])
    gain = joint[7:, :7] @ np.linalg.inv(joint[:7, :7])
    made = Misfit(SIMULATED, REAL, level, kind)
    weights, means, deviations = made.moments(FAR)
    assert weights == pytest.approx([1.0])
    assert means[0] == pytest.approx(gain @ data)
    variance = np.diag(joint[7:, 7:] - gain @ joint[:7, 7:])
    assert deviations[0] == pytest.approx(np.sqrt(variance))
    assert made.law(FAR).under(np.full(3, 0.2)) == pytest.approx(
        norm.cdf(0.2, gain @ data, np.sqrt(variance))
    )
    both = multivariate_normal(np.zeros(7), joint[:7, :7]).logpdf(data)
    first = multivariate_normal(np.zeros(4), joint[:4, :4]).logpdf(data[:4])
    assert made.evidence == pytest.approx(both - first)


def test_cases_are_weighed_by_what_they_explain() -> None:
    """Weights are prior times likelihood, and the law is the cases' mixture."""
    mixed = Misfit(SIMULATED, REAL, 0.1)
    n = np.concatenate([SIMULATED.n, REAL.n])
    noise = np.diag(np.concatenate([SIMULATED.variance, REAL.variance]))
    data = np.concatenate([SIMULATED.log_error, REAL.log_error])
    logs, under = [], []
    for (a, p), (length, q), (offset, r) in product(BELIEF.shapes, BELIEF.lengths, BELIEF.offsets):
        kind = belief(a, length, offset)
        joint = prior_covariance(n, np.repeat([0.0, 1.0], [4, 3]), kind, 0.1) + noise
        logs.append(np.log(p * q * r) + multivariate_normal(np.zeros(7), joint).logpdf(data))
        under.append(Misfit(SIMULATED, REAL, 0.1, kind).law(FAR).under(np.full(3, 0.3)))
    weights = np.exp(logs) / np.exp(logs).sum()
    assert mixed.moments(FAR)[0] == pytest.approx(weights)
    assert mixed.law(FAR).under(np.full(3, 0.3)) == pytest.approx(weights @ np.array(under))


@pytest.mark.parametrize("kind", [BELIEF, KNOWN_BELIEF], ids=["plain", "known"])
def test_beliefs_are_laws_and_those_of_the_page(kind: Belief) -> None:
    """They were chosen once; figures on docs/explanation/predict.md are of these."""
    for grid in (kind.shapes, kind.lengths, kind.offsets):
        values, weights = zip(*grid, strict=True)
        assert sum(weights) == pytest.approx(1)
        assert min(weights) > 0
        assert all(0 < a < b for a, b in pairwise(values))
    page = " ".join((DOCS / "predict.md").read_text(encoding="utf-8").split())
    deviates = [f"{100 * shape:g}" for shape, _ in kind.shapes]
    (short, _), (long, _) = kind.lengths
    assert f"over {short:g} or {long:g} doublings" in page
    assert f"{', '.join(deviates[:-1])} or {deviates[-1]}%" in page


def test_nothing_measured_leaves_the_computed_curve_in_the_middle() -> None:
    made = Misfit(NOTHING_MEASURED, NOTHING_MEASURED, 0.0)
    assert made.law(FAR).under(np.zeros(3)) == pytest.approx(0.5)
    assert made.evidence == pytest.approx(0.0)
    wide = Misfit(NOTHING_MEASURED, NOTHING_MEASURED, 0.5)
    assert (wide.law(FAR).under(np.full(3, -0.5)) > made.law(FAR).under(np.full(3, -0.5))).all()


def test_simulations_do_not_tell_the_offset_of_reality() -> None:
    """However many say the same, a real error keeps the offset's and the level's spread."""
    sure = checks([2.0**k for k in range(2, 14)], [0.2] * 12, 0.001)
    found = Misfit(sure, NOTHING_MEASURED, 0.3, belief(0.1, 5.0, 0.4)).moments(np.array([64.0]))
    assert found[1][0] == pytest.approx([0.2], abs=0.01)
    assert found[2][0] == pytest.approx([0.5], rel=0.01)
    real = Misfit(sure, checks([64], [0.7], 0.001), 0.3, belief(0.1, 5.0, 0.4))
    assert real.moments(np.array([8.0]))[1][0] == pytest.approx([0.7], abs=0.01)  # all shifted


def test_what_few_examples_do_not_show_counts_beyond_them() -> None:
    """By hand: deviations d = .6 N / (N + K) / sqrt(K), which correlate by sqrt(d / d').

    The mean of what they do not show is half of d.
    """
    n, few = np.array([1.0, 16.0, 1e6]), replace(belief(1e-6, 3.0, 1e-6), unseen=0.6, raised=0.5)
    made = Misfit(NOTHING_MEASURED, NOTHING_MEASURED, 0.0, few, examples=16)
    _, (means,), (deviations,) = made.moments(n)
    assert means == pytest.approx(0.3 * n / (n + 16) / 4)
    assert deviations == pytest.approx(0.6 * n / (n + 16) / 4, abs=1e-4)
    told = Misfit(NOTHING_MEASURED, checks([64], [0.3], 0.001), 0.0, few, examples=16)
    _, (means,), (deviations,) = told.moments(np.array([64, 1e6]))
    near, far = 0.06, 0.075  # means before anything is measured
    assert means == pytest.approx([0.3, far + (0.3 - near) * math.sqrt(80 / 64)], rel=0.01)
    assert deviations == pytest.approx([0, 0.15 * math.sqrt(1 - 64 / 80)], abs=2e-3)


def test_far_sizes_are_known_least_and_a_theory_that_fits_is_the_likelier_one() -> None:
    made = Misfit(NOTHING_MEASURED, REAL, 0.0, belief(0.3, 2.0, 0.02))
    deviations = made.moments(np.array([512, 1024, 4096, 2.0**30]))[2][0]
    assert (np.diff(deviations) > 0).all()
    assert deviations[-1] == pytest.approx(0.3, rel=0.01)
    logs = ([0.01, -0.01, 0.02], [0.9, -0.8, 0.9])
    fits, worse = (Misfit(NOTHING_MEASURED, checks([8, 64, 512], log), 0.0) for log in logs)
    assert fits.evidence > 5 + worse.evidence


def pairs(count: int, *, noise: float = 0.3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    targets = rng.exponential(size=(count, 3, 4)) * (rng.random((count, 3, 4)) < 0.4)
    forward = rng.standard_normal((12, 20))
    inputs = targets.reshape(count, 12) @ forward
    return (inputs + noise * rng.standard_normal(inputs.shape)).reshape(count, 4, 5), targets


def trained(inputs: Array, targets: Array, n: int, *, relu: bool) -> Array:
    """(splits,) log errors of DenseRidge at the best penalty, on other examples in turn."""
    number, order = len(inputs), np.random.default_rng(0).permutation(len(inputs))
    splits = max(4, round(number / (number - n)))
    found = []
    for split in range(splits):
        turned = np.roll(order, -(split * number // splits))
        x, y = (torch.from_numpy(part[turned]) for part in (inputs, targets))
        training = DenseRidge(x[:n], y[:n], relu=relu).training(n)
        penalties = [training.scale * 10.0**e for e in np.arange(-9, 1.5, 0.5)]
        left = slice(max(n, number // 2), None)
        found.append(training.scores(Scorer(x[left], y[left]))(penalties))
    errors = np.array(found)  # (splits, penalties)
    return np.asarray(np.log(errors[:, errors.sum(axis=0).argmin()]))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("count", [33, 64])
def test_it_is_what_training_on_some_of_the_examples_gives(count: int, relu: bool) -> None:
    inputs, targets = pairs(count)
    checks = rehearse(inputs, targets, relu=relu)
    assert checks.n.tolist() == ([4, 8, 16, 24, 28] if count == 33 else [4, 8, 16, 32, 48, 56])
    for n, log_error, variance in zip(checks.n, checks.log_error, checks.variance, strict=True):
        logs = trained(inputs, targets, int(n), relu=relu)
        assert log_error == pytest.approx(logs.mean(), abs=1e-6)
        assert variance == pytest.approx(logs.var(ddof=1) + 0.03**2)
    assert checks.level == pytest.approx(logs.std(ddof=1) / math.sqrt(len(logs)))


def test_a_sample_of_the_pixels_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, targets = pairs(64)
    every = rehearse(inputs, targets, relu=True)
    # Targets are not negative, and the ReLU helps.
    assert (every.log_error < rehearse(inputs, targets, relu=False).log_error).all()
    monkeypatch.setattr(module, "PIXELS", 8)
    monkeypatch.setattr(module, "ENTRIES", 64)
    some = rehearse(inputs, targets, relu=True)
    assert some.log_error == pytest.approx(every.log_error, abs=0.5)
    assert not np.array_equal(some.log_error, every.log_error)


def test_no_group_is_fitted_and_left_out_at_once() -> None:
    """Copies count once: errors are those of the images without copies, not those of copies."""
    inputs, targets = pairs(32, noise=2.0)
    groups = np.repeat(np.arange(32), 4)
    copies = inputs[groups], targets[groups]
    grouped = rehearse(*copies, relu=False, groups=groups)
    once = rehearse(inputs, targets, relu=False)
    assert grouped.n.tolist() == once.n.tolist() == [4, 8, 16, 24, 28]
    assert grouped.log_error == pytest.approx(once.log_error, abs=0.3)
    assert rehearse(*copies, relu=False).log_error[-1] < once.log_error[-1] - 0.3


def test_seven_examples_are_too_few_to_split_and_empty_ones_have_finite_errors() -> None:
    assert len(rehearse(*pairs(7), relu=False)) == 0
    assert rehearse(*pairs(8), relu=False).n.tolist() == [4, 6, 7]
    for relu in (False, True):
        found = rehearse(np.zeros((8, 5)), np.zeros((8, 5)), relu=relu)
        assert np.isfinite([*found.log_error, *found.variance]).all()
